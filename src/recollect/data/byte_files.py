"""Bytes of regular files, packed or not, and the paths that users write; whatever is wrong is told in one line."""

import errno
import gzip
import os
import zlib
from pathlib import Path
from typing import IO, cast

from ..core.files import FileError, open_regular
from ..core.typed import show
from .errors import DataError
from .limits import PACKED_FREE, PACKED_RATIO

StrPath = str | os.PathLike[str]
BLOCK = 1 << 20  # bytes read at a time
GZIP = b"\x1f\x8b"  # how a gzip file begins


def path_of(name: StrPath) -> Path:
    """The path that a user wrote, with ~ for the home folder; what can be no path of a file is refused."""
    text = os.fspath(name)
    if not text:
        raise DataError("expected the name of a file or folder, found an empty one; name one, or leave it out")
    path = Path(text)
    try:
        path = path.expanduser()
        os.lstat(path)
    except (RuntimeError, ValueError) as error:  # a user who is not there, a null character
        raise DataError(f"expected the name of a file or folder, found {show(text)} ({error}); name another") from None
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.EACCES):
            raise DataError(
                f"expected the name of a file or folder, found {show(text)} ({error.strerror}); name another"
            ) from None
    return path


class ByteFile:
    """The bytes of a regular file, unpacked if its first two bytes are those of gzip, whatever its name.

    A file that unpacks to more than `PACKED_RATIO` times its size is refused: a few megabytes could fill any disk.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        self.at = 0  # bytes read so far, unpacked
        try:
            self._raw = open_regular(self.path)
        except FileError as error:
            raise DataError(str(error)) from None
        except OSError as error:
            raise DataError(f"expected a readable file, found {error.strerror or error}: {path}") from None
        self.size = os.fstat(self._raw.fileno()).st_size  # as it lies there
        self.packed = self._read_raw(2) == GZIP
        self._raw.seek(0)
        self._file = cast(IO[bytes], gzip.GzipFile(fileobj=self._raw)) if self.packed else self._raw

    def __enter__(self) -> "ByteFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def read(self, size: int = BLOCK) -> bytes:
        """The next bytes, at most `size`; none at the end."""
        try:
            found = self._file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"expected a whole gzip file, found damage after {self.at:,} unpacked bytes of {self.path} ({error}); "
                "get a new copy"
            ) from None
        except OSError as error:
            raise self._unreadable(error) from None
        self.at += len(found)
        if self.packed and self.at > max(PACKED_FREE, PACKED_RATIO * self.size):
            raise DataError(
                f"expected a gzip file that unpacks to at most {PACKED_RATIO} times its {self.size:,} bytes, found "
                f"more in {self.path}; if it is good, unpack it"
            )
        return found

    def _read_raw(self, size: int) -> bytes:
        try:
            return self._raw.read(size)
        except OSError as error:
            self._raw.close()
            raise self._unreadable(error) from None

    def _unreadable(self, error: OSError) -> DataError:
        return DataError(f"cannot read {self.path} at byte {self.at:,}: {error.strerror or error}")
