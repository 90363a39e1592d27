"""The FLOPs that every layer declares against those that are counted while it runs."""

from typing import Any

import pytest
import torch

from laws.cases import every_layer
from oracles import source
from recollect.core import state as states
from recollect.core.flops import Counter


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
