"""Layers and encoders: as classes (`LSTM(dim=8, width=16)`), and by name (`build("lstm", dim=8, width=16)`).

A layer is one file with a `Config`. A file without an entry below is registered under its own name; an entry gives a
layer its place in the lineage, or another name.
"""

# what a program gives is checked whatever its type says
# pyright: reportUnnecessaryIsInstance=false

import importlib
import pkgutil
import sys
from typing import Any, NamedTuple

from ..core.contract import Config, ContractError, Encoder, Layer
from ..core.limits import checked_allocation
from ..core.settings import find_name
from . import (
    attention,
    combine,
    context,
    conv,
    cross_attention,
    delta,
    dropout,
    encoder,
    fixed,
    gated_conv,
    gated_delta,
    gla,
    gru,
    keywords,
    linear_attention,
    lstm,
    mamba2,
    matrix,
    mingru,
    minlstm,
    mlp,
    norm,
    outside,
    position,
    retention,
    rnn,
    soft_align,
    tcn,
    transformer,
    ttt,
    window,
)
from .classes import (
    GLA,
    GRU,
    LSTM,
    RNN,
    TTTMLP,
    Attention,
    Bidirectional,
    CausalConv,
    Contextual,
    Convolution,
    CrossAttention,
    DeltaNet,
    Dropout,
    FeedForward,
    Fixed,
    Forward,
    FullAttention,
    GatedConv,
    GatedDeltaNet,
    LinearAttention,
    Mamba2,
    Matrix,
    MinGRU,
    MinLSTM,
    Norm,
    Position,
    Residual,
    Retention,
    SoftAlign,
    Stack,
    TCNBlock,
    TransformerBlock,
    TransformerEncoder,
    TTTLinear,
    Window,
)

__all__ = [
    "ENCODERS",
    "GLA",
    "GRU",
    "LAYERS",
    "LINEAGE",
    "LSTM",
    "RNN",
    "TTTMLP",
    "Attention",
    "Bidirectional",
    "Card",
    "CausalConv",
    "Contextual",
    "Convolution",
    "CrossAttention",
    "DeltaNet",
    "Dropout",
    "FeedForward",
    "Fixed",
    "Forward",
    "FullAttention",
    "GatedConv",
    "GatedDeltaNet",
    "LinearAttention",
    "Mamba2",
    "Matrix",
    "MinGRU",
    "MinLSTM",
    "Norm",
    "Position",
    "Residual",
    "Retention",
    "SoftAlign",
    "Stack",
    "TCNBlock",
    "TTTLinear",
    "TransformerBlock",
    "TransformerEncoder",
    "Window",
    "add",
    "build",
    "build_encoder",
    "card",
]

LINEAGE: dict[str, type[Config]] = {
    "window": window.Config,
    "rnn": rnn.Config,
    "lstm": lstm.Config,
    "gru": gru.Config,
    "mingru": mingru.Config,
    "minlstm": minlstm.Config,
    "conv": conv.Config,
    "attention": attention.Config,
    "linear-attention": linear_attention.Config,
    "retention": retention.Config,
    "gla": gla.Config,
    "mamba2": mamba2.Config,
    "delta": delta.Config,
    "gated-delta": gated_delta.Config,
    "ttt-linear": ttt.Config,
    "ttt-mlp": ttt.MlpConfig,
    "soft-align": soft_align.Config,
    "cross-attention": cross_attention.Config,
}
PARTS: dict[str, type[Config]] = {
    "position": position.Config,
    "norm": norm.Config,
    "feed-forward": mlp.Config,
    "dropout": dropout.Config,
    "fixed": fixed.Config,
    "context": context.Config,
    "gated-conv": gated_conv.Config,
    "tcn-block": tcn.Config,
    "matrix": matrix.Config,
    "transformer-block": transformer.Config,
    "stack": combine.StackConfig,
    "residual": combine.ResidualConfig,
}
LAYERS: dict[str, type[Config]] = LINEAGE | PARTS
ENCODERS: dict[str, type[Config]] = {
    "forward": encoder.ForwardConfig,
    "bidirectional": encoder.BidirectionalConfig,
    "convolution": encoder.ConvolutionConfig,
    "attention": encoder.AttentionConfig,
    "transformer": encoder.TransformerConfig,
}


def add(name: str, config: type[Config]) -> None:
    """Register a layer from outside the package: `build`, and every model that is a stack of layers, then take it."""
    if name in LINEAGE or name in PARTS:
        raise ContractError(f"layers: expected a name of your own, found {name!r}, which is taken; choose another")
    if not (isinstance(config, type) and issubclass(config, Config)):
        raise ContractError(f"layers: expected a subclass of contract.Config for {name!r}, found {config!r}")
    LAYERS[name] = config


def own_layers() -> list[str]:
    """The layers from outside the package, by name."""
    return [name for name, config in LAYERS.items() if not config.__module__.startswith(f"{__name__}.")]


def build(name: str, /, **settings: Any) -> Layer[Any]:
    """A layer by its name in `LAYERS`: `build("lstm", dim=64, num_layers=2)`."""
    config = configure(LAYERS, "layer", name, **settings)
    with checked_allocation(f"layer: {name}", "lower dim or width"):
        return config.build()


def build_encoder(name: str, /, *, dim: int, **settings: Any) -> Encoder:
    """An encoder by its name in `ENCODERS`: `build_encoder("bidirectional", dim=64, layer=lstm.Config(dim=64))`."""
    return configure(ENCODERS, "encoder", name, dim=dim, **settings).build()


def configure(registry: dict[str, type[Config]], what: str, name: str, /, **settings: Any) -> Config:
    """The checked settings of a registered layer; a misspelt name gets a suggestion."""
    if name not in registry:
        outside.check_usable(name)
        name = find_name(what, name, registry)
    return keywords.configure(registry[name], name, settings)


def __dir__() -> list[str]:
    return __all__


class Card(NamedTuple):
    """The description of a layer, from the docstring of its file."""

    name: str
    summary: str
    state: str
    update: str
    read: str
    grows: str
    fast: str


def card(name: str) -> Card:
    """The card of a layer, read from the docstring at the head of its file; entries that it lacks are empty."""
    text = sys.modules[LAYERS[name].__module__].__doc__ or ""
    summary, *lines = text.splitlines() or [""]
    entries = dict.fromkeys(Card._fields[2:], "")
    current = None
    for line in lines:
        head, _, rest = line.partition(" ")
        if head.isupper() and head.lower() in entries:
            current = head.lower()
            entries[current] = rest.strip()
        elif current and line.startswith("        "):
            entries[current] += " " + line.strip()
        else:
            current = None
    return Card(name, summary, **entries)


def discover() -> None:
    """Register the Config of each file here that has no entry above, under the name of its file."""
    for module in pkgutil.iter_modules(__path__):
        config = getattr(importlib.import_module(f"{__name__}.{module.name}"), "Config", None)
        if config is not None and config not in LAYERS.values() and config.__module__.endswith(f".{module.name}"):
            add(module.name.replace("_", "-"), config)


discover()
outside.register(add)
