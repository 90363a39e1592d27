"""Every command has a cache of its own; a run that commands are given."""

import pytest

import tiny
from recollect.tasks.text.task import TextTask
from recollect.training import run as runs
from recollect.training.folder import RunFolder


@pytest.fixture(autouse=True)
def _own_cache(own_cache):
    pass


@pytest.fixture
def run(book, tmp_path):
    """A text run of six steps."""
    runs.train(TextTask, tiny.configure(book, steps=6), str(tmp_path / "run"))
    return RunFolder(tmp_path / "run")
