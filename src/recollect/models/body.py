"""The body of every model that is a stack of layers: which layer, how many, how wide, and how they are put together.

`model` names the layer by its place in history, or as the registry does. Plain bodies are stacks, as in the classic
papers; residual ones put each layer, and a feed-forward network after it, around a shortcut.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Self

from torch import nn

from ..core.contract import Config as LayerConfig
from ..core.contract import ContractError, check_settings
from ..core.settings import MOST_LAYERS, at_least, find_name, known, match_name
from ..layers import LAYERS, combine, conv, mlp, norm, outside, own_layers, position
from ..layers import dropout as drop
from ..layers.norm import NormName
from ..layers.position import PositionName
from . import size

NAMED = f"model (or a layer that {outside.VARIABLE} names)"


@dataclass(frozen=True)
class Kind:
    """What a model's name stands for: its layer, that layer's own settings, and how layers are put together."""

    layer: str
    settings: dict[str, Any] = field(default_factory=dict)
    block: Literal["plain", "residual"] = "plain"
    positions: PositionName = "none"  # where the settings name none
    heads: bool = False
    # which of the body's settings are the layer's too
    hidden: bool = False
    dropout: bool = False
    dilated: bool = False  # whether the dilation doubles with each layer


KINDS: dict[str, Kind] = {
    "ar": Kind("window", {"tau": 8}),
    "mlp": Kind("window", {"tau": 8, "map": "mlp"}, hidden=True),
    "rnn": Kind("rnn"),
    "lstm": Kind("lstm"),
    "gru": Kind("gru"),
    "mingru": Kind("mingru", block="residual"),
    "minlstm": Kind("minlstm", block="residual"),
    "tcn": Kind("tcn-block", dropout=True, dilated=True),
    "transformer": Kind("attention", {"bias": False}, "residual", "rotary", heads=True, dropout=True),
    "linear-transformer": Kind("linear-attention", block="residual", heads=True),
    "retention": Kind("retention", block="residual", heads=True),
    "gla": Kind("gla", block="residual", heads=True),
    "mamba2": Kind("mamba2", block="residual", heads=True),
    "delta": Kind("delta", block="residual", heads=True),
    "gated-delta": Kind("gated-delta", block="residual", heads=True),
    "ttt-linear": Kind("ttt-linear", block="residual", heads=True),
    "ttt-mlp": Kind("ttt-mlp", block="residual", heads=True),
}


def kind_of(model: str) -> Kind:
    """What a name stands for: a model of the lineage, or any other layer of the registry, stacked as it is.

    Such a layer must be one that a stack can make as wide as it likes, and that reads nothing but its input.
    """
    if model not in LAYERS:
        outside.check_usable(model)
        return KINDS[known(NAMED, model, [*KINDS, *own_layers()])]
    if model in KINDS:
        if KINDS[model].layer != model:
            raise ContractError(
                f"model: expected one {model!r}, found the lineage's and a layer of that name; rename it"
            )
        return KINDS[model]
    names = {f.name for f in fields(LAYERS[model])}
    if "width" not in names:
        raise ContractError(f"model: expected a layer whose Config has a width, found {model!r} without; add `width`")
    if "memory_dim" in names:
        raise ContractError(
            f"model: expected a layer that reads its input alone, found {model!r}, which reads a source"
        )
    return Kind(model, heads="heads" in names)


def layer_config(model: str, dim: int, width: int, settings: dict[str, Any]) -> LayerConfig:
    """The layer that a name stands for, from one width to another, with settings of its own."""
    kind = kind_of(model)
    return LAYERS[kind.layer](dim=dim, width=width, **kind.settings | settings)  # type: ignore[call-arg]


def check_layer_settings(model: str, settings: Mapping[str, Any]) -> None:
    """Refuse a setting that the layer of a model does not have."""
    allowed = {f.name for f in fields(LAYERS[kind_of(model).layer])} - {"dim", "width"}
    for name in settings:
        known(f"setting of {model}", name, sorted(allowed))


class StackedModels:
    """For tasks whose models are stacks of layers: those they name, or any layer that can be stacked."""

    models: ClassVar[tuple[str, ...]]

    @classmethod
    def check_model(cls, model: str) -> str:
        model = match_name(model, LAYERS) or model
        if model not in LAYERS:
            outside.check_usable(model)
            model = find_name(NAMED, model, [*cls.models, *own_layers()])
        if model not in cls.models:
            kind_of(model)
        return model

    @classmethod
    def layer_of(cls, model: str) -> str:
        return KINDS[model].layer if model in KINDS else model


@dataclass(frozen=True, kw_only=True)
class BodyConfig:
    """`layer` holds settings of the model's own layer, such as score or window; None leaves a choice to the model.

    `variational` keeps one dropout mask for a chunk. `taps` puts a convolution over so many tokens, each channel by
    itself, around a shortcut before each layer of a residual body: what is near then needs no looking up. `bias` where
    it is None: as each layer has it, and none in a Transformer and its feed-forward networks.
    """

    model: str = "transformer"
    width: int = 128
    layers: int = at_least(1, default=2, most=MOST_LAYERS)
    heads: int = 4
    block: Literal["plain", "residual"] | None = None
    feed: bool = True
    hidden: int | None = None
    activation: mlp.ActivationName = "gelu"
    norm: NormName = "layer"
    order: Literal["pre", "post"] = "pre"
    positions: PositionName | None = None
    max_positions: int = 1024
    bias: bool | None = None
    dropout: float = 0.0
    input_dropout: float | None = None
    output_dropout: float | None = None
    variational: bool = False
    taps: int | None = None
    layer: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.taps is not None and not self.residual:
            raise ContractError(f"model: expected residual blocks with taps={self.taps}, found a plain stack")
        check_layer_settings(self.layer_name, self.layer)

    @property
    def layer_name(self) -> str:
        """What names the layer: the model itself, where it is not one that any layer can be put into."""
        return self.model

    @property
    def kind(self) -> Kind:
        return kind_of(self.layer_name)

    @property
    def residual(self) -> bool:
        return (self.block or self.kind.block) == "residual"

    @property
    def grain(self) -> int:
        """The step between widths that the model can have."""
        return self.heads * 2 if self.kind.heads else 1

    def build(self) -> Any:
        raise ContractError(f"{type(self).__qualname__}: a model's Config needs build()")

    def stack(self, dim: int, out: int | None = None) -> combine.StackConfig:
        """The layers, spelled out: from width `dim` to width `out` (a plain body's last layer; else the body's own)."""
        places = self.positions or self.kind.positions
        parts: list[LayerConfig | None] = []
        if places in ("sinusoid", "learned"):
            parts.append(position.Config(dim=dim, kind=places, max_positions=self.max_positions))  # type: ignore[arg-type]
        parts.append(self._drop(dim, self.dropout if self.input_dropout is None else self.input_dropout))
        parts += self._residual(dim, places) if self.residual else self._plain(dim, out or self.width, places)
        return combine.StackConfig(dim=dim, layers=tuple(part for part in parts if part is not None))

    def _plain(self, dim: int, out: int, places: str) -> list[Any]:
        widths = [*[self.width] * (self.layers - 1), out]
        parts: list[Any] = []
        for level, width in enumerate(widths):
            parts.append(self._layer(level, dim, width, places))
            last = level + 1 == len(widths)
            parts.append(self._drop(width, self.output_rate if last else self.dropout))
            dim = width
        return parts

    def _residual(self, dim: int, places: str) -> list[Any]:
        if dim != self.width:
            raise ContractError(f"model: residual blocks keep one width, found input {dim} and width {self.width}")
        parts: list[Any] = []
        feed = mlp.Config(
            dim=dim, hidden=self.hidden, activation=self.activation, bias=bool(self.bias), dropout=self.dropout
        )
        near = None if self.taps is None else conv.Config(dim=dim, kernel=self.taps, depthwise=True)
        for level in range(self.layers):
            for layer in (near, self._layer(level, dim, dim, places), feed if self.feed else None):
                if layer is not None:
                    parts.append(
                        combine.ResidualConfig(
                            dim=dim, layer=layer, norm=self.norm, order=self.order, dropout=self.dropout
                        )
                    )
        if self.order == "pre":
            parts.append(norm.Config(dim=dim, kind=self.norm))
        parts.append(self._drop(dim, self.output_rate if self.output_dropout is not None else 0.0))
        return parts

    @property
    def output_rate(self) -> float:
        return self.dropout if self.output_dropout is None else self.output_dropout

    def _drop(self, dim: int, rate: float) -> LayerConfig | None:
        return drop.Config(dim=dim, dropout=rate, variational=self.variational) if rate else None

    def _layer(self, level: int, dim: int, width: int, places: str) -> LayerConfig:
        """The model's own layer at one level."""
        kind = self.kind
        config = LAYERS[kind.layer]
        names = {f.name for f in fields(config)}
        settings: dict[str, Any] = dict(kind.settings)
        if kind.heads:
            settings["heads"] = self.heads
        if "positions" in names and places in ("rotary", "alibi"):
            settings["positions"] = places
        if kind.hidden and self.hidden is not None:
            settings["hidden"] = self.hidden
        if kind.dropout:
            settings["dropout"] = self.dropout
        if kind.dilated:
            settings["dilation"] = 2**level
        if self.bias is not None and "bias" in names:
            settings["bias"] = self.bias
        return config(dim=dim, width=width, **settings | self.layer)  # type: ignore[call-arg]

    def sized(self, params: int, what: str) -> Self:
        """The same model at the width whose number of parameters is nearest to `params`."""
        return size.fit(self, params, grain=self.grain, what=what, feeds=self.residual and self.feed)


def initialise(body: Any, config: BodyConfig) -> None:
    """Residual bodies start as GPT-2 does, with what writes into the shortcut scaled down by depth."""
    if not config.residual:
        return
    for name, module in body.named_modules():
        if isinstance(module, nn.Linear):
            deep = name.endswith((".out", ".down"))
            nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * config.layers) if deep else 0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
