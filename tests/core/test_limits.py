"""What cannot fit is refused before it is tried, and running out of memory is one line."""

import subprocess
import sys

import pytest
import torch

from recollect.core import limits
from recollect.core.limits import TooLarge


def test_free_memory_is_known_on_linux():
    if sys.platform == "linux":
        assert 0 < (limits.free_memory() or 0) < 1 << 50


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_limit_of_the_process_counts():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30));"
        "from recollect.core.limits import free_memory; print(free_memory())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(found.stdout) < 1 << 30


def test_what_cannot_fit_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(limits, "free_memory", lambda: 10**9)
    limits.check_fits(10**9, "model", "lower the width")
    with pytest.raises(TooLarge) as error:
        limits.check_fits(2 * 10**9, "model", "lower the width")
    assert str(error.value).replace("\xa0", " ") == (
        "model: expected at most the 1.00 GB of memory that are free, found 2.00 GB; lower the width"
    )


def test_where_free_memory_is_not_known_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "free_memory", lambda: None)
    limits.check_fits(10**18, "model", "")


@pytest.mark.parametrize("width", [10**6, 10**12])
def test_a_tensor_that_cannot_fit_is_refused_where_it_is_made(monkeypatch, width):
    monkeypatch.setattr(limits, "free_memory", lambda: 10**9)
    with limits.checked_allocation("model", "lower the width"):
        torch.nn.Linear(100, 100)
        with pytest.raises(TooLarge, match="lower the width"):
            torch.nn.Linear(width, width)


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_DATA")
def test_memory_that_is_not_free_is_refused_and_not_granted(monkeypatch):
    """Linux would grant it, and kill the process once it is used."""
    monkeypatch.setattr(limits, "free_memory", lambda: 10**8)
    with limits.bounded_memory():
        torch.empty(10**7)
        with pytest.raises(RuntimeError) as error:
            torch.empty(10**9)
    assert limits.is_out_of_memory(error.value)
    torch.empty(10**9)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: you tried"),
            True,
        ),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), True),
        (ImportError("No module named 'torch'"), False),
        (RuntimeError("shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_errors_of_memory_are_known_from_others(error, expected):
    assert limits.is_out_of_memory(error) is expected


def test_the_line_says_how_much_was_asked_for():
    error = RuntimeError(
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8000000000 bytes. Error code 12"
    )
    line = limits.describe_shortage(error, "the batch").replace("\xa0", " ")
    assert line.startswith("out of memory when 8.00 GB more were asked for (")
    assert line.endswith("; lower the batch")
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0")
    assert "2.00 GiB" in limits.describe_shortage(error, "the batch")


def test_a_long_message_keeps_its_ends():
    line = limits.one_line("start " + "x" * 10**6 + " end\nof it")
    assert len(line) <= 1000
    assert line.startswith("start x")
    assert line.endswith("x end of it")


def test_what_a_terminal_would_obey_is_escaped():
    assert limits.one_line("a\x1b[31mb\udcffc\r\n") == "a\\x1b[31mb\\udcffc  "
