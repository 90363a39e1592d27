"""The loop of recurrent cells that is loop_gates out, as a GPU takes it: on a CPU it gives the numbers of torch."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from oracles import assert_all_close, gradients, inputs, random_state
from recollect.core import ragged
from recollect.core import state as states
from recollect.kernels.recurrent import sequence
from recollect.layers import build, build_encoder
from recollect.layers.recurrent import Recurrent

every_cell = pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
LENGTHS = torch.tensor([5, 0, 3, 5, 1])


@pytest.fixture
def looping(monkeypatch):
    """Take the loop also where there is no GPU."""
    used = []
    own = sequence.StepByStep.forward
    monkeypatch.setattr(
        sequence.StepByStep, "forward", lambda *args, **options: used.append(1) or own(*args, **options)
    )

    def on():
        monkeypatch.setattr(Recurrent, "uses_loop", lambda layer, x: layer.loop_gates is not None)

    on.used = used
    return on


def everything(run, layer, x, first):
    """Outputs, states, and the gradients of all that goes in, from all that comes out."""
    y, after = run(x)
    outputs = [y, *states.leaves(after)]
    wanted = [x, *first, *layer.parameters()]
    return [*outputs, *gradients(outputs, wanted)]


@every_cell
@pytest.mark.parametrize("settings", [{}, {"num_layers": 2}, {"bias": False, "width": 4}], ids=str)
def test_rows_of_unequal_length_are_those_of_the_packed_kernel(cell, settings, looping):
    layer = build(cell, dim=3, **settings).double()
    state = random_state(layer.initial_state(len(LENGTHS)))
    x = inputs(len(LENGTHS), 5, 3)

    def run(x):
        return Recurrent.ragged(layer, x.masked_fill(~ragged.mask(LENGTHS, 5)[..., None], 0), LENGTHS, state)

    def masked(x):
        y, after = run(x)
        return y.masked_fill(~ragged.mask(LENGTHS, 5)[..., None], 0), after

    expected = everything(masked, layer, x, states.leaves(state))
    assert not looping.used
    looping()
    assert_all_close(everything(masked, layer, x, states.leaves(state)), expected, f"{cell} {settings}")
    assert looping.used
    with torch.no_grad():
        assert_all_close([*states.leaves(masked(x))], expected[: 1 + len(state)], "without gradients")


@every_cell
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("lengths", [LENGTHS.clamp(min=1), torch.full((5,), 5)], ids=["ragged", "even"])
def test_both_ways_are_those_of_two_layers(cell, layers, lengths, looping):
    inner = build(cell, dim=3, width=4).config
    encoder = build_encoder("bidirectional", dim=3, layer=inner, num_layers=layers).double()
    x = inputs(5, 5, 3)

    def run(x):
        memory = encoder(x, lengths)
        return memory.values, memory.summary

    expected = everything(run, encoder, x, [])
    looping()
    assert_all_close(everything(run, encoder, x, []), expected, f"{cell}, {layers} layers")
    assert len(looping.used) == layers  # both directions at once


@every_cell
def test_a_step_costs_few_operations(cell, looping):
    layer = build(cell, dim=3).double()
    looping()

    class Counting(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            views = ("view", "select", "unsqueeze", "expand", "transpose", "permute", "detach", "unbind", "split", "t")
            self.count += func.overloadpacket.__name__.removeprefix("_") not in views
            return func(*args, **(kwargs or {}))

    def operations(steps):
        x, lengths = inputs(2, steps, 3), torch.tensor([steps, 1])
        with Counting() as counting:
            y, _ = Recurrent.ragged(layer, x, lengths, layer.initial_state(2))
            y.sum().backward()
        return counting.count

    extra = operations(9) - operations(8)
    assert extra <= {"rnn": 5, "gru": 20, "lstm": 26}[cell]  # on a GPU the gates are one each way


@every_cell
def test_torch_func_takes_torchs_kernel(cell):
    """It cannot look into the loop, and torch's kernel it knows."""
    layer, on_a_gpu = build(cell, dim=3), SimpleNamespace(is_cuda=True)
    assert layer.uses_loop(on_a_gpu)
    seen = []
    torch.func.grad(lambda x: seen.append(layer.uses_loop(on_a_gpu)) or x.sum())(torch.ones(2))
    assert seen == [False]


def test_a_second_derivative_is_refused_in_a_line(looping):
    layer = build("lstm", dim=3).double()
    looping()
    x = inputs(2, 4, 3)
    y, _ = Recurrent.ragged(layer, x, torch.tensor([4, 2]), layer.initial_state(2))
    with pytest.raises(RuntimeError, match="expected a first derivative"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


@every_cell
def test_lowered_by_autocast_it_is_near_the_whole(cell, looping):
    layer = build(cell, dim=8).float()
    x, lengths = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([6, 2, 4])
    expected, last = ragged.run(layer, x, lengths)
    looping()
    with torch.autocast("cpu", torch.bfloat16):
        found, after = Recurrent.ragged(layer, x, lengths, layer.initial_state(3))
    assert found.dtype == torch.bfloat16
    assert [part.dtype for part in after] == [part.dtype for part in last]
    torch.testing.assert_close(found.float().masked_fill(expected == 0, 0), expected, rtol=0.05, atol=0.03)


@every_cell
def test_a_backward_pass_under_autocast_is_that_of_the_forward_pass(cell, looping):
    layer = build(cell, dim=8).float()
    x, lengths = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([6, 2, 4])
    looping()
    state = random_state(layer.initial_state(3))
    y, _ = layer.run_loop(x, lengths, state)
    of_loop = [*states.leaves(state), layer.weight_hh_l0, layer.bias_hh_l0]  # those of W are torch's own
    expected = torch.autograd.grad(y.square().sum(), of_loop, retain_graph=True)
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.autograd.grad(y.square().sum(), of_loop)
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.equal(mine, theirs)


@every_cell
def test_without_gradients_no_step_is_kept(cell, looping, monkeypatch):
    layer = build(cell, dim=8)
    looping()
    found, own = [], sequence.StepByStep.forward
    monkeypatch.setattr(
        sequence.StepByStep, "forward", lambda *args, **options: found.append(own(*args, **options)) or found[-1]
    )
    x, lengths = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([6, 2, 4])
    layer.run_loop(x, lengths, layer.initial_state(3))
    with torch.no_grad():
        layer.run_loop(x, lengths, layer.initial_state(3))
    assert [bool(each.saved) for each in found] == [True, False]


@every_cell
def test_ways_for_which_no_kernel_is_large_enough_go_one_after_the_other(cell, looping, monkeypatch):
    """The kernel stands for itself: here it is the loop of a single way."""
    inner = build(cell, dim=3, width=4).config
    encoder = build_encoder("bidirectional", dim=3, layer=inner).double()
    x, lengths = inputs(5, 5, 3), LENGTHS.clamp(min=1)

    def run(x):
        memory = encoder(x, lengths)
        return memory.values, memory.summary

    expected = everything(run, encoder, x, [])
    looping()
    gates = encoder.forwards[0].loop_gates
    monkeypatch.setattr(
        sequence, "find_persistent", lambda *_, directions=1: sequence.StepByStep(gates) if directions == 1 else None
    )
    assert_all_close(everything(run, encoder, x, []), expected, cell)
    assert len(looping.used) == 2
