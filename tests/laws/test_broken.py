"""One deliberately broken layer for each law, caught by that law."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from recollect.core import laws
from recollect.core.contract import Cell, Cost
from recollect.layers import ENCODERS, attention


class State(NamedTuple):
    total: Tensor  # B D


class Sum(Cell[State]):
    """A good layer: the running sum of its inputs. Each broken one changes one thing about it."""

    def __init__(self) -> None:
        super().__init__()
        self.dim = self.width = 3

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return State(self.like(like).new_zeros(batch, 3))

    def update(self, state, x):
        return State(state.total + x)

    def read(self, state, x):
        return state.total

    def cost(self, batch, steps, source=0):
        return Cost(0, batch * 3 * 8)


class ForgetsItsState(Sum):
    def forward(self, x, state):
        y = x.cumsum(dim=1)
        return y, State(y[:, -1].clone())


class LosesAGradient(Sum):
    def forward(self, x, state):
        y = state.total.detach()[:, None] + x.cumsum(dim=1)
        return y, State(y[:, -1].clone())


class SeesTheFuture(Sum):
    def unroll(self, x, state):
        return x.sum(dim=1, keepdim=True).expand_as(x) + state.total[:, None], State(state.total + x.sum(dim=1))


class LooksAtItsNeighbours(Sum):
    def update(self, state, x):
        return State(state.total + x - x.mean(dim=0))


class CountsThePadding(Sum):
    def update(self, state, x):
        return State(state.total + x + 1)

    def ragged(self, x, lengths, state):
        return self(x, state)


class WritesInPlace(Sum):
    def update(self, state, x):
        return State(state.total.add_(x))


class KeepsTooMuchAlive(Sum):
    def forward(self, x, state):
        y = state.total[:, None] + x.cumsum(dim=1)
        return y, State(y[:, -1])  # a view that keeps all of y alive


class RemembersOutsideItsState(Sum):
    def update(self, state, x):
        self.calls = getattr(self, "calls", 0) + 1
        return State(state.total + x * self.calls)


X = torch.randn(3, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def broken(layer):
    return layer.double().eval()


def test_the_good_layer_keeps_every_law():
    assert max(laws.check(broken(Sum()), X).values()) < 1e-10


@pytest.mark.parametrize(
    ("layer", "law", "run"),
    [
        (ForgetsItsState, "Chunk", lambda layer: laws.chunk(layer, X, [2, 4])),
        (LosesAGradient, "Chunk", lambda layer: laws.chunk(layer, X, [2, 4])),
        (SeesTheFuture, "Cause", lambda layer: laws.cause(layer, X, 3)),
        (LooksAtItsNeighbours, "Row", lambda layer: laws.row(layer, X)),
        (CountsThePadding, "Ragged", lambda layer: laws.ragged(layer, X, [6, 3, 0])),
        (WritesInPlace, "Purity", lambda layer: laws.purity(layer, X)),
        (KeepsTooMuchAlive, "Size", lambda layer: laws.size(layer, X)),
        (RemembersOutsideItsState, "File", lambda layer: laws.file(layer, X)),
    ],
)
def test_each_law_catches_the_layer_that_breaks_it(layer, law, run):
    with pytest.raises(laws.LawBroken, match=f"^{law} law broken by {layer.__name__} .*") as caught:
        run(broken(layer()))
    assert "\n" not in str(caught.value)


def test_the_message_names_law_layer_chunking_and_error():
    with pytest.raises(laws.LawBroken) as caught:
        laws.chunk(broken(ForgetsItsState()), X, [2, 4])
    message = str(caught.value)
    for part in ("Chunk law", "ForgetsItsState (3 → 3)", "2+4", "differs by", "allowed 1e-10"):
        assert part in message


def test_symmetry_catches_an_encoder_that_knows_positions():
    encoder = ENCODERS["attention"](dim=4, positions="sinusoid").build().double().eval()
    with pytest.raises(laws.LawBroken, match="^Symmetry law broken by FullAttention"):
        laws.symmetry(encoder, torch.randn(2, 4, 4, dtype=torch.float64), [3, 2, 1, 0])


def test_leaving_the_mask_out_breaks_cause():
    layer = broken(attention.Config(dim=3, masked=False).build())
    with pytest.raises(laws.LawBroken, match="^Cause law broken by Attention"):
        laws.cause(layer, X, 3)


def test_batchnorm_in_training_breaks_row_and_cause():
    """The exemption that the design names, shown."""
    from recollect.layers import norm

    layer = norm.Config(dim=3, kind="batch").build().double().train()
    with pytest.raises(laws.LawBroken, match="^Row law broken by Norm"):
        laws.row(layer, X)
    with pytest.raises(laws.LawBroken, match="^Cause law broken by Norm"):
        laws.cause(layer, X, 3)
