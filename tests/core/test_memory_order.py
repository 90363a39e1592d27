"""States keep the order of their axes in memory: a cache lies as attention reads it fastest."""

import pytest
import torch

from recollect.core import state as states


def by_head(rows=3, slots=4, heads=2, size=5):
    """B N G d, whose slots of a head lie side by side."""
    return torch.randn(rows, heads, slots, size).transpose(1, 2)


@pytest.mark.parametrize("change", [lambda t: states.fit(t, 7), lambda t: states.select(t, torch.tensor([2, 0, 0, 1]))])
def test_more_slots_and_other_rows_lie_as_they_did(change):
    tensor = by_head()
    found = change(tensor)
    assert found.transpose(1, 2).is_contiguous()
    assert torch.equal(found, change(tensor.contiguous()))


def test_new_slots_are_empty():
    tensor = by_head()
    wide = states.fit(tensor, 6)
    assert torch.equal(wide[:, :4], tensor)
    assert wide.shape[1] == 6
    assert not wide[:, 4:].any()
