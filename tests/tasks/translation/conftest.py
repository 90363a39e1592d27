"""Fixtures of translation: a cache of its own, a few pairs, their tables."""

import pytest

from tasks.cases import TRAIN, VALID, table
from tasks.translation.cases import load


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return load(tmp_path_factory.mktemp("data"))


@pytest.fixture
def files(tmp_path):
    return [table(tmp_path / f"{name}.tsv", rows) for name, rows in (("train", TRAIN * 2), ("valid", VALID))]
