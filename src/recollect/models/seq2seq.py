"""Sequence to sequence: an encoder reads the source, a decoder writes the target; models differ in how it reads.

    fixed         the encoder's last state is the decoder's first, and all that it has of the source (Sutskever 2014)
    context       the same gist of the source enters every step and the output (Cho 2014)
    attend        soft alignment: at every step the source is looked up anew (Bahdanau 2015, Luong 2015)
    conv          convolutions on both sides, attention between them (Gehring 2017)
    transformer   attention on both sides and between them (Vaswani 2017)

Any other layer of the registry, as one of RECOLLECT_LAYERS, is a model by its name: that layer on both sides, attention
to the source after each of the decoder's. `encoder` names the layer that reads the source, whatever the decoder is.

STATE   that of the decoder's layers, with what they keep of the source
UPDATE  theirs
READ    logits = W·(the top layer's output) + b
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from ..core import ragged
from ..core.contract import Config as LayerConfig
from ..core.contract import ContractError, Cost, Encoder, Memory, check_settings
from ..core.settings import MOST_LAYERS, at_least
from ..layers import combine, context, cross_attention, encoder, fixed, gated_conv, mlp, norm, position, transformer
from ..layers import dropout as drop
from ..layers import soft_align as align
from ..layers.alignment import AlignmentName
from ..layers.attention import Config as AttentionConfig
from ..layers.fixed import CELLS, CellName
from ..layers.norm import NormName
from ..layers.score import ScoreName
from . import body, size
from .tokens import TokenModel, check_tokens


@dataclass(frozen=True)
class Kind:
    """What a model's name stands for: the decoder's layer as the registry names it, and what goes with it."""

    layer: str
    recurrent: bool = True  # else positions are added to the embeddings
    heads: bool = False  # of attention, with feed-forward networks between
    both_ways: bool = False  # whether a recurrent encoder reads in both directions, where the settings name none
    gist: Literal["state", "last"] | None = None  # what the decoder reads of the source, where that is one vector
    own: bool = False  # whether it is a layer of the registry, and none of the models here


KINDS: dict[str, Kind] = {
    "fixed": Kind("fixed", gist="state"),
    "context": Kind("context", gist="last"),
    "attend": Kind("soft-align", both_ways=True),
    "conv": Kind("gated-conv", recurrent=False),
    "transformer": Kind("transformer-block", recurrent=False, heads=True),
}
MODELS = tuple(KINDS)


def kind_of(model: str) -> Kind:
    """What a name stands for: one of the models here, or a layer that can be stacked."""
    if model in KINDS:
        return KINDS[model]
    body.kind_of(model)
    return Kind(model, both_ways=True, own=True)


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """How a decoder reads a Memory and writes tokens: everything but the encoder.

    None leaves a choice to the model: `gist` is what `fixed` and `context` know of the source; `kernel` is that of the
    convolutions. `share` uses the target's embedding as the output's weights too (`output`), or one table for source,
    target and output (`all`, for one vocabulary). `inner_dropout` is a Transformer's, of attention's weights and inside
    feed-forward networks (None: as `dropout`). `layer` holds settings of the model's own layer, where it is one of the
    registry.
    """

    model: str = "attend"
    cell: CellName = "gru"
    width: int = 256
    layers: int = at_least(1, default=1, most=MOST_LAYERS)
    embed: int | None = None
    heads: int = 4
    gist: Literal["state", "last", "mean"] | None = None
    align: Literal["align-first", "cell-first"] = "align-first"
    score: ScoreName | None = None
    alignment: AlignmentName = "softmax"
    window: int | None = None
    kernel: int = 3
    hidden: int | None = None
    activation: mlp.ActivationName = "relu"
    norm: NormName = "layer"
    order: Literal["pre", "post"] = "pre"
    positions: Literal["sinusoid", "learned", "rotary"] = "sinusoid"
    max_positions: int = 1024
    share: Literal["none", "output", "all"] = "output"
    dropout: float = 0.1
    inner_dropout: float | None = None
    layer: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.layer and not self.kind.own:
            raise ContractError(
                f"seq2seq: expected settings of a layer with a layer's name as the model, found {sorted(self.layer)} "
                f"with {self.model}"
            )
        if self.kind.own:
            body.check_layer_settings(self.model, self.layer)
        if self.kind.heads and self.width % self.heads:
            raise ContractError(f"seq2seq: expected heads to divide width {self.width}, found {self.heads} heads")

    @property
    def kind(self) -> Kind:
        return kind_of(self.model)

    @property
    def inner(self) -> float:
        return self.dropout if self.inner_dropout is None else self.inner_dropout

    @property
    def entry(self) -> int:
        """Width of the embeddings."""
        return self.embed or self.width

    def decoder_config(self, memory_dim: int) -> LayerConfig:
        """The layers between the target's embedding and its logits, spelled out."""
        made: dict[str, Callable[[int], list[LayerConfig]]] = {
            "fixed": self._fixed,
            "context": self._context,
            "attend": self._attend,
            "conv": self._conv,
            "transformer": self._transformer,
        }
        layers = made.get(self.model, self._own)(memory_dim)
        if self.dropout and self.kind.recurrent:  # the others drop out inside
            layers = [drop.Config(dim=self.entry, dropout=self.dropout), *layers]
            layers.append(drop.Config(dim=self.width, dropout=self.dropout))
        return combine.StackConfig(dim=self.entry, layers=tuple(layers))

    def fit_width(self, params: int, what: str) -> Self:
        """The same model at the width whose number of parameters is nearest to `params`."""
        grain = 2 * self.heads if self.kind.heads else 2
        return size.fit(self, params, grain=grain, what=what, feeds=self.kind.heads)

    def _recurrent(self, memory_dim: int) -> dict[str, Any]:
        return {
            "dim": self.entry,
            "width": self.width,
            "memory_dim": memory_dim,
            "cell": self.cell,
            "num_layers": self.layers,
            "dropout": self.dropout if self.layers > 1 else 0.0,
        }

    def _fixed(self, memory_dim: int) -> list[LayerConfig]:
        return [fixed.Config(start=self.gist or "mean", **self._recurrent(memory_dim))]

    def _context(self, memory_dim: int) -> list[LayerConfig]:
        if self.gist == "state":
            raise ContractError("seq2seq: context takes one vector, gist=last or gist=mean, found gist=state")
        return [context.Config(gist=self.gist or "mean", **self._recurrent(memory_dim))]

    def _attend(self, memory_dim: int) -> list[LayerConfig]:
        attention: dict[str, Any] = {
            "order": self.align,
            "score": self.score or "additive",
            "alignment": self.alignment,
        }
        return [align.Config(**self._recurrent(memory_dim), **attention, window=self.window)]

    def _source_attention(self, memory_dim: int, heads: int) -> cross_attention.Config:
        return cross_attention.Config(
            dim=self.width,
            heads=heads,
            memory_dim=memory_dim,
            score=self.score or "scaled",
            alignment=self.alignment,
            window=self.window,
            bias=True,
            dropout=self.inner if self.kind.heads else 0.0,
        )

    def _placed(self) -> list[LayerConfig]:
        """Positions added to the embedding, and dropout after them."""
        self._one_width()
        layers: list[LayerConfig] = []
        if self.positions != "rotary":
            layers.append(position.Config(dim=self.width, kind=self.positions, max_positions=self.max_positions))
        return [*layers, drop.Config(dim=self.width, dropout=self.dropout)] if self.dropout else layers

    def _one_width(self) -> None:
        if self.entry != self.width:
            raise ContractError(
                f"seq2seq: {self.model} keeps one width, found embed {self.embed} and width {self.width}"
            )

    def _conv(self, memory_dim: int) -> list[LayerConfig]:
        layers = self._placed()
        for _ in range(self.layers):
            for layer in (gated_conv.Config(dim=self.width, kernel=self.kernel), self._source_attention(memory_dim, 1)):
                layers.append(combine.ResidualConfig(dim=self.width, layer=layer, norm=self.norm, dropout=self.dropout))
        return [*layers, norm.Config(dim=self.width, kind=self.norm)]

    def _own(self, memory_dim: int) -> list[LayerConfig]:
        """The model's own layer and attention to the source in turn, each around a shortcut where widths allow it."""
        layers: list[LayerConfig] = []
        for level in range(self.layers):
            dim = self.width if level else self.entry
            own = body.layer_config(self.model, dim, self.width, self.layer)
            around = combine.ResidualConfig(dim=dim, layer=own, norm=self.norm) if dim == self.width else own
            attention = self._source_attention(memory_dim, 1)
            layers += [around, combine.ResidualConfig(dim=self.width, layer=attention, norm=self.norm)]
        return [*layers, norm.Config(dim=self.width, kind=self.norm)]

    def _transformer(self, memory_dim: int) -> list[LayerConfig]:
        places = "rotary" if self.positions == "rotary" else "none"
        block = transformer.Config(
            dim=self.width,
            attention=AttentionConfig(
                dim=self.width, heads=self.heads, positions=places, bias=True, dropout=self.inner
            ),
            cross=self._source_attention(memory_dim, self.heads),
            hidden=self.hidden,
            activation=self.activation,
            norm=self.norm,
            order=self.order,
            dropout=self.dropout,
            inner_dropout=self.inner,
        )
        last = [norm.Config(dim=self.width, kind=self.norm)] if self.order == "pre" else []
        return [*self._placed(), *[block] * self.layers, *last]


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """`source` and `target` are the sizes of the vocabularies.

    `both_ways` encodes the source in both directions (recurrent models; None: where the model attends). `reverse` reads
    it from its end. `encoder_layers` is the number of layers on the source's side (default: as on the target's), and
    `encoder` the layer that reads it, as the registry names it (default: the cell, or the model's own).
    """

    source: int
    target: int
    both_ways: bool | None = None
    reverse: bool = False
    encoder_layers: int | None = at_least(1, default=None, most=MOST_LAYERS)
    encoder: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder is not None:
            body.kind_of(self.encoder)
        if self.share == "all" and self.source != self.target:
            raise ContractError(
                f"seq2seq: share=all needs one vocabulary, found {self.source:,} and {self.target:,} tokens; "
                "use a joint tokenizer"
            )

    def build(self) -> "Seq2Seq":
        return Seq2Seq(self)

    def source_entry(self) -> nn.Module:
        """What the places of a source enter by: a table of vectors."""
        return nn.Embedding(self.source, self.entry)

    @property
    def depth(self) -> int:
        return self.encoder_layers or self.layers

    @property
    def two_way(self) -> bool:
        own = self.encoder is not None and not self.kind.recurrent
        return (self.kind.both_ways or own) if self.both_ways is None else self.both_ways

    def resolved(self) -> Self:
        """With the gist of the papers where none is named: the last state as it is, or the last output."""
        if self.gist is not None or self.kind.gist is None:
            return self
        if self.encoder is not None:
            return replace(self, gist="mean")
        copied = self.kind.gist == "state" and not self.two_way and self.depth == self.layers
        return replace(self, gist="state" if copied else "last")

    def encoder_config(self) -> LayerConfig:
        """The encoder's settings."""
        if self.encoder is not None or self.kind.own:
            return self._layer_encoder(self.encoder or self.model)
        if self.kind.heads:
            return encoder.TransformerConfig(
                dim=self.width,
                num_layers=self.depth,
                heads=self.heads,
                hidden=self.hidden,
                activation=self.activation,
                norm=self.norm,
                order=self.order,
                positions=self.positions,
                max_positions=self.max_positions,
                dropout=self.dropout,
                inner_dropout=self.inner,
            )
        if not self.kind.recurrent:
            places = "sinusoid" if self.positions == "rotary" else self.positions
            return encoder.ConvolutionConfig(
                dim=self.width,
                num_layers=self.depth,
                kernel=self.kernel,
                positions=places,
                max_positions=self.max_positions,
                dropout=self.dropout,
            )
        cell = CELLS[self.cell](dim=self.entry, width=self.width)
        rate = self.dropout if self.depth > 1 else 0.0
        if self.two_way:
            return encoder.BidirectionalConfig(dim=self.entry, layer=cell, num_layers=self.depth, dropout=rate)
        return encoder.ForwardConfig(dim=self.entry, layer=replace(cell, num_layers=self.depth, dropout=rate))

    def _layer_encoder(self, name: str) -> LayerConfig:
        """A layer of the registry run over the source, from one end or from both."""
        settings = self.layer if name == self.model else {}
        rate = self.dropout if self.depth > 1 else 0.0
        if self.two_way:
            first = body.layer_config(name, self.entry, self.width, settings)
            return encoder.BidirectionalConfig(dim=self.entry, layer=first, num_layers=self.depth, dropout=rate)
        widths = [self.entry, *[self.width] * (self.depth - 1)]
        stack = [body.layer_config(name, dim, self.width, settings) for dim in widths]
        return encoder.ForwardConfig(dim=self.entry, layer=combine.StackConfig(dim=self.entry, layers=tuple(stack)))

    def sized(self, params: int) -> Self:
        """The same model at the width whose number of parameters is nearest to `params`."""
        return self.fit_width(params, f"{self.model} with vocabularies of {self.source:,} and {self.target:,}")


