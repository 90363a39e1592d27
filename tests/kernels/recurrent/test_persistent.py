"""Recurrent cells in one kernel against the loop step by step: on a GPU, or in Triton's interpreter.

There programs run one after the other, so none may wait for another: one program has all units.
"""

from itertools import product
from math import prod
from types import SimpleNamespace

import pytest
import torch

from recollect import kernels
from recollect.kernels.recurrent import sequence
from recollect.kernels.recurrent.gates import GATES
from recollect.layers import build, build_encoder

pytestmark = pytest.mark.triton
every_cell = pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
on_a_gpu = pytest.mark.gpu
interpreted = pytest.mark.deep  # on tensors of the CPU
COUNT = {"rnn": 1, "gru": 3, "lstm": 4}


def given(cell, directions, batch, width, steps, bias, device="cpu"):
    """What `sequence.run_steps` takes, and slopes for what it gives."""
    make = torch.Generator().manual_seed(0)

    def drawn(*shape, scale=1.0):
        return (torch.randn(shape, generator=make) * scale).to(device).requires_grad_()

    sums = COUNT[cell] * width
    from_x, U = drawn(steps, directions, batch, sums), drawn(directions, sums, width, scale=width**-0.5)
    d, h = drawn(directions, sums) if bias else None, drawn(directions, batch, width)
    c = drawn(directions, batch, width) if cell == "lstm" else None
    slopes = [drawn(steps, directions, batch, width).detach() for _ in range(2 if cell == "lstm" else 1)]
    return (from_x, U, d, h, c), slopes


def outcome(steps, inputs, slopes):
    found = [part for part in sequence.Loop.apply(steps, *inputs) if part is not None]
    return [*found, *torch.autograd.grad(found, [part for part in inputs if part is not None], slopes)]


def assert_near(found, expected, tolerance):
    for mine, theirs in zip(found, expected, strict=True):
        mine, theirs = mine.detach(), theirs.detach()
        scale = float(theirs.abs().max())
        torch.testing.assert_close(mine.double(), theirs.double(), rtol=0, atol=tolerance * scale)


@interpreted
@every_cell
@pytest.mark.parametrize(
    ("directions", "batch", "width", "steps", "bias", "parts"),
    [
        (1, 3, 16, 5, True, 8),
        (2, 20, 13, 4, False, 4),
        (1, 1, 9, 1, True, 8),
        (3, 17, 16, 2, True, 4),
        (1, 1, 1, 8, True, 8),
    ],
)
def test_outputs_and_gradients_are_those_of_the_loop(cell, directions, batch, width, steps, bias, parts):
    from recollect.kernels.recurrent.persistent import Persistent, Plan

    inputs, slopes = given(cell, directions, batch, width, steps, bias)
    expected = outcome(sequence.StepByStep(GATES[cell]), inputs, slopes)
    whole = Plan(units=16, rows=16, block=128, parts=parts)
    assert_near(outcome(Persistent(cell, whole, whole), inputs, slopes), expected, 2e-6)


@interpreted
@every_cell
def test_outputs_may_be_asked_for_in_part_and_inputs_lie_in_any_order(cell):
    from recollect.kernels.recurrent.persistent import Persistent, Plan

    inputs, _ = given(cell, directions=2, batch=3, width=8, steps=5, bias=True)
    turned = [None if part is None else part.detach().mT.contiguous().mT.requires_grad_() for part in inputs]
    whole = Plan(units=16, rows=16, block=128, parts=8)

    def slopes(steps, inputs):
        last = [part for part in sequence.Loop.apply(steps, *inputs) if part is not None][-1]  # c alone of an lstm
        return torch.autograd.grad(last[2].sum(), [part for part in inputs if part is not None])

    assert_near(slopes(Persistent(cell, whole, whole), turned), slopes(sequence.StepByStep(GATES[cell]), inputs), 2e-6)


@interpreted
@every_cell
def test_outputs_alone_save_nothing_for_a_backward_pass(cell):
    from recollect.kernels.recurrent.persistent import Persistent, Plan

    (from_x, U, d, h, c), _ = given(cell, directions=2, batch=3, width=13, steps=4, bias=True)
    whole = Plan(units=16, rows=16, block=128, parts=8)
    with torch.no_grad():
        expected = sequence.StepByStep(GATES[cell]).forward(from_x, U, d, h, c, save=True)
        found = Persistent(cell, whole, whole).forward(from_x, U, d, h, c, save=False)
    assert not found.saved
    assert_near(
        [part for part in found[:2] if part is not None], [part for part in expected[:2] if part is not None], 2e-6
    )


