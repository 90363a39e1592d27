"""The FLOPs that every layer declares against those that torch counts while it runs.

Two things are invisible to torch's counter on a CPU, and are made visible here:

- the fused attention kernel for CPUs is not in its table, so attention runs as torch's own plain products;
- `torch.einsum` multiplies instead of calling a matrix product where the axis to sum over has length 1 (the one
  key of a first step), so an einsum is counted by its definition: 2 · the product of the lengths of all its axes.
"""

import math
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from laws.cases import every_layer
from recollect.core import state as states
from unit.oracles import source


class Counter(TorchFunctionMode):
    """Matrix-product FLOPs of all that runs inside."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = FlopCounterMode(display=False)
        self.extra = 0  # of einsums, less what torch saw of them

    def __enter__(self) -> "Counter":
        self.kernel = sdpa_kernel(SDPBackend.MATH)
        self.kernel.__enter__()
        self.seen.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.seen.__exit__(*error)
        self.kernel.__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = self.seen.get_total_flops()
        result = func(*args, **(kwargs or {}))
        if func is torch.einsum:
            equation, *operands = args
            axes = {}
            for names, operand in zip(equation.split("->")[0].split(","), operands, strict=True):
                axes |= dict(zip(names.strip(), operand.shape, strict=True))
            self.extra += 2 * math.prod(axes.values()) - (self.seen.get_total_flops() - before)
        return result

    @property
    def flops(self) -> int:
        return self.seen.get_total_flops() + self.extra


def count(config: Any, batch: int, steps: int, length: int) -> tuple[int, int]:
    """FLOPs counted and declared: the initial state, and then one step at a time."""
    layer = config.build().double().eval()
    example = config.example(batch, max(steps, 1), dtype=torch.float64)
    memory = None
    if example.memory is not None:
        memory = states.detach(source(batch, length, example.memory.values.shape[2]))
        memory = memory._replace(summary=example.memory.summary)
    with Counter() as counter, torch.no_grad():
        state = layer.initial_state(batch, memory=memory, like=example.x)
        for t in range(steps):
            _, state = layer(example.x[:, t : t + 1], state)
    return counter.flops, layer.cost(batch, steps, length if memory is not None else 0).flops


@pytest.mark.parametrize(("batch", "steps", "length"), [(2, 6, 5), (3, 1, 4), (1, 9, 7), (2, 0, 3)])
@every_layer
def test_the_flops_that_a_layer_declares_are_those_that_torch_counts(
    config: Any, batch: int, steps: int, length: int
) -> None:
    counted, declared = count(config, batch, steps, length)
    assert declared == counted


def test_the_counter_sees_products_einsums_and_attention() -> None:
    a, b = torch.randn(2, 3), torch.randn(3, 5)
    q = torch.randn(2, 4, 7, 3)
    with Counter() as counter:
        _ = a @ b
    assert counter.flops == 2 * 2 * 3 * 5
    with Counter() as counter:
        torch.einsum("ij,jk->ik", a, b)
    assert counter.flops == 2 * 2 * 3 * 5
    with Counter() as counter:
        torch.einsum("ij,jk->ik", a[:, :1], b[:1])
    assert counter.flops == 2 * 2 * 1 * 5
    with Counter() as counter:
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
    assert counter.flops == 2 * (2 * 2 * 4 * 7 * 7 * 3)
