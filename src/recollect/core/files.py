"""Files that are either the old one or the new one, never half of either."""

import errno
import os
import secrets
from pathlib import Path


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


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse a file whose folder is not there."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "expected a folder to write into, found none", str(folder))


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut, where the system offers it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
