"""Whole sequences through a layer, beside torch.nn with the same weights: forward, and forward and backward."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import recollect
from recollect.core import ragged
from recollect.layers import build_encoder
from recollect.layers.fixed import CELLS
from recollect.layers.recurrent import Recurrent

from .floors import floor
from .measure import AS_CALLED, Row, Run, attempt, compare, graphs

MODULES: dict[str, Any] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
TOLERANCE = {  # of the largest entry; in float32 cuDNN multiplies in TF32
    ("cpu", torch.float32): 1e-4,
    ("cuda", torch.float32): 5e-3,
    ("cuda", torch.float16): 1e-2,
    ("cuda", torch.bfloat16): 5e-2,
}


@dataclass(frozen=True)
class Shape:
    batch: int
    steps: int
    width: int

    def __str__(self) -> str:
        return f"B{self.batch} T{self.steps} H{self.width}"


SHAPES = {
    "cpu": {"rnn": Shape(32, 256, 512), "lstm": Shape(32, 256, 512), "gru": Shape(32, 256, 512)},
    "cuda": {"rnn": Shape(32, 1024, 1024), "lstm": Shape(16, 1024, 768), "gru": Shape(64, 512, 512)},
}
SMALLER = {"cpu": Shape(32, 128, 256), "cuda": Shape(64, 256, 512)}  # both ways, and ragged
DTYPES = {"cpu": [torch.float32], "cuda": [torch.bfloat16, torch.float16, torch.float32]}


def sequence(device: str) -> Iterator[Row]:
    """rnn, lstm and gru: one layer, two layers both ways, rows of unequal length; forward and backward."""
    for name in MODULES:
        for dtype in DTYPES[device]:
            full, small = SHAPES[device][name], SMALLER[device]
            cases: list[tuple[str, Shape, Callable[..., Case]]] = [
                ("forward", full, one_layer),
                ("forward+backward", full, one_layer),
                ("two layers both ways, forward+backward", small, both_ways),
                ("ragged, forward+backward", small, unequal),
            ]
            for what, shape, make in cases:
                title = f"sequence {name} {what} {shape} {str(dtype)[6:]}"
                yield attempt(title, device, partial(timed, title, device, make, name, shape, dtype, "back" in what))


@dataclass(frozen=True)
class Case:
    """The same work by ours and by torch: functions of x that give y, whose weights they use, and what it costs."""

    ours: Callable[[Tensor], Tensor]
    theirs: Callable[[Tensor], Tensor]
    our_module: nn.Module
    their_module: nn.RNNBase
    tokens: int
    levels: int = 1


def one_layer(name: str, shape: Shape, like: Tensor) -> Case:
    layer = recollect.build(name, dim=shape.width).to(like)
    assert isinstance(layer, Recurrent)
    module = layer.to_torch()

    def ours(x: Tensor) -> Tensor:
        return layer(x, layer.initial_state(shape.batch))[0]

    return Case(ours, lambda x: module(x)[0], layer, module, shape.batch * shape.steps)


def both_ways(name: str, shape: Shape, like: Tensor) -> Case:
    cell = CELLS[name](dim=shape.width, width=shape.width)
    encoder: Any = build_encoder("bidirectional", dim=shape.width, layer=cell, num_layers=2)
    module = MODULES[name](shape.width, shape.width, 2, bidirectional=True, batch_first=True)
    encoder.load_torch(module)
    encoder, module = encoder.to(like), module.to(like)
    tokens = shape.batch * shape.steps
    return Case(lambda x: encoder(x).values, lambda x: module(x)[0], encoder, module, tokens, levels=2)


def unequal(name: str, shape: Shape, like: Tensor) -> Case:
    """Lengths from 1 to all steps, the longest row first, as torch's packing wants it where it need not sort."""
    layer = recollect.build(name, dim=shape.width).to(like)
    assert isinstance(layer, Recurrent)
    module = layer.to_torch()
    on_host = torch.linspace(shape.steps, 1, shape.batch).long()
    lengths = on_host.to(like.device)

    def theirs(x: Tensor) -> Tensor:
        packed, _ = module(pack_padded_sequence(x, on_host, batch_first=True))
        return pad_packed_sequence(packed, batch_first=True, total_length=shape.steps)[0]

    return Case(lambda x: ragged.run(layer, x, lengths)[0], theirs, layer, module, int(on_host.sum()))


