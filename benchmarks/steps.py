"""One step of a layer, as in decoding: beside torch's cells, plain torch, and the step in onnxruntime."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

import recollect
from recollect.core import state as states

from . import onnx_peer
from .exported import OPENED, layer_step
from .floors import floor
from .measure import AS_CALLED, Row, Run, agreeing, attempt, compare, graphs, one_line

SEEN = 256  # steps before the one that is timed, where the state grows
OTHERS = 3  # and elsewhere
NEAR = {"cpu": 1e-4, "cuda": 5e-3}  # cuDNN multiplies in TF32


def step(device: str, width: int = 512, batches: tuple[int, ...] = (1, 32)) -> Iterator[Row]:
    """One step of rnn, lstm, gru, conv, attention and ttt, at batch 1 and 32."""
    for name in PLAIN:
        for batch in batches:
            title = f"step {name} B{batch} D{width}"
            yield attempt(title, device, partial(one, title, device, name, batch, width))


@torch.inference_mode()
def one(title: str, device: str, name: str, batch: int, width: int) -> Row:
    with torch.inference_mode(False), torch.no_grad():  # tensors that autograd and other runtimes take too
        layer = recollect.build(name, dim=width, **HEADS.get(name, {})).to(device).eval()
        seen = SEEN if name == "attention" else OTHERS
        _, state = layer(torch.randn(batch, seen, width, device=device), layer.initial_state(batch, capacity=seen + 1))
        x = torch.randn(batch, 1, width, device=device)
        peers = PLAIN[name](layer, x, state)
        laid = states.map(Tensor.contiguous, state)  # as other runtimes take it
        runtimes, absent = in_onnx(layer, x, laid) if device == "cpu" else ({}, {})

    def ours() -> Any:
        return layer(x, state)

    y, near = ours()[0], NEAR[device]

    def check(result: Any) -> str:
        found = result if isinstance(result, Tensor) else result[0]
        torch.testing.assert_close(found.reshape(y.shape), y, rtol=near, atol=near)
        return f"outputs within {near:g}"

    peers, checked, wrong = agreeing(peers | runtimes, check)
    modes, failed = graphs({AS_CALLED: ours}, device)
    if device == "cpu":
        modes[OPENED] = layer_step(layer, x, state)
        check(torch.from_numpy(layer_step(layer, x, state)()))
    their_replays, their_failed = graphs(peers, device)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in layer.parameters())
    return compare(
        title,
        {AS_CALLED: ours} | modes,
        peers | their_replays,
        device=device,
        rounds=11,
        seconds=0.03,
        fresh=lambda: x.normal_(),
        floor=floor(
            device,
            flops=layer.cost(batch, seen + 1).flops - layer.cost(batch, seen).flops,
            bytes=weights + states.nbytes(state),
        ),
        absent=absent | wrong | failed | their_failed,
        checked=checked,
        note=f"after {seen} steps, float32",
    )


def torch_cells(layer: Any, x: Tensor, state: Any) -> dict[str, Run]:
    """torch's cell, and its module for whole sequences, with the same weights."""
    module = layer.to_torch().eval()
    cell = CELLS[type(module)](layer.dim, layer.width, device=x.device)
    cell.load_state_dict({name.removesuffix("_l0"): weight for name, weight in module.state_dict().items()})
    whole = layers_first(state)
    given = states.map(lambda part: part[0], whole)
    return {
        f"nn.{type(cell).__name__}": lambda: cell(x[:, 0], given),
        f"nn.{type(module).__name__}": lambda: module(x, whole),
    }


def layers_first(state: Any) -> Any:
    """A recurrent state as torch's modules take it."""
    parts = [part.transpose(0, 1).contiguous() for part in state]
    return tuple(parts) if len(parts) > 1 else parts[0]


def plain_conv(layer: Any, x: Tensor, state: Any) -> dict[str, Run]:
    """torch's convolution over the inputs that it needs again, which are kept as it wants them: B D K."""
    window = state.window.mT.contiguous()

    def run() -> tuple[Tensor, Tensor]:
        seen = torch.cat([window[:, :, 1:], x.mT], dim=2)
        return layer.conv(seen), seen

    return {"nn.Conv1d": run}


