"""A language model: tokens in, logits for the next token out, any layer of the lineage between.

STATE   that of its layers
UPDATE  theirs
READ    logits = W·(norm of the top layer's output) + b, W tied to the embedding or not

`model` names the layer by its place in history. Plain models are stacks, as in the classic papers; residual
ones put each layer, and a feed-forward network after it, around a shortcut.
"""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from ..core.contract import Config as LayerConfig
from ..core.contract import ContractError, Cost, Layer, Memory, check_settings, check_state
from ..layers import LAYERS, combine, known, mlp, norm, position
from ..layers import dropout as drop
from ..layers.norm import NormName
from ..layers.position import PositionName
from . import size

ModelName = Literal[
    "ar", "mlp", "rnn", "lstm", "gru", "tcn", "transformer", "linear-transformer", "ttt-linear", "ttt-mlp"
]


@dataclass(frozen=True)
class Kind:
    """What a model's name stands for: its layer, that layer's own settings, and how layers are put together."""

    layer: str
    settings: dict[str, Any] = field(default_factory=dict)
    block: Literal["plain", "residual"] = "plain"
    heads: bool = False


KINDS: dict[str, Kind] = {
    "ar": Kind("window", {"tau": 8}),
    "mlp": Kind("window", {"tau": 8, "map": "mlp"}),
    "rnn": Kind("rnn"),
    "lstm": Kind("lstm"),
    "gru": Kind("gru"),
    "tcn": Kind("tcn-block"),
    "transformer": Kind("attention", block="residual", heads=True),
    "linear-transformer": Kind("linear-attention", block="residual", heads=True),
    "ttt-linear": Kind("ttt-linear", block="residual", heads=True),
    "ttt-mlp": Kind("ttt-mlp", block="residual", heads=True),
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """`layer` holds settings of the model's own layer, such as score or window; None leaves a choice to the model.

    `embed` is the width of the embedding (default: width); where it differs, a plain stack begins and ends
    there. `word_dropout` leaves whole tokens of the embedding out; `variational` keeps one dropout mask for a chunk.
    """

    vocab: int
    model: ModelName = "transformer"
    width: int = 128
    layers: int = 2
    heads: int = 4
    embed: int | None = None
    block: Literal["plain", "residual"] | None = None
    feed: bool = True
    hidden: int | None = None
    activation: mlp.ActivationName = "gelu"
    norm: NormName = "layer"
    order: Literal["pre", "post"] = "pre"
    positions: PositionName | None = None
    max_positions: int = 1024
    bias: bool = False
    tie: bool = True
    dropout: float = 0.0
    input_dropout: float | None = None
    output_dropout: float | None = None
    word_dropout: float = 0.0
    variational: bool = False
    layer: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self)
        allowed = {f.name for f in fields(LAYERS[KINDS[self.model].layer])} - {"dim", "width"}
        for name in self.layer:
            known(f"setting of {self.model}", name, sorted(allowed))

    @property
    def kind(self) -> Kind:
        return KINDS[self.model]

    @property
    def residual(self) -> bool:
        return (self.block or self.kind.block) == "residual"

    def build(self) -> "LanguageModel":
        return LanguageModel(self)

    def stack(self) -> combine.StackConfig:
        """The layers between embedding and logits, spelled out."""
        embed = self.embed or self.width
        places = self.positions or ("rotary" if self.model == "transformer" else "none")
        parts: list[LayerConfig | None] = []
        if places in ("sinusoid", "learned"):
            parts.append(position.Config(dim=embed, kind=places, max_positions=self.max_positions))  # type: ignore[arg-type]
        parts.append(self._drop(embed, self.dropout if self.input_dropout is None else self.input_dropout))
        parts += self._residual(embed, places) if self.residual else self._plain(embed, places)
        return combine.StackConfig(dim=embed, layers=tuple(part for part in parts if part is not None))

    def _plain(self, embed: int, places: str) -> list[Any]:
        widths = [self.width] * self.layers
        if self.tie and embed != self.width:
            widths[-1] = embed
        parts: list[Any] = []
        dim = embed
        for level, width in enumerate(widths):
            parts.append(self._layer(level, dim, width, places))
            last = level + 1 == len(widths)
            parts.append(self._drop(width, self.output_rate if last else self.dropout))
            dim = width
        return parts

    def _residual(self, embed: int, places: str) -> list[Any]:
        if embed != self.width:
            raise ContractError(f"language: residual blocks keep one width, found embed {embed} and width {self.width}")
        parts: list[Any] = []
        feed = mlp.Config(
            dim=embed, hidden=self.hidden, activation=self.activation, bias=self.bias, dropout=self.dropout
        )
        for level in range(self.layers):
            for layer in (self._layer(level, embed, embed, places), feed if self.feed else None):
                if layer is not None:
                    parts.append(
                        combine.ResidualConfig(
                            dim=embed, layer=layer, norm=self.norm, order=self.order, dropout=self.dropout
                        )
                    )
        if self.order == "pre":
            parts.append(norm.Config(dim=embed, kind=self.norm))
        parts.append(self._drop(embed, self.output_rate if self.output_dropout is not None else 0.0))
        return parts

    @property
    def output_rate(self) -> float:
        return self.dropout if self.output_dropout is None else self.output_dropout

    def _drop(self, dim: int, rate: float) -> LayerConfig | None:
        return drop.Config(dim=dim, dropout=rate, variational=self.variational) if rate else None

    def _layer(self, level: int, dim: int, width: int, places: str) -> LayerConfig:
        """The model's own layer at one level."""
        config = LAYERS[self.kind.layer]
        names = {f.name for f in fields(config)}
        settings: dict[str, Any] = dict(self.kind.settings)
        if self.kind.heads:
            settings["heads"] = self.heads
        if "positions" in names and places in ("rotary", "alibi"):
            settings["positions"] = places
        if self.model == "mlp" and self.hidden is not None:
            settings["hidden"] = self.hidden
        if self.model == "tcn":
            settings["dilation"] = 2**level
            settings["dropout"] = self.dropout
        if self.model == "transformer":
            settings |= {"bias": self.bias, "dropout": self.dropout}
        return config(dim=dim, width=width, **settings | self.layer)  # type: ignore[call-arg]


