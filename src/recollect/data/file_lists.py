"""The files of a data set as its summary names them: short names, sizes, encodings, and what was skipped."""

import codecs
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..core.summary import FileList, SkippedFile
from .byte_files import ByteFile
from .encodings import encoding_of
from .errors import DataError

TEXT = "UTF-8"


def list_files(
    paths: Sequence[Path],
    skipped: Sequence[tuple[Path, str]] = (),
    *,
    encoding: str | None = TEXT,
    other: str | None = None,
) -> FileList:
    """The files that were read, and those that were skipped with the reason; without `encoding` none is named.

    `other` is the encoding of files that are no UTF-8.
    """
    paths = list(dict.fromkeys(paths))
    every = [path.absolute() for path in (*paths, *(path for path, _ in skipped))]
    common = os.path.commonpath([path.parent for path in every]) if every else ""
    kinds = Counter(_encoding(path, encoding, other) for path in paths) if encoding is not None else {}
    return FileList(
        names=tuple(os.path.relpath(path.absolute(), common) for path in paths),
        size=sum(path.stat().st_size for path in paths),
        encodings=dict(kinds),
        skipped=tuple(SkippedFile(os.path.relpath(path.absolute(), common), reason) for path, reason in skipped),
    )


def _encoding(path: Path, encoding: str, other: str | None) -> str:
    """The encoding of a file, with its byte-order mark and packing."""
    try:
        encoding = encoding_of(path, other if encoding == TEXT else None) or encoding
        with ByteFile(path) as file:
            marked = encoding == TEXT and file.read(3) == codecs.BOM_UTF8
            return f"{encoding}{' with a byte-order mark' if marked else ''}{', gzip' if file.packed else ''}"
    except DataError:  # it was read whole before; if it is gone now, reading says so
        return encoding


def describe_skipped(skipped: Sequence[tuple[Path, str]], shown: int = 3) -> list[str]:
    """A note on files in folders that were skipped; none where there are none."""
    if not skipped:
        return []
    some = ", ".join(f"{path.name} ({reason})" for path, reason in skipped[:shown])
    more = f" and {len(skipped) - shown:,} more" if len(skipped) > shown else ""
    files = "file is" if len(skipped) == 1 else "files are"
    return [f"{len(skipped):,} {files} skipped: {some}{more}"]