def plain_attention(layer: Any, x: Tensor, state: Any) -> dict[str, Run]:
    """torch's fused attention over a cache of fixed size, written in place."""
    keys, values = (part.transpose(1, 2).contiguous() for part in state[:2])  # B H N d
    heads, at = layer.heads, int(state.clock[0])

    def run() -> Tensor:
        q, k, v = (project(x).transpose(1, 2) for project in (heads.query, heads.key, heads.value))
        keys[:, :, at : at + 1], values[:, :, at : at + 1] = k, v
        return heads.merge(scaled_dot_product_attention(q, keys, values).transpose(1, 2))

    return {"SDPA, static cache": run}


def plain_ttt(layer: Any, x: Tensor, state: Any) -> dict[str, Run]:
    """The paper's equations as they stand: the gradient of the inner loss is left to autograd."""
    size, place = layer.config.mini_batch, int(state.clock[0]) % layer.config.mini_batch
    model, gathered = states.leaves(state.model), states.leaves(state.gradient)
    factor = 1 / (place + 1) + layer.place_offset[place]

    def inner(parts: list[Tensor], z: Tensor) -> Tensor:
        weights, biases = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        found = z
        for level, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            found = (gelu(found, approximate="tanh") if level else found) @ weight + bias
        return z + layer_norm(found, found.shape[-1:]) * layer.norm_weight + layer.norm_bias

    def run() -> tuple[Tensor, list[Tensor]]:
        q, k, v = (
            project(x).unflatten(2, (layer.config.heads, -1)).transpose(1, 2) for project in (layer.q, layer.k, layer.v)
        )
        rate = torch.sigmoid(layer.rate(x)).mT[..., None] * layer.config.rate / layer.config.size
        with torch.inference_mode(False), torch.enable_grad():
            parts = [part.clone().requires_grad_() for part in model]
            loss = (rate.clone() * (inner(parts, k.clone()) - v.clone()).square()).sum() / 2
            slopes = torch.autograd.grad(loss, parts)
        total = [old + new for old, new in zip(gathered, slopes, strict=True)]
        now = [weight - factor * slope for weight, slope in zip(model, total, strict=True)]
        assert place + 1 < size, "the timed step is no boundary"
        return layer.out(layer.out_norm(inner(now, q).transpose(1, 2).flatten(2))), total

    return {"inner gradient by autograd": run}


def in_onnx(layer: Any, x: Tensor, state: Any) -> tuple[dict[str, Run], dict[str, str]]:
    """Our own step in onnxruntime, and torch's module where there is one; or why not."""
    cases = {"onnxruntime, our step": (onnx_peer.Step(layer, state), (x, *states.leaves(state)))}
    if hasattr(layer, "to_torch"):
        module = layer.to_torch()
        cases[f"onnxruntime, nn.{type(module).__name__}"] = module, (x, layers_first(state))
    found, absent = dict[str, Run](), dict[str, str]()
    for title, (module, inputs) in cases.items():
        try:
            found[title] = onnx_peer.exported(module, inputs)
        except ImportError as error:
            absent[title] = f"not installed: {error.name}"
        except Exception as error:
            absent[title] = f"failed: {one_line(error)}"
    return found, absent


CELLS = {nn.RNN: nn.RNNCell, nn.LSTM: nn.LSTMCell, nn.GRU: nn.GRUCell}
PLAIN: dict[str, Callable[[Any, Tensor, Any], dict[str, Run]]] = {
    "rnn": torch_cells,
    "lstm": torch_cells,
    "gru": torch_cells,
    "conv": plain_conv,
    "attention": plain_attention,
    "ttt-linear": plain_ttt,
    "ttt-mlp": plain_ttt,
}
HEADS = {"attention": {"heads": 8}, "ttt-linear": {"heads": 8}, "ttt-mlp": {"heads": 8}}
ROWS = {"step": step}