def width_for(config: Config, params: int) -> Config:
    """The same model at the width whose number of parameters is nearest to `params`."""
    grain = config.heads * 2 if config.kind.heads else 1
    what = f"{config.model} with a vocabulary of {config.vocab:,}"
    width = size.solve(lambda width: replace(config, width=width).build(), params, grain=grain, what=what)
    return replace(config, width=width)


class LanguageModel(Layer[tuple]):
    """Next-token prediction with any memory."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.body = config.stack().build()
        embed = self.body.dim
        if config.tie and self.body.width != embed:
            raise ContractError(
                f"language: tied weights need the top width {self.body.width} to be that of the embedding, {embed}; "
                "set tie=False"
            )
        self.dim, self.width = 1, config.vocab
        self.embedding = nn.Embedding(config.vocab, embed)
        self.head = nn.Linear(self.body.width, config.vocab)
        self.start()

    def start(self) -> None:
        """Initial weights: small normal ones in residual models (GPT-2's), torch's own in recurrent stacks."""
        scale = 0.02 if self.config.residual else self.body.width**-0.5
        nn.init.normal_(self.embedding.weight, std=scale)
        nn.init.zeros_(self.head.bias)
        if self.config.tie:
            self.head.weight = self.embedding.weight
        if not self.config.residual:
            return
        for name, module in self.body.named_modules():
            if isinstance(module, nn.Linear):
                deep = name.endswith((".out", ".down"))
                nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * self.config.layers) if deep else 0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> tuple:
        return self.body.initial_state(batch, memory, like, capacity)

    def check(self, x: Tensor, state: Any) -> None:
        if x.dim() != 2 or x.shape[1] == 0 or x.is_floating_point():
            raise ContractError(
                f"language model: expected tokens of shape (batch, steps ≥ 1), found {x.dtype} {tuple(x.shape)}"
            )
        if state is not None:
            check_state(self, state, len(x))

    def diagnose(self, x: Tensor, state: Any) -> str | None:
        if x.numel() and not 0 <= int(x.min()) <= int(x.max()) < self.config.vocab:
            return f"expected tokens from 0 to {self.config.vocab - 1}, found {int(x.min())} to {int(x.max())}"
        return None

    def forward(self, x: Tensor, state: tuple | None = None, memory: Memory | None = None) -> tuple[Tensor, tuple]:
        """x: B T tokens → logits B T V."""
        y, state = self.hidden(x, state, memory)
        return self.head(y), state

    def hidden(self, x: Tensor, state: tuple | None = None, memory: Memory | None = None) -> tuple[Tensor, tuple]:
        """What the logits are read from: B T W."""
        return self.body(self.embed(x), self.initial_state(len(x), memory) if state is None else state)

    def nll(
        self, x: Tensor, targets: Tensor, state: tuple | None = None, *, smoothing: float = 0.0
    ) -> tuple[Tensor, tuple]:
        """−log p(target) in nats, B T, and the state; with label smoothing, the loss to train on."""
        logits, state = self(x, state)
        losses = cross_entropy(
            logits.flatten(0, 1).float(), targets.flatten(), reduction="none", label_smoothing=smoothing
        )
        return losses.view_as(targets), state

    def embed(self, x: Tensor) -> Tensor:
        if not (self.training and self.config.word_dropout):
            return self.embedding(x)
        rows = self.embedding.weight.new_ones(self.config.vocab, 1)
        return nn.functional.embedding(x, self.embedding.weight * dropout(rows, self.config.word_dropout))

    def unroll(self, x: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        y, state = self.body.unroll(self.embed(x), state)
        return self.head(y), state

    def ragged(self, x: Tensor, lengths: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        y, state = self.body.ragged(self.embed(x), lengths, state)
        return self.head(y), state

    def explain(self, state: tuple, x: Tensor) -> dict[str, Tensor]:
        return self.body.explain(state, self.embed(x))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        body = self.body.cost(batch, steps, source)
        return Cost(body.flops + 2 * batch * steps * self.head.weight.numel(), body.state_bytes)
