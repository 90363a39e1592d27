"""Test-time training against the paper's equations (arXiv 2407.04620), the inner gradient taken by autograd."""

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from oracles import assert_all_close, assert_close, gradients, inputs, randomise
from recollect.core import state as states
from recollect.layers import build

OPTIONS: dict[str, dict[str, Any]] = {
    "as in the authors' code": {"mini_batch": 3},
    "as in the paper's equations": {"mini_batch": 3, "average": False},
    "one mini-batch": {"mini_batch": 16},
    "a boundary at every step": {"mini_batch": 1, "average": False},
    "no boundary": {"mini_batch": None, "average": False},
    "no norm": {"mini_batch": 3, "norm": False, "out_norm": False},
    "fixed rate": {"mini_batch": 3, "learn_rate": False, "rate": 0.5},
    "a start at zero": {"mini_batch": 3, "learn_start": False},
    "rotary": {"mini_batch": 4, "rotary": True},
    "other width": {"mini_batch": 3, "width": 3},
}


def make(name: str, **options: Any) -> Any:
    """A layer whose parameters are all random, with rates that keep the inner loop calm."""
    options = {"dim": 8, "heads": 2, "rate": 0.7} | options
    layer = build(name, **options).double()
    randomise(layer)
    if hasattr(layer, "place_offset"):
        with torch.no_grad():
            layer.place_offset.mul_(0.3)
    return layer


def inner(model: list[Tensor], x: Tensor) -> Tensor:
    """x W + b, or gelu(x W₁ + b₁) W₂ + b₂; the model is a flat list of matrices and biases."""
    for i in range(0, len(model), 2):
        if i:
            x = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        x = x @ model[i] + model[i + 1]
    return x


