"""mingru and minlstm against the recurrences of their paper (Feng 2024), written as plain loops."""

from typing import Any

import pytest
import torch
from torch import Tensor

from oracles import assert_all_close, assert_close, gradients, inputs, random_state, randomise
from recollect.core import ragged
from recollect.kernels.recurrent.scan import CHUNK, linear_scan
from recollect.layers import build

OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "mingru": ("mingru", {}),
    "mingru, positive": ("mingru", {"candidate": "positive", "width": 3}),
    "mingru, remembering": ("mingru", {"forget_bias": 4.0, "bias": False}),
    "minlstm": ("minlstm", {}),
    "minlstm, positive": ("minlstm", {"candidate": "positive", "width": 3}),
    "minlstm, gates apart": ("minlstm", {"normalise": False, "forget_bias": 2.0}),
}
CHUNKS = {"whole": [60], "pieces": [1, 15, 17, 27]}


def loop(layer: Any, x: Tensor, h: Tensor) -> Tensor:
    """Equations 3 and 4 of the paper, one step after the other: h after each of them."""
    c, width, found = layer.config, layer.width, []
    parts = layer.project.weight.split(width), (layer.project.bias.split(width) if c.bias else [0.0] * layer.gates)
    project = list(zip(*parts, strict=True))
    for x_t in x.unbind(1):
        *gates, candidate = (x_t @ W.T + b for W, b in project)
        if c.candidate == "positive":
            candidate = torch.where(candidate >= 0, candidate + 0.5, 1 / (1 + torch.exp(-candidate)))
        if layer.gates == 2:
            z = 1 / (1 + torch.exp(-(gates[0] - c.forget_bias)))
            h = (1 - z) * h + z * candidate
        else:
            f, i = 1 / (1 + torch.exp(-(gates[0] + c.forget_bias))), 1 / (1 + torch.exp(-gates[1]))
            if c.normalise:
                f, i = f / (f + i), i / (f + i)
            h = f * h + i * candidate
        found.append(h)
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("options", OPTIONS)
def test_minimal_layers_equal_the_loop_of_their_paper(options: str, chunks: str, used: bool) -> None:
    name, settings = OPTIONS[options]
    layer = build(name, dim=5, **settings).double()
    randomise(layer)
    x = inputs(2, 60, 5)
    start = random_state(layer.initial_state(2)) if used else layer.initial_state(2)
    state, parts = start, []
    for part in x.split(CHUNKS[chunks], dim=1):
        y, state = layer(part, state)
        parts.append(y)
    expected = loop(layer, x, start.h)
    assert_close(torch.cat(parts, dim=1), expected, "outputs")
    assert_close(state.h, expected[:, -1], "h")
    wrt = [x, *layer.parameters(), *(start if used else ())]
    pieces = expected.split(CHUNKS[chunks], dim=1)
    found, wanted = gradients([*parts, state.h], wrt), gradients([*pieces, expected[:, -1]], wrt)
    largest = max(float(gradient.abs().max()) for gradient in wanted)
    assert_all_close([g / largest for g in found], [g / largest for g in wanted], "gradient")


@pytest.mark.parametrize("options", OPTIONS)
def test_single_steps_and_rows_of_unequal_length_equal_the_loop(options: str) -> None:
    name, settings = OPTIONS[options]
    layer = build(name, dim=5, **settings).double()
    randomise(layer)
    x, lengths = torch.randn(3, 40, 5).double(), [40, 0, 19]
    expected = loop(layer, x, layer.initial_state(3).h)
    stepped, _ = layer.unroll(x, layer.initial_state(3))
    y, state = ragged.run(layer, x, lengths)
    assert_close(stepped, expected, "single steps")
    for row, length in enumerate(lengths):
        assert_close(y[row, :length], expected[row, :length], f"outputs of row {row}")
        last = expected[row, length - 1] if length else torch.zeros_like(state.h[row])
        assert_close(state.h[row], last, f"h of row {row}")


def accumulate(decay: Tensor, write: Tensor, h: Tensor) -> Tensor:
    found = []
    for own, new in zip(decay.unbind(1), write.unbind(1), strict=True):
        h = own * h + new
        found.append(h)
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("steps", [1, CHUNK, CHUNK + 1, CHUNK**2 + 1])
@pytest.mark.parametrize("decays", ["any", "0", "1", "near 0", "near 1", "negative", "0 and 1"])
def test_a_scan_equals_the_loop_for_every_decay(steps: int, decays: str) -> None:
    shape = 2, steps, 3
    made = {
        "any": torch.rand(shape),
        "0": torch.zeros(shape),
        "1": torch.ones(shape),
        "near 0": torch.rand(shape) * 1e-300,
        "near 1": 1 - torch.rand(shape) * 1e-12,
        "negative": -torch.rand(shape),
        "0 and 1": torch.randint(2, shape).double(),
    }
    decay = made[decays].double().requires_grad_()
    write, start = inputs(*shape), inputs(2, 3)
    found, wanted = linear_scan(decay, write, start), accumulate(decay, write, start)
    assert torch.isfinite(found).all()
    scale = float(wanted.detach().abs().max())
    assert_close(found / scale, wanted / scale, "h")
    grown, expected = gradients([found], [decay, write, start]), gradients([wanted], [decay, write, start])
    for name, a, b in zip(("decay", "write", "start"), grown, expected, strict=True):
        largest = float(b.abs().max()) or 1.0
        assert_close(a / largest, b / largest, f"gradient of {name}")


def test_gates_too_small_for_a_number_still_share_what_is_kept() -> None:
    """σ(−200) is 0 in float32, and so f/(f+i) would be 0/0."""
    layer = build("minlstm", dim=1)
    with torch.no_grad():
        layer.project.weight.zero_()
        layer.project.bias.copy_(torch.tensor([-200.0, -201.0, 3.0]))
    gates = layer.explain(layer.initial_state(1), torch.zeros(1, 1))
    share = torch.sigmoid(torch.tensor(1.0))
    torch.testing.assert_close(gates["forget"][0, 0], share)
    torch.testing.assert_close(gates["input"][0, 0], 1 - share)


def test_the_state_of_a_bfloat16_layer_stays_float32() -> None:
    for name in ("mingru", "minlstm"):
        layer = build(name, dim=6).bfloat16()
        state = layer.initial_state(2)
        for steps in (1, 5):
            y, state = layer(torch.randn(2, steps, 6, dtype=torch.bfloat16), state)
            assert (y.dtype, state.h.dtype) == (torch.bfloat16, torch.float32)
