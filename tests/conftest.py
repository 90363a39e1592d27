"""Settings that every test runs under."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
import torch

from browsers import browser

__all__ = ["browser"]  # a fixture of one process, for the pages of reports and of the studio

os.environ["RECOLLECT_LANG"] = "en"  # whatever the locale of this machine
INTERPRETED = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
if "--deep" in sys.argv:  # before the conftest of a folder imports what imports Triton
    os.environ |= INTERPRETED
TESTS = Path(__file__).parent
SLOW = (  # whole trainings, broken processes, figures by matplotlib: left to ./recollect test
    "benchmarks/",
    "claims/test_experiments.py",
    "faults/",
    "learn/",
    "report/test_alignment.py",
    "report/test_series.py",
    "tasks/test_every_task.py",
)
FAST = ("faults/test_bodies.py", "faults/test_found.py", "faults/test_fuzz.py")  # among those
hypothesis.settings.register_profile(
    "house",
    deadline=None,
    derandomize=True,
    max_examples=8,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
hypothesis.settings.register_profile("deep", parent=hypothesis.settings.get_profile("house"), max_examples=200)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))


@pytest.fixture(autouse=True)
def _same_start():
    """One thread a worker and one seed a test, so that a failure repeats."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache of data for this test."""
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def book(tmp_path, own_cache):
    """A text file, and an empty cache for what is made of it."""
    import tiny  # late: it imports the package, which may not be imported before TRITON_INTERPRET is set

    path = tmp_path / "book.txt"
    path.write_text(tiny.prose(), encoding="utf-8")
    return path


@pytest.fixture
def command(monkeypatch, capsys):
    """`recollect …` in this process: exit code, output, errors."""
    from recollect import cli

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["recollect", *map(str, words)])
        capsys.readouterr()
        try:
            cli.main()
            code = 0
        except SystemExit as done:
            code = done.code or 0
        return code, *capsys.readouterr()

    return run


def pytest_addoption(parser):
    parser.addoption("--deep", action="store_true", help="run the tests marked deep, and no others")


def pytest_configure(config):
    """Interpret Triton's kernels on the CPU in deep tests. Triton reads the variable when it is first imported."""
    if config.getoption("--deep"):
        early = "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1"
        assert not early, "Triton was imported before TRITON_INTERPRET was set"
        os.environ |= INTERPRETED


@pytest.hookimpl(tryfirst=True)  # before -m chooses among the markers
def pytest_collection_modifyitems(config, items):
    """Skip tests that lack their device; keep the deep ones with --deep, the others without it."""
    cuda, triton, deep = torch.cuda.is_available(), find_spec("triton"), config.getoption("--deep")
    expected = deep and sys.platform == "linux"  # the extra deep installs Triton there: to miss it is an error
    chosen, others = [], []
    for item in items:
        file = item.path.relative_to(TESTS).as_posix()
        if file.startswith(SLOW) and file not in FAST:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("gpu") and not cuda:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
        elif item.get_closest_marker("triton") and not cuda:
            item.add_marker(pytest.mark.deep)
        if item.get_closest_marker("triton") and not (triton or expected):
            item.add_marker(pytest.mark.skip(reason="needs Triton, which is not installed"))
        (chosen if bool(item.get_closest_marker("deep")) == deep else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen
