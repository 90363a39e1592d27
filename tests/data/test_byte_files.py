"""Files that are no files, names that are no names, packed files that unpack without end: refused in one line."""

import gzip
import os
import socket

import pytest

from recollect.data import files
from recollect.data.files import DataError
from recollect.data.known.download import KnownFile, find_files

BAD_NAMES = {
    "empty": "", "null": "a\0b", "long": "x" * 5_000, "no user": "~nobody-of-that-name/x", "folder": "folder",
    "dangling": "dangling", "loop": "loop", "fifo": "fifo", "socket": "socket", "device": "/dev/zero",
}  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a file of each kind, to be in."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    os.mkdir("folder")
    os.symlink("nowhere", "dangling")
    os.symlink("loop", "loop")
    with socket.socket(socket.AF_UNIX) as held:
        held.bind("socket")
        yield tmp_path


def refused(call):
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert "expected" in message
    assert "\n" not in message
    assert len(message) <= 1_100
    return message


@pytest.mark.parametrize("kind", BAD_NAMES)
def test_what_is_no_file_is_refused_before_it_is_read(place, kind):
    refused(lambda: files.files([BAD_NAMES[kind]]))


@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "folder", "loop", "dangling"])
def test_what_became_no_file_is_refused_when_it_is_read(place, kind):
    refused(lambda: list(files.chunks(BAD_NAMES[kind])))
    refused(lambda: list(files.lines(BAD_NAMES[kind])))
    assert files.why_no_text(BAD_NAMES[kind]) == "cannot be read"


@pytest.mark.parametrize("kind", sorted(BAD_NAMES.keys() - {"folder"}))
def test_a_data_folder_that_is_none_is_refused(place, kind):
    file = KnownFile(path="x", sha256="0", text_sha256="0", size=1)
    refused(lambda: find_files({"train": [file]}, BAD_NAMES[kind]))


def test_a_packed_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("recollect.data.byte_files.PACKED_FREE", 1 << 16, raising=False)
    bomb, good = tmp_path / "bomb.gz", tmp_path / "good.gz"
    bomb.write_bytes(gzip.compress(b"a line\n" * 1_000_000))
    good.write_bytes(gzip.compress(b"a line\n" * 9_000))  # as dense, and small
    assert "at most 200 times its" in refused(lambda: list(files.chunks(bomb)))
    assert len("".join(files.chunks(good))) == 63_000


def test_an_endless_line_is_refused_with_its_number(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("short\n" * 3 + "x" * 50 + "\nshort\n")
    assert "at most 49 characters, found a longer one, line 4 of" in refused(lambda: list(files.lines(path, 49)))
    assert len(list(files.lines(path, 50))) == 5
    path.write_text("short\n" * 3 + "x" * 50)
    assert "line 4 of" in refused(lambda: list(files.lines(path, 49)))


def test_a_copy_of_a_known_file_is_read_no_further_than_it_can_be_right(tmp_path, monkeypatch):
    file = KnownFile(path="set.txt.gz", sha256="0" * 64, text_sha256="0" * 64, size=1_000)
    (tmp_path / "set.txt.gz").write_bytes(gzip.compress(b"\0" * (30 << 20), compresslevel=9))
    read = []
    real = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", lambda self, size=-1: read.append(size) or real(self, size))
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataError, match="more bytes; put the right file there"):
        find_files({"train": [file]}, tmp_path)
    assert read == [1 << 20]


def test_errors_have_a_bounded_length():
    assert len(str(DataError("expected a name, found " + "x" * 1_000_000))) <= 1_000
