"""Linear attention against its quadratic form."""

from typing import Any

import pytest
import torch
from torch import Tensor

from oracles import assert_all_close, assert_close, gradients, inputs, random_state
from recollect.core import ragged
from recollect.layers import build, linear_attention

OPTIONS: dict[str, dict[str, Any]] = {
    "elu, normalised": {"feature": "elu", "normalise": True},
    "elu": {"feature": "elu", "normalise": False},
    "identity": {"feature": "identity", "normalise": False},
    "with biases": {"bias": True},
    "other widths": {"width": 5, "head_dim": 2},
    "no projections": {"project": False},
}
CHUNKS = {"whole": [150], "at once and after": [64, 86], "pieces": [1, 63, 65, 1, 20], "short": [30] * 5}


def quadratic(layer: Any, x: Tensor, state: linear_attention.State | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Masked φ(q) φ(k)ᵀ v with the whole matrix of scores; what a state holds is added to every step."""
    c = layer.config
    project = (layer.q, layer.k, layer.v) if c.project else (torch.nn.Identity(),) * 3
    q, k, v = (p(x).unflatten(-1, (c.heads, c.size)).transpose(1, 2) for p in project)  # B H T d
    if c.feature == "elu":
        q, k = (torch.where(t > 0, t + 1, t.exp()) for t in (q, k))
    steps = x.shape[1]
    scores = (q @ k.mT) * (torch.arange(steps) <= torch.arange(steps)[:, None])  # B H T T
    y, weight = scores @ v, scores.sum(dim=-1)
    sums, total = k.mT @ v, k.sum(dim=2)
    if state is not None:
        y, weight = y + q @ state.sums, weight + (q @ state.total[..., None])[..., 0]
        sums, total = sums + state.sums, total + state.total
    if c.normalise:
        y = y / weight[..., None]
    y = y.transpose(1, 2).flatten(-2)
    return (layer.out(y) if c.project else y), sums, total


def positive_state(layer: Any, batch: int) -> Any:
    """A used state, its sums of positive features positive as they would be."""
    state = random_state(layer.initial_state(batch))
    return state._replace(total=(state.total.detach().abs() + 1).requires_grad_())


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("options", OPTIONS)
def test_linear_attention_equals_its_quadratic_form(options: str, chunks: str, used: bool) -> None:
    layer = build("linear-attention", dim=6, heads=2, **OPTIONS[options]).double()
    x = inputs(2, 150, 6)
    start = positive_state(layer, 2) if used else layer.initial_state(2)
    state, parts = start, []
    for part in x.split(CHUNKS[chunks], dim=1):
        y, state = layer(part, state)
        parts.append(y)
    y = torch.cat(parts, dim=1)
    expected, sums, total = quadratic(layer, x, start if used else None)
    assert_close(y, expected, "outputs")
    assert_close(state.sums, sums, "sums")
    assert_close(state.total, total, "total")
    wrt = [x, *layer.parameters(), *(start if used else ())]
    found, wanted = gradients([y, *state], wrt), gradients([expected, sums, total], wrt)
    largest = max(float(gradient.abs().max()) for gradient in wanted)
    assert_all_close([g / largest for g in found], [g / largest for g in wanted], "gradient")


@pytest.mark.parametrize("options", OPTIONS)
def test_single_steps_of_linear_attention_equal_its_quadratic_form(options: str) -> None:
    layer = build("linear-attention", dim=6, heads=2, **OPTIONS[options]).double()
    x = torch.randn(2, 20, 6).double()
    y, state = layer.unroll(x, layer.initial_state(2))
    expected, sums, total = quadratic(layer, x)
    assert_close(y, expected, "outputs")
    assert_close(state.sums, sums, "sums")
    assert_close(state.total, total, "total")


def test_rows_of_unequal_length_equal_the_quadratic_form_of_each() -> None:
    layer = build("linear-attention", dim=6, heads=2).double()
    x, lengths = torch.randn(3, 130, 6).double(), [130, 1, 70]
    y, state = ragged.run(layer, x, lengths)
    for row, length in enumerate(lengths):
        expected, sums, total = quadratic(layer, x[row : row + 1, :length])
        assert_close(y[row, :length], expected[0], f"outputs of row {row}")
        assert_close(state.sums[row], sums[0], f"sums of row {row}")
        assert_close(state.total[row], total[0], f"total of row {row}")


def test_the_sums_of_a_bfloat16_layer_stay_float32() -> None:
    layer = build("linear-attention", dim=6, heads=2).bfloat16()
    state = layer.initial_state(2)
    for steps in (1, 5):
        y, state = layer(torch.randn(2, steps, 6, dtype=torch.bfloat16), state)
        assert (y.dtype, state.sums.dtype, state.total.dtype) == (torch.bfloat16, torch.float32, torch.float32)