def test_programs_multiply_alike_forward_and_backward_whatever_is_set_between_them(monkeypatch):
    """The plan, and what fits on the chip, is that of the precision when it was made."""
    from recollect.kernels.recurrent import persistent_kernels
    from recollect.kernels.recurrent.persistent import Persistent

    precisions = []

    class Kernel:
        def __getitem__(self, grid):
            return lambda *_, PRECISION, **__: precisions.append(PRECISION)

    rnn, own = torch.backends.cudnn.rnn, torch.backends.cudnn.rnn.fp32_precision
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(multi_processor_count=132))
    monkeypatch.setattr(persistent_kernels, "forward", Kernel())
    monkeypatch.setattr(persistent_kernels, "backward", Kernel())
    (from_x, U, d, h, c), slopes = given("lstm", directions=1, batch=3, width=16, steps=8, bias=True)
    try:
        for first, then in (("tf32", "ieee"), ("ieee", "tf32")):
            rnn.fp32_precision = first  # of rnn alone: torch refuses to tell cudnn.allow_tf32
            steps = Persistent.fit("lstm", U, torch.float32, 3, 1)
            found = sequence.Loop.apply(steps, from_x, U, d, h, c)
            rnn.fp32_precision = then
            torch.autograd.grad(found, [from_x], slopes)
    finally:
        rnn.fp32_precision = own
    assert precisions == ["tf32", "tf32", "tf32x3", "tf32x3"]


@every_cell
@pytest.mark.parametrize("columns", [40, 130, 768, 3072])
def test_programs_all_run_at_a_time(cell, columns):
    """Whatever the sizes: no more programs than may run, and every unit and row has one."""
    from recollect.kernels.recurrent.persistent import CHIP_BYTES, plan

    lanes = 1 if cell == "rnn" else 4
    for width in (13, 130, 512, 1024):
        for batch, directions, size in product((1, 16, 200, 1000), (1, 2), (2, 4, 8)):
            found = plan(columns, lanes, width, batch, directions, size, 132)
            if found is None:
                continue
            across, down, deep = found.grid(width, batch, directions)
            assert prod((across, down, deep)) <= 132
            assert across * found.units >= width
            assert down * found.rows >= batch
            assert columns * found.units * lanes * size <= CHIP_BYTES


@on_a_gpu
@every_cell
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("directions", "batch", "width", "steps"), [(1, 16, 256, 50), (2, 40, 130, 33), (1, 200, 48, 100)]
)
def test_many_programs_find_what_one_loop_does(cell, dtype, directions, batch, width, steps, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(kernels, "is_gpu_shared", lambda: False)
    inputs, slopes = given(cell, directions, batch, width, steps, True, "cuda")
    expected = outcome(sequence.StepByStep(GATES[cell]), inputs, slopes)
    lowered = [None if part is None else part.detach().to(dtype).requires_grad_() for part in inputs]
    persistent = sequence.find_persistent(cell, lowered[1], dtype, batch, steps, directions)
    assert persistent is not None
    tolerance = 1e-5 if dtype == torch.float32 else 5e-2
    for _ in range(3):  # a barrier missed would not be missed each time
        assert_near(outcome(persistent, lowered, [slope.to(dtype) for slope in slopes]), expected, tolerance)


@on_a_gpu
@every_cell
def test_layers_take_it_and_can_be_captured(cell, monkeypatch):
    from recollect.kernels.recurrent.persistent import Persistent

    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(kernels, "is_gpu_shared", lambda: False)
    used, own = [], Persistent.forward
    monkeypatch.setattr(Persistent, "forward", lambda *args, **options: used.append(1) or own(*args, **options))
    layer = build(cell, dim=40, num_layers=2)
    encoder = build_encoder("bidirectional", dim=40, layer=build(cell, dim=40).config)
    x = torch.randn(9, 20, 40)

    def run(x):
        y, _ = layer(x, layer.initial_state(len(x)))
        y = torch.cat([y, encoder(x, torch.arange(12, 21, device=x.device)).values], dim=-1)
        return [y.detach(), *torch.autograd.grad(y.square().sum(), [*layer.parameters(), *encoder.parameters()])]

    expected = run(x)
    assert not used
    layer.cuda(), encoder.cuda()
    mine = x.cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run(mine)
    torch.cuda.current_stream().wait_stream(side)
    assert len(used) == 3
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run(mine)
    for again in (x, x.flip(0)):
        mine.copy_(again)
        graph.replay()
        assert_near(
            [part.cpu() for part in found], expected if again is x else run_on_cpu(layer, encoder, run, again), 1e-4
        )


def run_on_cpu(layer, encoder, run, x):
    layer.cpu(), encoder.cpu()
    try:
        return run(x)
    finally:
        layer.cuda(), encoder.cuda()
