"""Exports of models with a layer from outside, which reads its source in a loop of the graph."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from recollect import layers
from recollect.core import ragged
from recollect.core import state as states
from recollect.core.contract import Cell, ContractError, Cost
from recollect.core.contract import Config as BaseConfig
from recollect.export import package


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    width: int | None = None

    def build(self):
        return Own(self)


class State(NamedTuple):
    h: Tensor  # B W
    clock: Tensor  # B


class Own(Cell[State]):
    """A mean of what was seen, which also counts its steps."""

    def __init__(self, config):
        super().__init__()
        self.config, self.dim, self.width = config, config.dim, config.width or config.dim
        self.gate, self.candidate = nn.Linear(self.dim, self.width), nn.Linear(self.dim, self.width)

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        h = self.like(like).new_zeros(batch, self.width)
        return State(h, torch.zeros(batch, dtype=torch.int64, device=h.device))

    def update(self, state, x):
        return State(torch.lerp(state.h, self.candidate(x), self.gate(x).sigmoid()), state.clock + 1)

    def read(self, state, x):
        return state.h / state.clock[:, None]

    def cost(self, batch, steps, source=0):
        return Cost(4 * batch * steps * self.dim * self.width, batch * (self.width * self.element_size() + 8))


class Grown(NamedTuple):
    seen: Tensor  # B T D


@dataclass(frozen=True, kw_only=True)
class GrowingConfig(Config):
    def build(self):
        return Growing(self)


class Growing(Cell[Grown]):
    """Keeps all that it has seen."""

    def __init__(self, config):
        super().__init__()
        self.config, self.dim, self.width = config, config.dim, config.width or config.dim
        self.mean = nn.Linear(self.dim, self.width)

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return Grown(self.like(like).new_zeros(batch, 0, self.dim))

    def update(self, state, x):
        return Grown(torch.cat([state.seen, x[:, None]], dim=1))

    def read(self, state, x):
        return self.mean(state.seen.mean(dim=1))

    def cost(self, batch, steps, source=0):
        return Cost(2 * batch * steps * self.dim * self.width, batch * steps * self.dim * self.element_size())


@pytest.fixture(autouse=True)
def _registry():
    before = dict(layers.LAYERS)
    layers.add("own", Config)
    layers.add("growing", GrowingConfig)
    yield
    layers.LAYERS.clear()
    layers.LAYERS.update(before)


def assert_agrees(run, out):
    """The files agree with the model on random and real inputs: `package.export` writes none that do not."""
    manifest = package.export(run, out)
    assert {"step", "encode"} <= set(manifest.graphs)
    assert manifest.agreement.largest_error <= 1e-5
    assert manifest.agreement.inputs == ("random", "real")


class Read(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, lengths):
        y, state = ragged.run(self.layer, x, lengths)
        return y, *states.leaves(state)


def test_a_trace_of_rows_of_unequal_length_holds_for_any_length():
    torch.manual_seed(0)
    read = Read(Config(dim=3, width=2).build()).eval()
    rows, steps = torch.export.Dim("rows", min=1), torch.export.Dim("steps", min=2)
    shapes = {"x": {0: rows, 1: steps}, "lengths": {0: rows}}
    with torch.no_grad():
        given = torch.randn(2, 4, 3), torch.tensor([4, 1])
        traced = torch.export.export(read, given, dynamic_shapes=shapes, strict=False).module()
        x, lengths = torch.randn(3, 7, 3), torch.tensor([5, 0, 7])
        found, expected = traced(x, lengths), read(x, lengths)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "model", "settings"),
    [
        ("translation", "attend", {"encoder": "own"}),
        ("translation", "own", {"layers": 2}),
        ("translation", "transformer", {"encoder": "own", "both_ways": False}),
        ("translation", "context", {"encoder": "linear-attention"}),
        ("translation", "context", {"encoder": "ttt-linear"}),
        ("translation", "context", {"encoder": "tcn-block"}),
        ("captions", "attend", {"encoder": "own"}),
        ("captions", "own", {"encoder": "own"}),
    ],
)
def test_a_layer_that_reads_a_source_step_by_step_is_exported(run_of, tmp_path, task, model, settings):
    assert_agrees(run_of(task, model, **settings), tmp_path / "out")


@pytest.mark.slow
def test_a_layer_whose_state_grows_with_the_source_is_refused_in_one_line(run_of, tmp_path):
    run = run_of("translation", "attend", encoder="growing", both_ways=False)
    with pytest.raises(ContractError, match="state of one size to read a source .*'seen', which grows; use a layer"):
        package.export(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
