"""Only regular files of a bounded size are read, and a lock keeps a second process out."""

import os
import subprocess
import sys
import tracemalloc

import pytest

from recollect.core.files import FileError, locked, open_regular, read_file, read_json

posix = pytest.mark.skipif(os.name != "posix", reason="needs FIFOs and devices")


@posix
def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, kind in ((tmp_path / "fifo", "a FIFO"), ("/dev/zero", "a device"), (tmp_path, "a folder")):
        with pytest.raises(FileError, match=f"expected a regular file, found {kind}"):
            open_regular(path)


def test_a_name_that_is_none():
    with pytest.raises(FileError, match="expected the name of a file"):
        open_regular("a\0b")


def test_more_bytes_than_expected_are_not_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    with pytest.raises(FileError, match="expected at most 4 bytes, found more"):
        read_file(path, 4)


def test_a_small_file_takes_no_more_memory_than_it_has(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    tracemalloc.start()
    try:
        read_file(path, 1 << 32)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"9" * 10_000])
def test_what_is_no_json_is_one_line(tmp_path, content):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match="expected JSON, found something else"):
        read_json(path)


@posix
def test_a_second_process_is_refused_or_waits(tmp_path):
    code = (
        "import sys; from pathlib import Path; from recollect.core.files import locked\n"
        "with locked(Path(sys.argv[1]), wait=sys.argv[2] == 'wait', busy='busy: in use'): print('in')"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with locked(tmp_path, wait=False):
        refused = subprocess.run([*command, "no"], capture_output=True, text=True, check=False)
        assert refused.stderr.strip().endswith("busy: in use")
        waiting = subprocess.Popen([*command, "wait"], stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1)
    assert waiting.communicate(timeout=20)[0] == "in\n"
