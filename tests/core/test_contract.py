"""Inputs and states that the contract does not allow are refused in one line."""

from typing import Any

import pytest
import torch

from laws.cases import describe, every_layer
from oracles import refused
from recollect.core import state as states
from recollect.core.contract import Layer
from recollect.layers import LAYERS, build, gru, lstm, position


def prepare(config: Any, batch: int = 2, steps: int = 4) -> tuple[Layer[Any], torch.Tensor, Any]:
    layer = config.build().double().eval()
    example = config.example(batch, steps, dtype=torch.float64)
    return layer, example.x, layer.initial_state(batch, memory=example.memory, like=example.x)


@every_layer
def test_x_of_another_shape_or_of_whole_numbers_is_refused(config: Any) -> None:
    layer, x, state = prepare(config)
    dim = config.dim
    with refused("expected at least one step", f"found x of shape (2, 0, {dim})"):
        layer(x[:, :0], state)
    wider, flat, deeper = torch.cat([x, x[..., :1]], dim=-1), x[:, 0], x[None]
    for wrong, found in ((wider, (2, 4, dim + 1)), (flat, (2, dim)), (deeper, (1, 2, 4, dim))):
        with refused(f"expected x of shape (batch, steps, {dim})", f"found {found}"):
            layer(wrong, state)
    with refused("expected floating-point x", "found torch.int64"):
        layer(x.long(), state)


def multiplies(config: Any) -> bool:
    """Whether x meets a matrix: positions are cast to x, norms may promote, what has no weights takes any dtype."""
    return type(config).__module__ != position.__name__ and any(p.dim() > 1 for p in config.build().parameters())


WEIGHTED = [
    pytest.param(config, id=describe(name, config))
    for name, kind in LAYERS.items()
    for config in kind.variants()
    if multiplies(config)
]


@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # torch's RMSNorm says so before anything fails
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("config", WEIGHTED)
def test_x_of_another_dtype_than_the_weights_is_refused(config: Any, steps: int) -> None:
    layer = config.build().double().eval()
    example = config.example(2, steps, dtype=torch.float64)
    x = example.x.float()
    state = layer.initial_state(2, memory=example.memory, like=x)
    with refused("expected x of torch.float64 as the layer's weights", "found torch.float32"):
        layer(x, state)


REMEMBERING = [
    pytest.param(config, id=describe(name, config))
    for name, kind in LAYERS.items()
    for config in kind.variants()
    if states.leaves(prepare(config)[2])
]


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("config", REMEMBERING)
def test_a_state_of_another_number_of_rows_is_refused(config: Any, steps: int) -> None:
    layer, x, _ = prepare(config, 2, steps)
    _, _, state = prepare(config, 3, steps)
    with refused("expected a state of 2 rows", "found 3 rows"):
        layer(x, state)
    _, _, state = prepare(config, 1, steps)  # which would broadcast in silence
    with refused("expected a state of 2 rows", "found 1 rows"):
        layer(x, state)


@pytest.mark.parametrize("name", sorted(set(LAYERS) - {"residual", "stack", "transformer-block"}))
def test_no_state_is_refused(name: str) -> None:
    layer, x, _ = prepare(LAYERS[name].variants()[0])
    with refused("expected a state of type recollect.", "found builtins.NoneType", "initial_state"):
        layer(x, None)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(
    ("name", "other"),
    [("rnn", "gru"), ("gru", "rnn"), ("lstm", "gru"), ("conv", "window"), ("attention", "linear-attention")],
)
def test_the_state_of_another_kind_of_layer_is_refused(name: str, other: str, steps: int) -> None:
    layer, stranger = build(name, dim=4), build(other, dim=4)
    kinds = [f"recollect.layers.{kind.replace('-', '_')}.State" for kind in (name, other)]
    with refused(f"expected a state of type {kinds[0]}", f"found {kinds[1]}"):
        layer(torch.randn(2, steps, 4), stranger.initial_state(2))


GRU, LSTM = gru.Config(dim=4), lstm.Config(dim=4)
TWO = {"heads": 2}
OTHER_TYPE = "expected a state of type recollect.layers.gru.State, found recollect.layers.lstm.State"


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(
    ("name", "options", "other", "others", "found"),
    [
        ("lstm", {}, "lstm", {"width": 3}, "h of shape (2, 1, 3) where (2, 1, 4) fits"),
        ("lstm", {}, "lstm", {"width": 9}, "h of shape (2, 1, 9) where (2, 1, 4) fits"),
        ("gru", {}, "gru", {"width": 5}, "h of shape (2, 1, 5) where (2, 1, 4) fits"),
        ("gru", {}, "gru", {"width": 1}, "h of shape (2, 1, 1) where (2, 1, 4) fits"),
        ("linear-attention", TWO, "linear-attention", {}, "sums of shape (2, 1, 4, 4) where (2, 2, 2, 2) fits"),
        ("ttt-linear", TWO, "ttt-linear", {}, "model.weights.0 of shape (2, 1, 4, 4) where (2, 2, 2, 2) fits"),
        ("lstm", {"num_layers": 2}, "lstm", {}, ""),
        ("lstm", {}, "lstm", {"num_layers": 2}, ""),
        ("gru", {"num_layers": 2}, "gru", {}, ""),
        ("rnn", {"num_layers": 2}, "rnn", {}, ""),
        ("conv", {"kernel": 3}, "conv", {"kernel": 2}, ""),
        ("conv", {"kernel": 3}, "conv", {"kernel": 5}, ""),
        ("window", {"tau": 4}, "window", {"tau": 2}, ""),
        ("ttt-linear", {}, "ttt-mlp", {}, ""),
        ("ttt-mlp", {}, "ttt-linear", {}, ""),
        ("stack", {"layers": (GRU, LSTM)}, "stack", {"layers": (LSTM, GRU)}, OTHER_TYPE),
        ("stack", {"layers": (GRU,)}, "stack", {"layers": (GRU, GRU)}, ""),
        ("stack", {"layers": (GRU, GRU)}, "stack", {"layers": (GRU,)}, ""),
    ],
    ids=str,
)
def test_the_state_of_a_layer_of_another_width_depth_or_reach_is_refused(
    name: str, options: dict[str, Any], other: str, others: dict[str, Any], found: str, steps: int
) -> None:
    expected = f"expected a state made by this layer, found {found}" if "shape" in found else found or "expected"
    for dtype in (torch.float32, torch.float64):  # which torch runs through different kernels
        layer, stranger = build(name, dim=4, **options).to(dtype), build(other, dim=4, **others).to(dtype)
        with refused(expected, "found"):
            layer(torch.randn(2, steps, 4, dtype=dtype), stranger.initial_state(2))


def test_the_state_of_a_layer_with_other_heads_is_refused() -> None:
    layer, stranger = build("attention", dim=4, heads=2), build("attention", dim=4)
    x = torch.randn(2, 3, 4)
    _, state = stranger(x, stranger.initial_state(2))
    with refused("expected a state made by this layer", "found keys of shape (2, 3, 1, 4)"):
        layer(x, state)
