"""The small runs that are exported: each once for all tests that ask for the same."""

import pytest

from export import made
from recollect.export import package
from tasks import cases


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The files that small runs read."""
    folder = tmp_path_factory.mktemp("files")
    cases.write_data(folder)
    return folder


@pytest.fixture
def run_of(files, tmp_path_factory, monkeypatch):
    """The run of an untrained model."""
    monkeypatch.setenv("RECOLLECT_CACHE", str(files / "cache"))
    return lambda name, label=None, **settings: made.make(
        tmp_path_factory.mktemp("run"), files, name, label, **settings
    )


EXPORTED = {}


@pytest.fixture
def export_of(run_of, tmp_path_factory):
    """The exported folder of a small run, and its manifest."""

    def export(name, label=None, precision="float32", **settings):
        key = name, label, precision, tuple(settings.items())
        if key not in EXPORTED:
            out = tmp_path_factory.mktemp("export") / "out"
            EXPORTED[key] = out, package.export(run_of(name, label, **settings), out, precision=precision)
        return EXPORTED[key]

    return export