def timed(
    title: str, device: str, make: Callable[..., Case], name: str, shape: Shape, dtype: torch.dtype, backward: bool
) -> Row:
    like = torch.empty(0, device=device, dtype=dtype)
    case = make(name, shape, like)
    case.their_module.flatten_parameters()
    for module in (case.our_module, case.their_module):
        module.train(backward)  # in training cuDNN keeps what a backward pass needs
    x = torch.randn(shape.batch, shape.steps, shape.width, device=device, dtype=dtype, requires_grad=backward)
    slope = torch.randn_like(case.theirs(x).detach()) if backward else None

    def run(function: Callable[[Tensor], Tensor], module: nn.Module) -> Sequence[Tensor]:
        if slope is None:
            with torch.inference_mode():
                return [function(x)]
        y = function(x)
        return [y.detach(), *torch.autograd.grad(y, [x, *module.parameters()], slope)]

    ours: Run = partial(run, case.ours, case.our_module)
    theirs: Run = partial(run, case.theirs, case.their_module)
    agree(ours(), theirs(), TOLERANCE[device, dtype])
    peer = f"nn.{type(case.their_module).__name__}"
    replays, failed = graphs({AS_CALLED: ours}, device)
    their_replays, their_failed = graphs({peer: theirs}, device)
    return compare(
        title,
        {AS_CALLED: ours} | replays,
        {peer: theirs} | their_replays,
        device=device,
        rounds=5 if device == "cpu" else 9,
        fresh=lambda: x.normal_(),
        floor=bound(case, shape, like, backward),
        absent=failed | their_failed,
        unit="tokens",
        amount=case.tokens,
        checked="outputs and the gradient by x" if backward else "outputs",
    )


def agree(found: Any, expected: Any, tolerance: float) -> None:
    """Outputs, and the gradient by x: no difference above `tolerance` of the largest entry."""
    for a, b in list(zip(found, expected, strict=False))[:2]:
        gap = float((a.float() - b.float()).abs().max() / b.float().abs().max())
        assert gap <= tolerance, f"expected what torch.nn gives within {tolerance:g}, found a difference of {gap:.2g}"


def bound(case: Case, shape: Shape, like: Tensor, backward: bool) -> dict[str, Any]:
    """A backward pass is two products for each of the forward; a level waits for the one below, ways do not."""
    matrices = [weight for weight in case.their_module.parameters() if weight.dim() == 2]
    recurrent = [w for name, w in case.their_module.named_parameters() if name.startswith("weight_hh")]
    products = sum(weight.numel() for weight in matrices)
    passes = 3 if backward else 1
    ways = 2 if case.their_module.bidirectional else 1
    moved = products + case.tokens * shape.width * (1 + ways)
    return floor(
        str(like.device.type),
        flops=2 * case.tokens * products * passes,
        bytes=moved * like.element_size() * (2 if backward else 1),
        dtype=like.dtype,
        steps=shape.steps * case.levels * (2 if backward else 1),
        recurrent=recurrent[0].numel() * like.element_size(),
    )


def causal(device: str, batch: int = 4, steps: int = 512, width: int = 256, heads: int = 4) -> Iterator[Row]:
    """Attention with an empty cache beside SDPA with is_causal and with a dense mask, projections included."""
    title = f"attention empty cache B{batch} T{steps} D{width}"
    yield attempt(title, device, partial(empty_cache, title, device, batch, steps, width, heads))


@torch.no_grad()
def empty_cache(title: str, device: str, batch: int, steps: int, width: int, heads: int) -> Row:
    layer: Any = recollect.build("attention", dim=width, heads=heads).to(device).eval()
    x = torch.randn(batch, steps, width, device=device)
    dense = torch.ones(steps, steps, dtype=torch.bool, device=device).tril()
    project = layer.heads

    def plain(**mask: Any) -> Tensor:
        q, k, v = (t(x).transpose(1, 2) for t in (project.query, project.key, project.value))
        return project.merge(scaled_dot_product_attention(q, k, v, **mask).transpose(1, 2))

    def ours() -> Any:
        return layer(x, layer.initial_state(batch))

    torch.testing.assert_close(ours()[0], plain(is_causal=True), rtol=1e-4, atol=1e-4)
    peers: dict[str, Run] = {
        "SDPA is_causal": lambda: plain(is_causal=True),
        "SDPA dense mask": lambda: plain(attn_mask=dense),
    }
    replays, failed = graphs({AS_CALLED: ours}, device)
    their_replays, their_failed = graphs(peers, device)
    moved = 4 * width**2 + 4 * batch * steps * width  # weights; x, k, v and y
    return compare(
        title,
        {AS_CALLED: ours} | replays,
        peers | their_replays,
        device=device,
        fresh=lambda: x.normal_(),
        floor=floor(device, flops=layer.cost(batch, steps).flops, bytes=4 * moved),
        absent=failed | their_failed,
        unit="tokens",
        amount=batch * steps,
        checked="outputs within 1e-4",
        note="float32",
    )


ROWS = {"sequence": sequence, "causal": causal}
