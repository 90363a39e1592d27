"""Many full mini-batches of test-time training on a CPU at once, against one mini-batch after the other."""

import pytest
import torch

import recollect
from recollect.core import state as states
from recollect.layers import ttt_scan


def run(layer, x, state):
    """Outputs, final state, and the gradients of x and of every parameter."""
    x = x.detach().requires_grad_()
    y, state = layer(x, state)
    leaves = states.leaves(state)
    total = y.square().sum() + sum(leaf.square().sum() for leaf in leaves if leaf.is_floating_point())
    return [y, *leaves, *torch.autograd.grad(total, [x, *layer.parameters()], materialize_grads=True)]


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("name", ["ttt-linear", "ttt-mlp"])
def test_it_equals_one_mini_batch_after_the_other(name, average, monkeypatch):
    torch.manual_seed(0)
    layer = recollect.build(name, dim=8, heads=2, mini_batch=4, average=average).double()
    x = torch.randn(3, 27, 8, dtype=torch.float64)
    _, parted = layer(x[:2, :1], layer.initial_state(2))  # rows stand at different places in their mini-batch
    start = states.detach(states.join([parted, layer.initial_state(1)]))
    at_once = run(layer, x, start)
    monkeypatch.setattr(ttt_scan, "FEWEST", 10**9)
    for found, wanted in zip(at_once, run(layer, x, start), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)


def test_boundaries_are_held_a_few_at_a_time_where_no_gradient_is_asked_for(monkeypatch):
    torch.manual_seed(0)
    layer = recollect.build("ttt-linear", dim=8, heads=2, mini_batch=2).double()
    x, counts = torch.randn(1, 21, 8, dtype=torch.float64), []
    together = ttt_scan.run_together

    def counted(layer, model, gathered, q, *others):
        counts.append(q.shape[2] // 2)
        return together(layer, model, gathered, q, *others)

    monkeypatch.setattr(ttt_scan, "run_together", counted)
    with torch.no_grad():
        wanted, last = layer(x, layer.initial_state(1))
        monkeypatch.setattr(ttt_scan, "HELD", 4 * sum(part.numel() for part in states.leaves(last.model)))
        found, left = layer(x, layer.initial_state(1))
    assert counts == [10, 4, 4, 2]
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(left.model.weights[0], last.model.weights[0], rtol=1e-10, atol=1e-12)
