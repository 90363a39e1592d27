"""Fixtures of captions: a cache of its own, a few scenes, a run on them."""

import pytest

from recollect.tasks.captions import data as pictures
from recollect.tasks.captions.task import CaptionsTask
from recollect.training import run as runs
from tasks.captions.cases import configure


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """A few scenes, read once for the whole file."""
    return pictures.load(count=48, pixels=32, cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a few scenes, hardly trained."""
    place = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
        runs.train(CaptionsTask, configure("attend"), str(place / "run"))
    return place / "run"
