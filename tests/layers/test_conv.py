"""The layers that see a fixed number of past inputs: conv, window and the block of a temporal convolutional network."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from oracles import assert_all_close, assert_close, gradients, inputs, random_state
from recollect.core import ragged
from recollect.layers import build, combine, conv, tcn

CONVS: list[dict[str, Any]] = [
    {},
    {"width": 6},
    {"kernel": 1},
    {"kernel": 2, "dilation": 3},
    {"kernel": 5, "dilation": 4, "width": 3},
    {"depthwise": True, "kernel": 3, "dilation": 2},
]
CHUNKS = {"whole": [9], "steps": [1] * 9, "pieces": [2, 1, 6]}


def run(layer: Any, x: Tensor, chunks: list[int], state: Any = None) -> tuple[Tensor, Any]:
    state, parts = layer.initial_state(len(x)) if state is None else state, []
    for part in x.split(chunks, dim=1):
        y, state = layer(part, state)
        parts.append(y)
    return torch.cat(parts, dim=1), state


def slide(module: nn.Conv1d, x: Tensor) -> Tensor:
    """A convolution of B T D with zeros on the left only."""
    left = (module.kernel_size[0] - 1) * module.dilation[0]
    return module(pad(x.mT, (left, 0))).mT


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("options", CONVS, ids=str)
def test_conv_equals_torch_with_zeros_on_the_left(options: dict[str, Any], chunks: str) -> None:
    layer = build("conv", dim=4, **options).double()
    oracle = nn.Conv1d(
        4,
        options.get("width", 4),
        options.get("kernel", 3),
        dilation=options.get("dilation", 1),
        groups=4 if options.get("depthwise") else 1,
    ).double()
    layer.conv.load_state_dict(oracle.state_dict())
    x = inputs(2, 9, 4)
    y, _ = run(layer, x, CHUNKS[chunks])
    expected = slide(oracle, x)
    assert_close(y, expected)
    found = gradients([y], [x, layer.conv.weight, layer.conv.bias])
    assert_all_close(found, gradients([expected], [x, oracle.weight, oracle.bias]), "gradient")


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("options", CONVS, ids=str)
def test_conv_goes_on_from_what_it_saw(options: dict[str, Any], chunks: str) -> None:
    layer = build("conv", dim=4, **options).double()
    start = random_state(layer.initial_state(2))
    x = inputs(2, 9, 4)
    y, after = run(layer, x, CHUNKS[chunks], start)
    seen = torch.cat([start.window, x], dim=1)
    assert_close(y, slide(layer.conv, seen)[:, start.window.shape[1] :])
    assert_close(after.window, seen[:, -start.window.shape[1] :])


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize("tau", [1, 3, 12])
def test_window_equals_an_explicit_loop(tau: int, kind: str, chunks: str) -> None:
    layer = build("window", dim=3, width=2, tau=tau, map=kind, hidden=5).double()
    x = inputs(2, 9, 3)
    outputs = []
    for t in range(9):
        y_t = []
        for b in range(2):
            last = [x[b, s] if s >= 0 else torch.zeros(3).double() for s in range(t - tau + 1, t + 1)]
            seen = torch.cat(last)  # oldest first
            if kind == "linear":
                y_t.append(layer.map.weight @ seen + layer.map.bias)
            else:
                first, _, second = layer.map
                y_t.append(second.weight @ torch.tanh(first.weight @ seen + first.bias) + second.bias)
        outputs.append(torch.stack(y_t))
    expected = torch.stack(outputs, dim=1)
    y, after = run(layer, x, CHUNKS[chunks])
    assert_close(y, expected)
    assert_close(after.window, pad(x, (0, 0, tau, 0))[:, -tau:])
    wrt = [x, *layer.parameters()]
    assert_all_close(gradients([y], wrt), gradients([expected], wrt), "gradient")


def reach(layer: Any, steps: int) -> int:
    """How many inputs back the last output depends on, measured by its gradient."""
    x = inputs(1, steps, layer.dim)
    y, _ = layer(x, layer.initial_state(1))
    (gradient,) = torch.autograd.grad(y[0, -1].sum(), x)
    touched = gradient[0].abs().sum(dim=-1).nonzero()
    assert len(touched), "nothing reaches the output"
    return steps - int(touched[0])


@pytest.mark.parametrize(
    "taps", [[(3, 1)], [(2, 1), (2, 2), (2, 4)], [(3, 1), (3, 2), (3, 4)], [(4, 3), (1, 5), (2, 7)]], ids=str
)
def test_the_reach_of_a_stack_of_dilated_convolutions_is_what_its_taps_sum_to(taps: list[tuple[int, int]]) -> None:
    layers = tuple(conv.Config(dim=3, kernel=kernel, dilation=dilation) for kernel, dilation in taps)
    expected = 1 + sum((kernel - 1) * dilation for kernel, dilation in taps)
    stack = combine.StackConfig(dim=3, layers=layers).build().double()
    assert reach(stack, expected + 10) == expected


@pytest.mark.parametrize("dilations", [[1], [1, 2, 4]], ids=str)
def test_the_reach_of_tcn_blocks_counts_both_their_convolutions(dilations: list[int]) -> None:
    layers = tuple(tcn.Config(dim=16, kernel=3, dilation=dilation) for dilation in dilations)
    stack = combine.StackConfig(dim=16, layers=layers).build().double()
    with torch.no_grad():  # keep every relu open, so that no path is shut by chance
        for block in stack.layers:
            for part in (block.first, block.second):
                part.conv.weight.abs_()
                part.conv.bias.fill_(100.0)
    expected = 1 + sum(2 * 2 * dilation for dilation in dilations)
    assert reach(stack, expected + 10) == expected


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("width", [None, 5])
def test_a_tcn_block_equals_its_formula(width: int | None, chunks: str) -> None:
    layer = build("tcn-block", dim=4, width=width, kernel=3, dilation=2).double()
    x = inputs(2, 9, 4)
    inside = torch.relu(slide(layer.second.conv, torch.relu(slide(layer.first.conv, x))))
    short = x if width is None else x @ layer.shortcut.weight.T + layer.shortcut.bias
    expected = torch.relu(short + inside)
    y, _ = run(layer, x, CHUNKS[chunks])
    assert_close(y, expected)
    wrt = [x, *layer.parameters()]
    assert_all_close(gradients([y], wrt), gradients([expected], wrt), "gradient")


def test_convolutions_of_a_tcn_block_may_start_as_he_2015_has_them() -> None:
    torch.manual_seed(0)
    for start, expected in (("torch", (3 * 40 * 5) ** -0.5), ("he", (2 / (40 * 5)) ** 0.5)):
        block = build("tcn-block", dim=40, kernel=5, start=start)
        for taps in (block.first, block.second):
            assert float(taps.conv.weight.detach().std()) == pytest.approx(expected, rel=0.05)


def test_dropout_of_a_tcn_block_acts_in_training_only() -> None:
    layer = build("tcn-block", dim=8, dropout=0.5).double()
    plain = build("tcn-block", dim=8).double()
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(2, 9, 8).double()
    expected, _ = run(plain, x, [9])
    assert (run(layer.train(), x, [9])[0] - expected).abs().max() > 1e-3
    assert_close(run(layer.eval(), x, [9])[0], expected)


@pytest.mark.parametrize("name", ["conv", "window", "tcn-block"])
def test_rows_of_unequal_length_keep_their_own_last_inputs(name: str) -> None:
    layer = build(name, dim=3).double()
    x, lengths = torch.randn(3, 6, 3).double(), [6, 0, 2]
    _, state = ragged.run(layer, x, lengths)
    kept = state.first.window if name == "tcn-block" else state.window
    for row, length in enumerate(lengths):
        expected = pad(x[row, :length], (0, 0, kept.shape[1], 0))[-kept.shape[1] :]
        assert torch.equal(kept[row], expected), f"row {row}"


def test_growing_dilations_reach_further_at_the_same_cost() -> None:
    plain, dilated = (
        combine.StackConfig(dim=3, layers=tuple(conv.Config(dim=3, kernel=2, dilation=d) for d in dilations)).build()
        for dilations in ([1, 1, 1], [1, 2, 4])
    )
    assert plain.cost(1, 10).flops == dilated.cost(1, 10).flops
    reaches = [reach(layer.double(), 20) for layer in (plain, dilated)]
    assert reaches == [4, 8]
