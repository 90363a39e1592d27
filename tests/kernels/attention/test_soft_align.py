"""The loop of soft alignment that is written out: the definition's numbers in few operations."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from oracles import assert_all_close, gradients, inputs, random_state, source
from recollect.core import state as states
from recollect.kernels.attention import soft_align
from recollect.kernels.recurrent import gates
from recollect.layers import build

aten = torch.ops.aten
every_cell = pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
every_order = pytest.mark.parametrize("order", ["align-first", "cell-first"])
every_score = pytest.mark.parametrize("score", ["additive", "dot", "scaled", "general"])


def everything(layer, run, x, state):
    """Outputs, the state after them, and the gradients of all that goes in, from all that comes out."""
    y, after = run(x, state)
    outputs = [y, *(tensor for tensor in states.leaves(after)[:-1])]
    wanted = [x, *(tensor for tensor in states.leaves(state)[:-1]), *layer.parameters()]
    return [*outputs, *gradients(outputs, wanted)]


def compare(steps=5, **settings):
    layer = build("soft-align", dim=3, width=4, memory_dim=5, align_dim=6, **settings).double()
    state = random_state(layer.initial_state(3, memory=source(3, 6, 5, [6, 1, 4])))
    x = inputs(3, steps, 3)
    assert layer.loop_dtype(x, state) == torch.float64
    assert_all_close(everything(layer, layer, x, state), everything(layer, layer.unroll, x, state), str(settings))


@every_cell
@every_order
@every_score
def test_the_loop_gives_outputs_states_and_gradients_of_the_definition(cell, order, score):
    compare(cell=cell, order=order, score=score)


@every_cell
def test_so_it_does_where_the_context_is_not_fed_and_for_one_step(cell):
    compare(cell=cell, order="cell-first", feed=False)
    compare(steps=1, cell=cell)


class Fused(SimpleNamespace):
    """What torch's kernels for gates compute, in plain operations: for the backward pass torch has that itself."""

    tanh_backward, sigmoid_backward = aten.tanh_backward, aten.sigmoid_backward

    @staticmethod
    def _thnn_fused_gru_cell(from_x, from_h, h):
        (r, z, n), (hr, hz, hn) = from_x.chunk(3, dim=1), from_h.chunk(3, dim=1)
        z = torch.sigmoid(z + hz)
        new = (1 - z) * torch.tanh(n + torch.sigmoid(r + hr) * hn) + z * h
        return new, torch.cat([from_x, from_h, h], dim=1)

    @staticmethod
    def _thnn_fused_gru_cell_backward(of_h, kept, has_bias):
        assert not has_bias
        width = of_h.shape[1]
        return aten._thnn_differentiable_gru_cell_backward(
            of_h, *kept.split([3 * width, 3 * width, width], dim=1), None, None
        )

    @staticmethod
    def _thnn_fused_lstm_cell(from_x, from_h, c):
        i, f, g, o = (from_x + from_h).chunk(4, dim=1)
        after = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * after.tanh(), after, torch.cat([from_x, from_h], dim=1)

    @staticmethod
    def _thnn_fused_lstm_cell_backward_impl(of_h, of_c, c, after, kept, has_bias):
        assert not has_bias
        from_x, from_h = kept.chunk(2, dim=1)
        found = aten._thnn_differentiable_lstm_cell_backward(of_h, of_c, from_x, from_h, None, None, c, after)
        return found[0], found[2], None


@every_cell
@every_order
def test_kernels_for_the_gates_are_asked_for_what_they_compute(cell, order, monkeypatch):
    asked = []
    monkeypatch.setattr(gates, "is_fused", lambda tensor: not asked.append(tensor))
    monkeypatch.setattr(gates, "aten", Fused())
    compare(cell=cell, order=order)
    assert len(asked) == (0 if cell == "rnn" else 2 * 5)


@pytest.mark.parametrize("settings", [{"num_layers": 2}, {"alignment": "hard"}], ids=str)
def test_other_settings_are_left_to_the_definition(settings):
    layer = build("soft-align", dim=3, **settings).double()
    state = layer.initial_state(2, memory=source(2, 4, 3))
    assert layer.loop_dtype(inputs(2, 5, 3), state) is None


@every_cell
@every_order
def test_under_autocast_it_is_as_near_as_the_definition_and_states_keep_their_dtype(cell, order):
    torch.manual_seed(0)
    layer = build("soft-align", dim=16, cell=cell, order=order)
    memory = source(4, 7, 16, [7, 1, 4, 5])
    memory = memory._replace(values=memory.values.detach().float())
    x = torch.randn(4, 9, 16, requires_grad=True)

    def run(call, lowered=True):
        with torch.autocast("cpu", torch.bfloat16, enabled=lowered):
            before = layer.initial_state(4, memory=memory, like=x)
            y, state = call(x, before)
            found = torch.autograd.grad(y.float().square().sum(), [x, *layer.parameters()])
        assert [t.dtype for t in states.leaves(state)] == [t.dtype for t in states.leaves(before)]
        return [y.detach().float(), *found]

    exact, lowered, defined = run(layer, False), run(layer), run(layer.unroll)
    for found, other, expected in zip(lowered, defined, exact, strict=True):
        scale = float(expected.abs().max())
        error, allowed = (float((a - expected).abs().max()) / scale for a in (found, other))
        assert 0 < error < max(3 * allowed, 0.02)


def test_a_graph_that_is_kept_gives_the_same_gradients_again_and_no_second_ones():
    layer = build("soft-align", dim=3).double()
    x = inputs(2, 4, 3)
    y, _ = layer(x, layer.initial_state(2, memory=source(2, 5, 3, [5, 2])))
    first = torch.autograd.grad(y.sum(), x, retain_graph=True)
    assert torch.equal(first[0], torch.autograd.grad(y.sum(), x, retain_graph=True)[0])
    with pytest.raises(RuntimeError, match=r"soft-align: expected a first derivative, found create_graph=True"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if not (function.is_view or function._schema.name.startswith(("aten::empty", "aten::new_empty"))):
            self.counts[function._schema.name.removeprefix("aten::")] += 1
        return function(*args, **kwargs or {})


def test_a_step_makes_few_operations_and_no_gradient_of_a_weight():
    layer = build("soft-align", dim=3)
    memory = source(2, 5, 3)
    memory = memory._replace(values=memory.values.detach().float())

    def count(steps):
        x, state = torch.randn(2, steps, 3, requires_grad=True), layer.initial_state(2, memory=memory)
        with Operations() as forward:
            y, _ = layer(x, state)
        with Operations() as backward:
            torch.autograd.grad(y.sum(), [x, *layer.parameters()])
        return forward.counts, backward.counts

    for short, long, most in zip(count(4), count(5), (13, 20), strict=True):
        assert 0 < (long - short).total() <= most
        products = {name: many for name, many in (long - short).items() if "mm" in name}
        assert products in ({"mm": 1, "addmm": 3, "bmm": 1}, {"addmm": 3, "bmm": 1})


def test_nothing_of_the_steps_is_saved_where_no_gradient_is_wanted(monkeypatch):
    saved = []
    run_forward = soft_align.run_forward

    def spy(*given, **named):
        found, steps = run_forward(*given, **named)
        saved.append(steps)
        return found, steps

    monkeypatch.setattr(soft_align, "run_forward", spy)
    layer = build("soft-align", dim=3).double()
    with torch.no_grad():
        layer(inputs(2, 4, 3), layer.initial_state(2, memory=source(2, 5, 3)))
    ((mixed, shares, needed),) = saved
    assert len(mixed) == 1
    assert not shares
    assert not needed
