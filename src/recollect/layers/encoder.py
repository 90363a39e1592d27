"""Encoders: from a whole sequence to a Memory.

forward         any layer, run over the source; the memory's summary is its final state
bidirectional   any layer run in both directions, any number deep
convolution     gated convolutions over both sides, each with a residual connection
attention       full self-attention: every position attends to every other
transformer     blocks of full attention and feed-forward networks
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, glu

from ..core import ragged
from ..core.contract import Config as BaseConfig
from ..core.contract import ContractError, Encoder
from ..core.settings import MOST_LAYERS, at_least
from . import conv, gru, lstm, mlp, rnn
from .alignment import Places
from .attend import Attend, AttendConfig, Heads
from .keywords import constructed_from
from .norm import Config as NormConfig
from .norm import NormName
from .position import Added, PositionName, build_added, rotate, slopes
from .recurrent import Recurrent

START = torch.zeros(
    1, dtype=torch.int64
)  # the first position of every source; on the CPU, so that reading it does not wait


@dataclass(frozen=True, kw_only=True)
class ForwardConfig(BaseConfig):
    layer: BaseConfig

    def build(self) -> "Forward":
        return Forward(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=4, layer=lstm.Config(dim=4, width=3)), cls(dim=4, layer=conv.Config(dim=4))


@constructed_from(ForwardConfig)
class Forward(Encoder):
    """A layer run over the source from left to right."""

    def __init__(self, config: ForwardConfig) -> None:
        super().__init__()
        self.layer = config.layer.build()
        self.dim, self.width = config.dim, self.layer.width

    def encode(self, x: Tensor, lengths: Tensor, valid: Tensor) -> tuple[Tensor, Any]:
        return ragged.run(self.layer, x, lengths)


class TwoWay(NamedTuple):
    """The final states of one level of a bidirectional encoder."""

    forward: Any  # after the last input
    backward: Any  # after the first input


@dataclass(frozen=True, kw_only=True)
class BidirectionalConfig(BaseConfig):
    """`layer` in both directions; with `num_layers` the next level reads both outputs of the one below."""

    layer: BaseConfig
    num_layers: int = at_least(1, default=1, most=MOST_LAYERS)
    dropout: float = 0.0

    def build(self) -> "Bidirectional":
        return Bidirectional(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=4, layer=lstm.Config(dim=4, width=3), num_layers=2),
            cls(dim=4, layer=gru.Config(dim=4, reset="before")),
            cls(dim=3, layer=rnn.Config(dim=3)),
        )


@constructed_from(BidirectionalConfig)
class Bidirectional(Encoder):
    """A forward and a backward layer, their outputs concatenated."""

    forwards: Any  # ModuleLists of Layer
    backwards: Any

    def __init__(self, config: BidirectionalConfig) -> None:
        super().__init__()
        self.config = config
        self.dim = dim = config.dim
        self.forwards, self.backwards = nn.ModuleList(), nn.ModuleList()
        for _ in range(config.num_layers):
            for way in (self.forwards, self.backwards):
                way.append(replace(config.layer, dim=dim).build())
            dim = 2 * self.forwards[-1].width
        self.width = dim

    def encode(self, x: Tensor, lengths: Tensor, valid: Tensor) -> tuple[Tensor, tuple[TwoWay, ...]]:
        summary = []
        for level, (onward, back) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            if level:
                x = dropout(x, self.config.dropout, self.training)
            x, after, before = onward.both_ways(back, x, lengths)
            summary.append(TwoWay(after, before))
        return x, tuple(summary)

    def load_torch(self, module: nn.RNNBase) -> None:
        """Copy the weights of a bidirectional `torch.nn.RNN`, `LSTM` or `GRU` of the same size."""
        if not module.bidirectional or module.num_layers != len(self.forwards):
            raise ContractError(
                f"load_torch: expected a bidirectional module of {len(self.forwards)} layers, found "
                f"{'two' if module.bidirectional else 'one'} ways, {module.num_layers} layers"
            )
        weights = module.state_dict()
        for level, pair in enumerate(zip(self.forwards, self.backwards, strict=True)):
            for layer, suffix in zip(pair, ("", "_reverse"), strict=True):
                if not isinstance(layer, Recurrent):
                    raise ContractError(f"load_torch: expected rnn, lstm or gru inside, found {type(layer).__name__}")
                ending = f"_l{level}{suffix}"
                own = {name.removesuffix(ending) + "_l0": w for name, w in weights.items() if name.endswith(ending)}
                layer.copy_weights(module, own)


@dataclass(frozen=True, kw_only=True)
class ConvolutionConfig(BaseConfig):
    """`num_layers` blocks of gated convolutions with `kernel` taps, half of them on each side (Gehring 2017)."""

    num_layers: int = at_least(1, default=1, most=MOST_LAYERS)
    kernel: int = 3
    positions: Literal["none", "sinusoid", "learned"] = "sinusoid"
    max_positions: int = 1024
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kernel % 2 == 0:
            raise ContractError(f"convolution: expected an odd kernel, as many taps on each side, found {self.kernel}")

    def build(self) -> "Convolution":
        return Convolution(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=4, num_layers=2), cls(dim=3, kernel=5, positions="none")


@constructed_from(ConvolutionConfig)
class Convolution(Encoder):
    """Blocks of gated convolutions with residual connections."""

    def __init__(self, config: ConvolutionConfig) -> None:
        super().__init__()
        self.config = config
        self.dim = self.width = dim = config.dim
        self.added = build_added(config.positions, dim, config.max_positions)
        self.taps = nn.ModuleList(
            [nn.Conv1d(dim, 2 * dim, config.kernel, padding=config.kernel // 2) for _ in range(config.num_layers)]
        )

    def encode(self, x: Tensor, lengths: Tensor, valid: Tensor) -> tuple[Tensor, None]:
        x = add_positions(self.added, x)
        for taps in self.taps:
            x = x.masked_fill(~valid[..., None], 0)  # padding must not enter
            y = glu(taps(dropout(x, self.config.dropout, self.training).mT).mT, dim=-1)
            x = (x + y) * 0.5**0.5  # keeps the variance
        return x, None


def add_positions(added: Added | None, x: Tensor) -> Tensor:
    """x (B S D) plus its position encodings, if there are any to add."""
    if added is None:
        return x
    at = torch.arange(x.shape[1], device=x.device)
    if problem := added.diagnose(START, x.shape[1]):
        raise ContractError(f"encoder: {problem}")
    return x + added(at, x.dtype)


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(AttendConfig):
    """Full self-attention. Without positions it treats its input as a set."""

    positions: PositionName = "none"
    max_positions: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.positions == "rotary" and self.size % 2:
            raise ContractError(f"attention: rotary positions need an even head width, found {self.size}")

    def build(self) -> "FullAttention":
        return FullAttention(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=4, heads=2),
            cls(dim=4, project=False, score="dot"),
            cls(dim=8, heads=2, positions="rotary", bias=True),
            cls(dim=4, heads=4, kv_heads=2, positions="alibi", window=2),
            cls(dim=5, positions="sinusoid", score="additive"),
            cls(dim=4, positions="learned", score="general", max_positions=64),
            cls(dim=4, alignment="local", window=2),
        )


@constructed_from(AttentionConfig)
class FullAttention(Encoder):
    """Self-attention between all positions."""

    slopes: Tensor

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width = config.dim, config.out
        self.heads = Heads(config)
        self.attend = Attend(config)
        self.added = build_added(config.positions, config.dim, config.max_positions)
        if config.positions == "alibi":
            self.register_buffer("slopes", slopes(config.heads), persistent=False)

    def encode(self, x: Tensor, lengths: Tensor, valid: Tensor) -> tuple[Tensor, None]:
        q, k, v, places, bias = self.prepare(x, valid)
        return self.heads.merge(self.attend(q, k, v, places, bias=bias)), None

    def weights(self, x: Tensor, valid: Tensor) -> Tensor:
        """The attention weights: B H S S."""
        q, k, _, places, bias = self.prepare(x, valid)
        return self.attend.weights(q, k, places, bias=bias)

    def prepare(self, x: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor, Places, Tensor | None]:
        at = torch.arange(x.shape[1], device=x.device)[None]
        if self.added is not None:
            if problem := self.added.diagnose(START, x.shape[1]):
                raise ContractError(f"attention: {problem}")
            x = x + self.added(at, x.dtype)
        q, k = self.heads.query(x), self.heads.key(x)
        if self.config.positions == "rotary":
            q, k = rotate(q, at), rotate(k, at)
        visible = valid[:, None]
        places = Places(visible, at, at)
        if self.config.window is not None:
            near = places.offset().abs() < self.config.window
            # padding has no visible key near; let it see itself, so that no softmax is empty
            places = places._replace(visible=(visible & near) | (near & (places.offset() == 0)))
        bias = None
        if self.config.positions == "alibi":
            bias = -places.offset().abs()[:, None] * self.slopes[:, None, None]
        return q, k, self.heads.value(x), places, bias


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BaseConfig):
    """`num_layers` blocks; sinusoid or learned positions are added once at the bottom.

    `inner_dropout` is that of attention's weights and inside feed-forward networks (None: as `dropout`).
    """

    num_layers: int = at_least(1, default=1, most=MOST_LAYERS)
    heads: int = 1
    hidden: int | None = None
    activation: mlp.ActivationName = "relu"
    norm: NormName = "layer"
    order: Literal["pre", "post"] = "pre"
    positions: PositionName = "sinusoid"
    max_positions: int = 1024
    bias: bool = True
    dropout: float = 0.0
    inner_dropout: float | None = None

    def build(self) -> "TransformerEncoder":
        return TransformerEncoder(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=4, heads=2, num_layers=2), cls(dim=4, order="post", positions="rotary", norm="rms")


@constructed_from(TransformerConfig)
class TransformerEncoder(Encoder):
    """Blocks of full attention and feed-forward networks, each with a residual connection."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.dim = self.width = dim = config.dim
        self.added = build_added(config.positions, dim, config.max_positions)
        inside: PositionName = config.positions if self.added is None else "none"
        rate = config.dropout if config.inner_dropout is None else config.inner_dropout
        attention = AttentionConfig(dim=dim, heads=config.heads, positions=inside, bias=config.bias, dropout=rate)
        feed = mlp.Config(dim=dim, hidden=config.hidden, activation=config.activation, bias=config.bias, dropout=rate)
        self.blocks = nn.ModuleList([EncoderBlock(config, attention, feed) for _ in range(config.num_layers)])
        last: NormName = config.norm if config.order == "pre" else "none"
        self.norm = NormConfig(dim=dim, kind=last).build()

    def called(self) -> Any:
        """The parts whose weights are read in their own calls alone, so that they can be sharded by themselves."""
        return self.blocks

    def encode(self, x: Tensor, lengths: Tensor, valid: Tensor) -> tuple[Tensor, None]:
        x = add_positions(self.added, x)
        for block in self.blocks:
            x = block(x, lengths, valid)
        return self.norm.apply_to(x), None


class EncoderBlock(nn.Module):
    """Attention, then a feed-forward network, each as a residual sublayer."""

    norms: Any  # ModuleList of Norm

    def __init__(self, config: TransformerConfig, attention: AttentionConfig, feed: mlp.Config) -> None:
        super().__init__()
        self.config = config
        self.attention, self.feed = attention.build(), feed.build()
        self.norms = nn.ModuleList([NormConfig(dim=config.dim, kind=config.norm).build() for _ in range(2)])

    def forward(self, x: Tensor, lengths: Tensor, valid: Tensor) -> Tensor:
        for norm, sublayer in zip(
            self.norms,
            (lambda x: self.attention.encode(x, lengths, valid)[0], self.feed.apply_to),
            strict=True,
        ):
            y = sublayer(norm.apply_to(x) if self.config.order == "pre" else x)
            x = x + dropout(y, self.config.dropout, self.training)
            x = x if self.config.order == "pre" else norm.apply_to(x)
        return x