def primal(layer: Any, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """One row, one head, one step after the other. Returns the outputs and, by row and head, the final models."""
    c = layer.config
    (batch, steps, _), heads, size = x.shape, c.heads, c.size
    q, k, v = (project(x).unflatten(-1, (heads, size)) for project in (layer.q, layer.k, layer.v))

    def f(model: list[Tensor], x: Tensor, head: int) -> Tensor:
        z = inner(model, x)
        if not c.norm:
            return z
        normal = (z - z.mean()) / torch.sqrt(((z - z.mean()) ** 2).mean() + 1e-5)
        return x + normal * layer.norm_weight[head, 0] + layer.norm_bias[head, 0]

    def turn(x: Tensor, place: int) -> Tensor:
        if not c.rotary:
            return x
        angle = place / 10_000 ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
        even, odd = x[::2], x[1::2]
        turned = [even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()]
        return torch.stack(turned, dim=-1).flatten()

    def start(head: int) -> list[Tensor]:
        if c.learn_start:
            pairs = zip(layer.start_weights, layer.start_biases, strict=True)
            return [part for weight, bias in pairs for part in (weight[head], bias[head, 0])]
        widths = c.widths()
        return [
            torch.zeros(shape, dtype=x.dtype, requires_grad=True)
            for i, o in pairwise(widths)
            for shape in ((i, o), (o,))
        ]

    rows, finals = [], []
    for b in range(batch):
        outputs = []
        for h in range(heads):
            model = start(h)  # W at the last boundary
            gathered = [torch.zeros_like(part) for part in model]
            read = []
            for t in range(steps):
                place = t % c.mini_batch if c.mini_batch else 0
                rate = torch.sigmoid(layer.rate(x[b, t])[h]) if c.learn_rate else 1.0
                error = f(model, turn(k[b, t, h], place), h) - v[b, t, h]
                slopes = torch.autograd.grad(0.5 * error @ error, model, create_graph=True)
                gathered = [g + rate * c.rate / size * slope for g, slope in zip(gathered, slopes, strict=True)]
                rho = torch.relu(1 / (place + 1) + layer.place_offset[place]) if c.average else 1.0
                now = [part - rho * g for part, g in zip(model, gathered, strict=True)]
                read.append(f(now, turn(q[b, t, h], place), h))
                if c.mini_batch and place == c.mini_batch - 1:
                    model, gathered = now, [torch.zeros_like(part) for part in model]
            outputs.append(torch.stack(read))
            finals.extend([*model, *gathered])
        rows.append(torch.cat(outputs, dim=-1))
    y = torch.stack(rows)
    if c.out_norm:
        y = layer.out_norm(y)
    return layer.out(y), finals


def flat(state: Any) -> list[Tensor]:
    """A state in the order of `primal`'s finals."""
    batch, heads = state.model.weights[0].shape[:2]
    return [
        part
        for b in range(batch)
        for h in range(heads)
        for model in (state.model, state.gradient)
        for weight, bias in zip(*model, strict=True)
        for part in (weight[b, h], bias[b, h, 0])
    ]


@pytest.mark.parametrize("chunks", [[7], [1] * 7, [2, 4, 1]], ids=["chunk", "steps", "chunks"])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", ["ttt-linear", "ttt-mlp"])
def test_ttt_equals_the_primal_form_of_the_paper(name: str, options: str, chunks: list[int]) -> None:
    layer = make(name, **OPTIONS[options])
    x = inputs(2, 7, 8)
    state, parts = layer.initial_state(2), []
    for part in x.split(chunks, dim=1):
        y, state = layer(part, state)
        parts.append(y)
    y = torch.cat(parts, dim=1)
    expected, finals = primal(layer, x)
    assert y.abs().max() > 1e-3
    assert_close(y, expected, "outputs")
    assert_all_close(flat(state), finals, "final state")
    wrt = [x, *layer.parameters()]
    for (what, _), a, b in zip(
        [("x", x), *layer.named_parameters()],
        gradients([y, *flat(state)], wrt),
        gradients([expected, *finals], wrt),
        strict=True,
    ):
        assert_close(a, b, f"gradient of {what}")


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("chunks", [[9], [1] * 9, [4, 5]], ids=["chunk", "steps", "chunks"])
def test_batch_gradient_descent_is_linear_attention(chunks: list[int], heads: int) -> None:
    ttt = build(
        "ttt-linear",
        dim=6,
        heads=heads,
        mini_batch=None,
        rate=6 / heads,
        norm=False,
        learn_rate=False,
        learn_start=False,
        bias=False,
        average=False,
        out_norm=False,
    ).double()
    linear = build("linear-attention", dim=6, heads=heads, feature="identity", normalise=False).double()
    for name in ("q", "k", "v", "out"):
        getattr(linear, name).load_state_dict(getattr(ttt, name).state_dict())
    x = inputs(2, 9, 6)
    state, parts = ttt.initial_state(2), []
    for part in x.split(chunks, dim=1):
        y, state = ttt(part, state)
        parts.append(y)
    y, (expected, final) = torch.cat(parts, dim=1), linear(x, linear.initial_state(2))
    assert_close(y, expected, "outputs")
    assert_close(-state.gradient.weights[0], final.sums, "the matrix that was learned is the sum of k vᵀ")
    projections = [[getattr(layer, name).weight for name in ("q", "k", "v", "out")] for layer in (ttt, linear)]
    assert_all_close(gradients([y], [x, *projections[0]]), gradients([expected], [x, *projections[1]]), "gradient")


@pytest.mark.parametrize("chunks", [[6], [1] * 6], ids=["chunk", "steps"])
@pytest.mark.parametrize("name", ["ttt-linear", "ttt-mlp"])
def test_a_mini_batch_of_one_is_online_gradient_descent(name: str, chunks: list[int]) -> None:
    """W_t = W_{t−1} − η ∇ℓ(W_{t−1}; x_t), z_t = f(q_t; W_t), with the plainest inner model."""
    layer = build(
        name, dim=4, mini_batch=1, rate=0.3, norm=False, out_norm=False, learn_rate=False, average=False
    ).double()
    randomise(layer)
    x = torch.randn(1, 6, 4).double()
    model = [
        part.detach()[0].clone() for pair in zip(layer.start_weights, layer.start_biases, strict=True) for part in pair
    ]
    expected = []
    for x_t in x[0]:
        model = [part.requires_grad_() for part in model]
        loss = 0.5 * (inner(model, layer.k(x_t)[None]) - layer.v(x_t)).square().sum()
        slopes = torch.autograd.grad(loss, model)
        model = [(part - 0.3 / 4 * slope).detach() for part, slope in zip(model, slopes, strict=True)]
        expected.append(layer.out(inner(model, layer.q(x_t)[None]))[0])
    state, parts = layer.initial_state(1), []
    for part in x.split(chunks, dim=1):
        y, state = layer(part, state)
        parts.append(y)
    assert_close(torch.cat(parts, dim=1)[0], torch.stack(expected))


@pytest.mark.parametrize("steps", [1, 2, 8])
@pytest.mark.parametrize("options", [{"mini_batch": 3}, {"mini_batch": 4, "rotary": True}], ids=str)
@pytest.mark.parametrize("name", ["ttt-linear", "ttt-mlp"])
def test_rows_at_different_places_in_their_mini_batch_share_a_batch(
    name: str, options: dict[str, Any], steps: int
) -> None:
    layer = make(name, **options)
    before = torch.randn(4, 5, 8).double()
    after = torch.randn(4, steps, 8).double()
    seen = [0, 1, 2, 5]
    parts = []
    for row, count in enumerate(seen):
        state = layer.initial_state(1)
        parts.append(layer(before[row : row + 1, :count], state)[1] if count else state)
    joined = states.join(parts)
    assert joined.clock.tolist() == seen
    y, final = layer(after, joined)
    assert final.clock.tolist() == [count + steps for count in seen]
    for row, count in enumerate(seen):
        whole = torch.cat([before[row, :count], after[row]])[None]
        expected, finals = primal(layer, whole)
        assert_close(y[row], expected[0, count:], f"row {row}")
        assert_all_close(flat(states.select(final, torch.tensor([row]))), finals, f"final state of row {row}")


@pytest.mark.parametrize("name", ["ttt-linear", "ttt-mlp"])
def test_what_ttt_explains_is_the_inner_loss_before_the_step_and_its_rate(name: str) -> None:
    layer = make(name, mini_batch=3, norm=False)
    x = torch.randn(2, 3, 8).double()
    _, state = layer(x[:, :2], layer.initial_state(2))
    found = layer.explain(state, x[:, 2])
    for b in range(2):
        for h in range(2):
            model = [p for w, b_ in zip(*state.model, strict=True) for p in (w[b, h], b_[b, h, 0])]
            at = slice(4 * h, 4 * h + 4)
            error = inner(model, layer.k(x[b, 2])[at]) - layer.v(x[b, 2])[at]
            assert_close(found["loss"][b, h], 0.5 * error @ error)
            assert_close(found["rate"][b, h], 0.7 * torch.sigmoid(layer.rate(x[b, 2])[h]) / 4)


def test_a_step_at_a_small_rate_lowers_the_inner_loss() -> None:
    layer = make("ttt-linear", mini_batch=1, average=False, rate=1e-4)
    x = torch.randn(3, 1, 8).double()
    start = layer.initial_state(3)
    _, after = layer(x, start)
    assert (layer.explain(after, x[:, 0])["loss"] < layer.explain(start, x[:, 0])["loss"]).all()
