"""Fixtures of forecasting: a cache of its own, a table of waves, and a run that has learned them."""

import pytest

from recollect.tasks.series.task import SeriesTask
from recollect.training import run as runs
from tasks.cases import hourly
from tasks.series.cases import configure, write


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path):
    return write(tmp_path, hourly())


@pytest.fixture
def solved(table, tmp_path):
    """A linear run, which knows the waves of `hourly` well."""
    runs.train(SeriesTask, configure(table, "ar", lookback=24), str(tmp_path / "solved"))
    return runs.load(tmp_path / "solved")
