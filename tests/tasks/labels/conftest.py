"""Fixtures of labels: a cache of its own, a table of texts, a folder of images."""

import pytest

from tasks.cases import sentences, write_images
from tasks.labels.cases import write


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "films.tsv", sentences())


@pytest.fixture
def pictures(tmp_path):
    return write_images(tmp_path / "pictures")
