"""States of other modules in the contract's form, and back."""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from recollect.core import state as states
from recollect.doctor import foreign


class Pair(NamedTuple):
    h: torch.Tensor
    c: torch.Tensor


@dataclass
class Slot:
    keys: torch.Tensor
    count: int


def make(rows, steps):
    """An LSTM's state, a cache with slots along axis 2, a clock without rows, a number."""
    return {
        "lstm": Pair(torch.randn(2, rows, 3), torch.randn(2, rows, 3)),
        "cache": [Slot(torch.randn(rows, 2, steps, 5), steps)],
        "clock": torch.tensor(float(steps)),
    }


def test_rows_come_first_and_slots_second_and_all_goes_back():
    axes = foreign.find_axes(make)
    assert axes == {
        "['lstm'].h": (1, 0, 2),
        "['lstm'].c": (1, 0, 2),
        "['cache'][0].keys": (0, 2, 1, 3),
        "['clock']": None,
    }
    state = make(4, 6)
    held = foreign.hold(state, axes, 4)
    assert [tuple(t.shape) for t in held.tensors] == [(4, 2, 3), (4, 2, 3), (4, 6, 2, 5), (4,)]
    back = foreign.release(held)
    assert isinstance(back["lstm"], Pair)
    assert back["cache"][0].count == 6
    for (path, tensor), (same, again) in zip(foreign.flatten(state), foreign.flatten(back), strict=True):
        assert path == same
        assert torch.equal(tensor, again)


def test_rows_of_a_held_state_are_selected_and_it_keeps_its_bytes():
    axes = foreign.find_axes(make)
    state = make(3, 2)
    held = foreign.hold(state, axes, 3)
    one = foreign.release(states.select(held, torch.tensor([2])))
    assert torch.equal(one["lstm"].h, state["lstm"].h[:, 2:])
    assert states.nbytes(held) == sum(tensor.numel() * 4 for _, tensor in foreign.flatten(state))


def test_a_released_state_shares_neither_tensors_nor_containers():
    state = make(2, 2)
    held = foreign.hold(state, foreign.find_axes(make), 2)
    given = foreign.release(held)
    given["lstm"].h.zero_()
    given["cache"].append(None)
    given["cache"][0].count = 9
    assert state["lstm"].h.abs().sum() > 0
    assert len(state["cache"]) == 1
    assert state["cache"][0].count == 2


def test_a_state_that_refers_to_itself_ends():
    slot = Slot(torch.zeros(2), 1)
    slot.again = slot
    assert foreign.flatten(slot)[0][0] == ".keys"
