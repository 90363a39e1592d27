"""What an exercise is held to: this package's own layer with the same weights, and inputs on which both are run."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..core.contract import Layer, Memory
from ..layers import build

BATCH, STEPS, PLACES = 3, 7, 5


class Oracle(NamedTuple):
    """This package's layer for one exercise."""

    build: Callable[[Any], Layer[Any]]  # from the learner's, with its weights
    state: Callable[[Any], tuple[Tensor, ...]]  # its state in the parts of the exercise
    inputs: Callable[[Any], dict[str, Tensor]]  # of the lines, by the names of their arguments


def make_memory() -> Memory:
    """A source of which two rows have padding."""
    lengths = torch.tensor([PLACES, 2, 4])
    valid = torch.arange(PLACES) < lengths[:, None]
    return Memory(draw(BATCH, PLACES, 3) * valid[..., None], valid)


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def filled(slots: int) -> Tensor:
    """Which slots of each row hold something."""
    return torch.arange(slots) < torch.tensor([slots, 1, slots - 2])[:, None]


def build_lstm(layer: Any) -> Layer[Any]:
    joined = [torch.cat([part[gate] for gate in "ifgo"], dim=-1).mT for part in (layer.W, layer.U)]
    bias = torch.cat([layer.b[gate] for gate in "ifgo"])
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    return take(build("lstm", dim=layer.dim, width=layer.width), names, [*joined, bias, torch.zeros_like(bias)])


def build_soft_align(layer: Any) -> Layer[Any]:
    own = build("soft-align", dim=layer.dim, width=layer.width, memory_dim=layer.memory_dim)
    weights = {name.replace("cell.", "cell.").replace("_ih", "_ih_l0").replace("_hh", "_hh_l0"): tensor
               for name, tensor in layer.state_dict().items()}  # fmt: skip
    weights["attend.score.weight"] = weights.pop("v")[None]
    return take(own, tuple(weights), list(weights.values()))


def build_attention(layer: Any) -> Layer[Any]:
    names = ("heads.q.weight", "heads.k.weight", "heads.v.weight", "heads.out.weight")
    return take(build("attention", dim=layer.dim), names, weights_of(layer))


def build_ttt(layer: Any) -> Layer[Any]:
    off = dict.fromkeys(("norm", "average", "out_norm", "bias"), False)
    own = build("ttt-linear", dim=layer.dim, mini_batch=layer.mini_batch, **off)
    names = ("q.weight", "k.weight", "v.weight", "out.weight", "start_weights.0", "rate.weight", "rate.bias")
    return take(own, names, [*weights_of(layer), layer.W_0[None], layer.w.weight, layer.w.bias])


def weights_of(layer: Any) -> list[Tensor]:
    return [part.weight for part in (layer.W_q, layer.W_k, layer.W_v, layer.W_o)]


def take(layer: Layer[Any], names: tuple[str, ...], tensors: list[Tensor]) -> Layer[Any]:
    """The layer in float64, with these weights under these names."""
    layer = layer.double().eval()
    own = dict(layer.named_parameters())
    with torch.no_grad():
        for name, tensor in zip(names, tensors, strict=True):
            own.pop(name).copy_(tensor)
        for tensor in own.values():
            tensor.zero_()
    return layer


def draw_lstm(layer: Any) -> dict[str, Tensor]:
    return {"x": draw(BATCH, layer.dim), **{name: draw(BATCH, layer.width) for name in "hcifgo"}}


def draw_soft_align(layer: Any) -> dict[str, Tensor]:
    return {
        "h": draw(BATCH, layer.width),
        "keys": draw(BATCH, PLACES, layer.width),
        "values": draw(BATCH, PLACES, layer.memory_dim),
        "e": draw(BATCH, PLACES),
        "alpha": draw(BATCH, PLACES).softmax(dim=-1),
        "valid": filled(PLACES),
    }


def draw_attention(layer: Any) -> dict[str, Tensor]:
    slots = {name: draw(BATCH, PLACES, layer.dim) for name in ("keys", "values")}
    alpha = draw(BATCH, PLACES).softmax(dim=-1)
    alone = {name: draw(BATCH, layer.dim) for name in ("x", "q")}
    return {**alone, **slots, "e": draw(BATCH, PLACES), "alpha": alpha, "filled": filled(PLACES)}


def draw_ttt(layer: Any) -> dict[str, Tensor]:
    matrices = {name: draw(BATCH, layer.dim, layer.dim) for name in "WG"}
    vectors = {name: draw(BATCH, layer.dim) for name in "xkv"}
    b = layer.mini_batch
    return {**matrices, **vectors, "clock": torch.tensor([b, b + 1, 2 * b])}


ORACLES = {
    "lstm": Oracle(build_lstm, lambda state: (state.h[:, 0], state.c[:, 0]), draw_lstm),
    "soft-align": Oracle(
        build_soft_align,
        lambda state: (state.cell.h[:, 0], state.context, state.keys[:, :, 0], state.values, state.valid),
        draw_soft_align,
    ),
    "attention": Oracle(
        build_attention, lambda state: (state.keys[:, :, 0], state.values[:, :, 0], state.clock), draw_attention
    ),
    "ttt-linear": Oracle(
        build_ttt,
        lambda state: (state.model.weights[0][:, 0], state.gradient.weights[0][:, 0], state.clock),
        draw_ttt,
    ),
}