class Decoder(TokenModel[tuple]):
    """A decoder with an embedding and logits: writes tokens, given the Memory of any encoder."""

    noun = "decoder"

    def __init__(self, config: DecoderConfig, vocab: int, memory_dim: int) -> None:
        super().__init__()
        self.config, self.vocab = config, vocab
        self.decoder = config.decoder_config(memory_dim).build()
        self.embedding = nn.Embedding(vocab, config.entry)
        narrow = config.share != "none" and self.decoder.width != config.entry
        self.narrow = nn.Linear(self.decoder.width, config.entry) if narrow else nn.Identity()
        self.head = nn.Linear(config.entry if narrow else self.decoder.width, vocab)
        self.dim, self.width = 1, vocab
        self.start()

    def start(self) -> None:
        """Initial weights: Xavier's in attention and feed-forward networks, torch's own in recurrent cells."""
        if self.config.kind.heads:
            for module in self.decoder.modules():
                initialise(module)
        nn.init.normal_(self.embedding.weight, std=self.config.entry**-0.5)
        nn.init.zeros_(self.head.bias)
        if self.config.share != "none":
            self.head.weight = self.embedding.weight

    @property
    def scale(self) -> float:
        """Of the embeddings: √width where positions are added to them (Vaswani 2017)."""
        return math.sqrt(self.config.entry) if not self.config.kind.recurrent else 1.0

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> tuple:
        return self.decoder.initial_state(batch, memory, like, capacity)

    def embed(self, x: Tensor) -> Tensor:
        return self.embedding(x) * self.scale if self.scale != 1 else self.embedding(x)

    def logits(self, y: Tensor) -> Tensor:
        return self.head(self.narrow(y))

    def forward(self, x: Tensor, state: tuple | None = None, memory: Memory | None = None) -> tuple[Tensor, tuple]:
        """x: B T tokens of the target → logits B T V for the next of each."""
        state = self.initial_state(x.shape[0], memory) if state is None else state
        y, after = self.decoder(self.embed(x), state)
        return self.logits(y), after

    def unroll(self, x: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        y, state = self.decoder.unroll(self.embed(x), state)
        return self.logits(y), state

    def ragged(self, x: Tensor, lengths: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        y, state = self.decoder.ragged(self.embed(x), lengths, state)
        return self.logits(y), state

    def explain(self, state: tuple, x: Tensor) -> dict[str, Tensor]:
        """What the layers explain; and `source`, B S, how much of each place of the source went into this step.

        `source` is the mean over all layers and heads that attend to the source; a model without any leaves it out.
        """
        found = self.decoder.explain(state, self.embed(x))
        attended = [weights for name, weights in found.items() if name.endswith(".source")]  # B H S each
        return found | ({"source": torch.cat(attended, dim=1).mean(dim=1)} if attended else {})

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        body = self.decoder.cost(batch, steps, source)
        each = self.head.weight.numel()
        if isinstance(self.narrow, nn.Linear):
            each += self.narrow.weight.numel()
        return Cost(body.flops + 2 * batch * steps * each, body.state_bytes)


class Seq2Seq(Decoder):
    """An encoder for tokens, and a decoder that writes tokens."""

    source_embedding: Any  # maps what stands at each place of a source to a vector

    def __init__(self, config: Config) -> None:
        config = config.resolved()
        encoder: Encoder = config.encoder_config().build()
        super().__init__(config, config.target, encoder.width)
        self.config: Config = config
        self.encoder = encoder
        self.source_embedding = self.embedding if config.share == "all" else config.source_entry()
        if config.kind.heads:
            for module in encoder.modules():
                initialise(module)
        if config.share != "all":
            self.start_source()

    def start_source(self) -> None:
        """Initial weights of what the source enters by."""
        nn.init.normal_(self.source_embedding.weight, std=self.config.entry**-0.5)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        """source: B S tokens → what the decoder reads; places stand in the order of the source, however it was read."""
        check_tokens(source, "encoder")
        lengths = ragged.check_lengths(lengths, source, least=1)
        return self.read_source(
            self.embed_source(source.masked_fill(~ragged.mask(lengths, source.shape[1]), 0)), lengths
        )

    def embed_source(self, source: Tensor) -> Tensor:
        return self.source_embedding(source) * self.scale

    def read_source(self, x: Tensor, lengths: Tensor | None = None) -> Memory:
        """x: B S E, the source embedded → what the decoder reads."""
        lengths = ragged.check_lengths(lengths, x, least=1)
        if self.config.reverse:
            x = ragged.reverse(x, lengths)
        memory = self.encoder(dropout(x, self.config.dropout, self.training), lengths)
        return memory._replace(values=ragged.reverse(memory.values, lengths)) if self.config.reverse else memory

    def encoder_flops(self, batch: int, steps: int) -> int:
        """Of the matrix products that read a source of `steps` tokens."""
        products = sum(p.numel() for p in self.encoder.parameters() if p.dim() >= 2)
        pairs = 2 * self.config.depth * self.config.width * steps if self.config.kind.heads else 0
        return 2 * batch * steps * (products + pairs)


def initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
