"""Files that are written whole or not at all, and read only where they are regular files of a bounded size."""

import contextlib
import errno
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .errors import RecollectError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

GLANCE = 0.05  # seconds that somebody who only asks for a lock cannot have it for


def write_aside(path: str | os.PathLike[str], content: bytes) -> None:
    """Write beside `path`, force it to disk, then rename: a crash or a full disk leaves the old file good."""
    path = Path(path)
    check_place(path)
    name = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)  # less the umask
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes were about to write into a folder. Whoever calls it holds the folder's lock."""
    for part in folder.glob(".*.part"):
        part.unlink(missing_ok=True)


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse a file whose folder is not there."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "expected a folder to write into, found none", str(folder))
    if os.path.lexists(path) and not Path(path).is_file():
        kind = _kind(Path(path).stat().st_mode) if Path(path).exists() else "a link to nothing"
        raise FileError(f"{path}: expected the name of a regular file to write, found {kind}")


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut, where the system offers it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Reading: of regular files alone, and never more than what was expected


class FileError(RecollectError):
    """A file that cannot be read as what it was expected to be; the message is one line."""


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file, opened for reading. FIFOs, devices, sockets and folders are refused before a byte is read."""
    try:
        # a FIFO without a writer would block here
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    except ValueError as error:  # a name with a null character
        raise FileError(f"{os.fspath(path)!r}: expected the name of a file, found {error}") from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise FileError(f"{path}: expected a regular file, found {_kind(mode)}")
    return os.fdopen(handle, "rb")


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
        stat.S_IFSOCK: "a socket",
    }  # fmt: skip
    return kinds.get(stat.S_IFMT(mode), "something else")


def read_file(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file of at most `most` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise FileError(f"{path}: expected at most {most:,} bytes, found more")
        return file.read(size)  # Python allocates as many as are asked for


def read_json(path: str | os.PathLike[str], most: int = 1 << 28) -> Any:
    """The JSON value of a regular file; a file that is not there stays a FileNotFoundError."""
    content = read_file(path, most)
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: expected JSON, found something else ({error})") from None


@contextlib.contextmanager
def locked(folder: Path, *, wait: bool, busy: str = "") -> Iterator[bool]:
    """Nobody else holds the lock of this folder meanwhile: others wait for it, or are refused with the line `busy`.

    The system frees the lock of a process that is killed. Without such locks (Windows) nothing is held, and False is
    yielded.
    """
    if fcntl is None:
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        if wait:
            fcntl.flock(handle, fcntl.LOCK_EX)
        elif not _try_lock(handle):
            time.sleep(GLANCE)  # it may be `is_locked` that had it
            if not _try_lock(handle):
                raise FileError(busy)
        yield True
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    assert fcntl is not None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(folder: Path) -> bool:
    """Whether somebody holds the lock of this folder now; without such locks (Windows) nobody does.

    It is asked with a shared lock, which is free again at once, and which other askers do not mind.
    """
    if fcntl is None:
        return False
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)
    return False
