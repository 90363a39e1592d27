"""Rows to print, sides that fail, and a clock that stands still."""

import pytest
import torch

from benchmarks import __main__ as bench
from benchmarks import floors, measure


@pytest.fixture
def broken():
    """A side that fails."""

    def run():
        raise RuntimeError("no such kernel\nsecond line")

    return run


@pytest.fixture
def rows(monkeypatch, broken):
    """Two kinds of rows in the place of those of the bench: the first fails at its second row."""

    def good(device):
        """A row."""
        ours, peer = {"median": 1.0, "low": 0.9, "high": 1.2}, {"median": 2.0, "low": 2.0, "high": 2.0}
        yield measure.Row("good one", device, ours, {"p": peer})

    def bad(device):
        """Another."""
        ours = {"median": 1e-3, "low": 1e-3, "high": 1e-3}
        yield measure.Row("bad one", device, ours, absent={"kenlm": "not installed"})
        broken()

    monkeypatch.setattr(bench, "ROWS", {"bad": bad, "good": good})


@pytest.fixture
def command(monkeypatch):
    """`bench …` in this process; its exit code."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["bench", *words])
        return bench.main()

    return run


@pytest.fixture
def no_clock(monkeypatch):
    """Each side runs once a round without a rest, and the machine is not measured."""

    def once(run, device, seconds):
        run()
        return 1, 0.0

    monkeypatch.setattr(measure, "_warm_up", once)
    monkeypatch.setattr(measure, "REST", 0)
    monkeypatch.setattr(floors, "_fastest", lambda run, device: 1e-3)
    torch.manual_seed(0)
