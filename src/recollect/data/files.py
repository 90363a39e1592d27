"""UTF-8 text files, plain or gzip, in chunks of bounded size, with errors that name the place and the remedy."""

import codecs
import difflib
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ..core.files import FileError, read_json
from .byte_files import BLOCK, ByteFile, StrPath, path_of
from .encodings import BOM, ENCODING, FIRST, decode, decoded, encoding_of, guess_binary, guess_encoding
from .errors import DataError
from .limits import LINE

C = TypeVar("C")
T = TypeVar("T")


# ---------------------------------------------------------------------------------------------- one file


def chunks(
    path: StrPath, size: int = BLOCK, *, exact: bool = False, encoding: str | None = None, flag: str | None = None
) -> Iterator[str]:
    """The text of a file in chunks of about `size` bytes at most, independent of line ends.

    A byte-order mark is removed, \\r\\n becomes \\n, no character is ever split. A file that is empty, binary or
    not UTF-8 is refused with the byte at which that showed. With `exact` any bytes are read, and nothing is changed:
    a byte that is no UTF-8 becomes a lone surrogate (`surrogateescape`), from which it can be had again. `encoding` is
    that of files that are no UTF-8 (see `encoding_of`); `flag` is the one by which callers let it be named.
    """
    if not exact and encoding_of(path, encoding) is not None:
        yield from decode(path, str(encoding))
        return
    at = 0  # the offset of data[0] in the (unpacked) file
    line = 1
    tail = b""  # the first bytes of a character that the last block cut
    held = ""  # a \r that may be half of a \r\n
    opened = False  # whether any character was decoded so far: the first may be a byte-order mark
    filled = False
    with ByteFile(path) as file:
        while True:
            block = file.read(size)
            data = tail + block
            nul = -1 if exact else data.find(0)
            try:
                text, used = codecs.utf_8_decode(data, "surrogateescape" if exact else "strict", not block)
            except UnicodeDecodeError as error:
                if 0 <= nul < error.start:
                    raise _binary(file.path, at + nul, line + data.count(b"\n", 0, nul), flag) from None
                bad, start = data[error.start], error.start
                near = data[start:] + (file.read(4096) if block else b"")
                cut = not block and error.end == len(data) and "end of data" in error.reason
                line += data.count(b"\n", 0, start)
                where = f"byte {at + start:,} (line {line:,}) of {path}"
                head, packed = _head(file.path, FIRST)
                guess = guess_encoding(file.path, head[:4096], packed, head + b"\n" + near, cut=cut, flag=flag)
                raise DataError(f"expected UTF-8 text, found 0x{bad:02X} at {where}: {guess}") from None
            if nul >= 0:
                raise _binary(file.path, at + nul, line + data.count(b"\n", 0, nul), flag)
            at += used
            tail = data[used:]
            line += text.count("\n")
            if not exact:
                if not opened and text:
                    opened = True
                    text = text.removeprefix(BOM)
                text = (held + text).replace("\r\n", "\n")
                held = ""
                if block and text.endswith("\r"):
                    text, held = text[:-1], "\r"
            if text:
                filled = True
                yield text
            if not block:
                break
    if not filled:
        raise DataError(f"expected text, found an empty file: {path}; leave it out or fill it")


def _head(path: Path, size: int = 4096) -> tuple[bytes, bool]:
    """The first bytes of a file, and whether it is packed."""
    with ByteFile(path) as file:
        return file.read(size), file.packed


def _binary(path: Path, at: int, line: int, flag: str | None) -> DataError:
    guess = guess_binary(path, *_head(path), flag)
    return DataError(f"expected UTF-8 text, found a NUL at byte {at:,} (line {line:,}) of {path}: {guess}")


def lines(path: StrPath, longest: int = LINE, *, encoding: str | None = None, flag: str | None = None) -> Iterator[str]:
    """The lines of a file, split at \\n alone; one of more than `longest` characters is refused (see `chunks`)."""
    rest, number = "", 1
    for chunk in chunks(path, encoding=encoding, flag=flag):
        *whole, rest = (rest + chunk).split("\n")
        for line in whole:
            _check_length(line, longest, number, path)
            yield line
            number += 1
        _check_length(rest, longest, number, path)
    if rest:
        yield rest


def _check_length(line: str, longest: int, number: int, path: StrPath) -> None:
    if len(line) > longest:
        raise DataError(
            f"expected lines of at most {longest:,} characters, found a longer one, line {number:,} of {path}; end "
            "each line with a newline"
        )


def why_no_text(path: StrPath, encoding: str | None = None) -> str | None:
    """Why a file is no text, judged by its first block; None for one in UTF-8 or `encoding` that is not empty."""
    try:
        with ByteFile(path) as file:
            first, packed = file.read(FIRST), file.packed
    except DataError:
        return "cannot be read"
    text = decoded(first, "utf-8", whole=len(first) < FIRST)
    if text is None or "\0" in text:
        other = None if encoding is None else decoded(first, encoding)
        if other is not None and "\0" not in other:
            return None
        if b"\0" in first:
            return _first_words(guess_binary(Path(path), first, packed))
        return f"not UTF-8, {_first_words(guess_encoding(Path(path), first, packed, first, cut=False))}"
    return None if text.removeprefix(BOM) else "empty"


def _first_words(guess: str) -> str:
    """A guess at an encoding without the remedy that follows it."""
    return guess.partition(";")[0]


def load_json(path: StrPath, what: str, decode: Callable[[Any], T]) -> T:
    """The JSON value of a file, decoded; whatever goes wrong is a DataError that names the file."""
    try:
        data = read_json(path)
    except OSError as error:
        raise DataError(f"expected {what} at {path}, found {error.strerror or error}") from None
    except FileError as error:
        raise DataError(f"{error}; copy it anew") from None
    try:
        return decode(data)
    except DataError as error:
        raise DataError(f"{error} ({path})") from None


# --------------------------------------------------------------------------------------------- many files


def files(
    paths: Sequence[StrPath] | StrPath,
    on_skip: Callable[[Path, str], None] = lambda path, reason: None,
    encoding: str | None = None,
) -> list[Path]:
    """The files that `paths` name, folders opened recursively in sorted order, each file once.

    In a folder hidden files are passed over, and `on_skip` is called with each file that does not begin as text, and
    the reason; a file named outright is taken as it is and refused when it is read. `encoding` is that of files that
    are no UTF-8.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if not paths:
        raise DataError("expected at least one file or folder, found none; name one")
    found: list[Path] = []
    for name in paths:
        path = path_of(name)
        if path.is_dir():
            reasons = {place: why_no_text(place, encoding) for place in walk(path)}
            inside = [place for place, reason in reasons.items() if reason is None]
            if not inside:
                there = some_of([f"{place.name} ({reason})" for place, reason in reasons.items()], 8)
                raise DataError(
                    f"expected text files in {path}, found {there or _listing(path)}; name a folder with UTF-8 text"
                )
            for place, reason in reasons.items():
                if reason is not None:
                    on_skip(place, reason)
            found += inside
        elif path.is_file():
            found.append(path)
        elif path.exists():
            raise DataError(f"expected a file or a folder, found something else: {path}; copy its content to a file")
        else:
            raise _missing(path)
    return list(dict.fromkeys(found))


def walk(folder: Path, enter: Callable[[str], bool] = lambda name: True) -> Iterator[Path]:
    """Every regular file under `folder` that is not hidden, in the order of its path's parts.

    Of the folders inside, those are entered that are not hidden and whose name `enter` accepts.
    """

    def refuse(error: OSError) -> None:
        raise DataError(f"cannot open the folder {error.filename}: {error.strerror}") from None

    inside: list[Path] = []
    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".") and enter(name)]
        inside += [Path(place, name) for name in names if not name.startswith(".")]
    return (path for path in sorted(inside, key=lambda p: p.parts) if path.is_file())


def _listing(folder: Path, limit: int = 8) -> str:
    try:
        names = sorted(name + "/" * Path(folder, name).is_dir() for name in os.listdir(folder))
    except OSError as error:
        return f"nothing that can be read ({error.strerror})"
    if not names:
        return "nothing"
    return some_of(names, limit)


def some_of(names: Sequence[object], limit: int) -> str:
    """The first `limit` of some names, and how many more there are."""
    return ", ".join(map(str, names[:limit])) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _missing(path: Path) -> DataError:
    folder = path.parent
    while not folder.is_dir():
        folder = folder.parent
    near = difflib.get_close_matches(path.name, os.listdir(folder) if os.access(folder, os.R_OK) else [], n=1)
    meant = f"; did you mean {near[0]}?" if near and folder == path.parent else ""
    return DataError(
        f"expected a file or folder, found none at {path}; {folder.absolute()} has {_listing(folder)}{meant}"
    )


# ------------------------------------------------------------------------------------------ a part of a text


@dataclass(frozen=True)
class Text:
    """Files read as one text, from character `start` up to `stop`. Can be read any number of times.

    A file that does not end its last line has it ended before the next file begins, so that no two words fuse.
    With `letters` the text is made of small letters a to z and single blanks (`only_letters`). With `exact` the files
    may hold any bytes, and `encoding` is that of files that are no UTF-8 (see `chunks`).
    """

    paths: tuple[Path, ...]
    start: int = 0
    stop: int | None = None
    letters: bool = False
    exact: bool = False
    encoding: str | None = None

    def __iter__(self) -> Iterator[str]:
        at = 0
        for chunk in only_letters(self._joined()) if self.letters else self._joined():
            if self.stop is not None and at >= self.stop:
                return
            stop = len(chunk) if self.stop is None else min(len(chunk), self.stop - at)
            part = chunk[max(self.start - at, 0) : stop]
            at += len(chunk)
            if part:
                yield part

    def _joined(self) -> Iterator[str]:
        last = "\n"
        for path in self.paths:
            if last != "\n":
                yield "\n"
            for chunk in self._chunks(path):
                yield chunk
                last = chunk[-1]

    def _chunks(self, path: Path) -> Iterator[str]:
        return chunks(path, exact=self.exact, encoding=self.encoding, flag=ENCODING)

    def characters(self) -> int:
        return sum(map(len, self))

    def locate(self, index: int) -> str:
        """The place of character `index` of this part: file, line, and character in the line."""
        if self.letters:
            return f"character {index:,} of what is left of the text"
        wanted = self.start + index
        at, last = 0, "\n"
        for path in self.paths:
            at += last != "\n"
            line, column = 1, 1
            for chunk in self._chunks(path):
                inside = chunk[: max(wanted - at, 0)]
                newline = inside.rfind("\n")
                line += inside.count("\n")
                column = len(inside) - newline if newline >= 0 else column + len(inside)
                at += len(chunk)
                last = chunk[-1]
                if wanted < at:
                    return f"{path}, line {line:,}, character {column:,}"
        return f"character {index:,}"


def only_letters(pieces: Iterable[str]) -> Iterator[str]:
    """Text reduced to the letters a to z in lower case and single blanks, as in Dive into Deep Learning."""
    after_blank = False
    for piece in pieces:
        text = re.sub("[^a-z]+", " ", piece.lower())
        if after_blank:
            text = text.removeprefix(" ")
        if text:
            after_blank = text[-1] == " "
            yield text


def rechunk(pieces: Iterable[str], size: int) -> Iterator[str]:
    """The same text in pieces of exactly `size` characters (the last may be shorter)."""
    gathered: list[str] = []
    length = 0
    for piece in pieces:
        gathered.append(piece)
        length += len(piece)
        if length >= size:
            whole = "".join(gathered)
            full = length - length % size
            for start in range(0, full, size):
                yield whole[start : start + size]
            gathered, length = [whole[full:]], length - full
    if length:
        yield "".join(gathered)


def absolute_names(config: C, known: Container[str]) -> C:
    """Settings whose `data`, `valid` and `test` are given by `absolute_name`."""
    given: Any = config
    places = {place: getattr(given, place) for place in ("data", "valid", "test")}
    names = {place: tuple(absolute_name(name, known) for name in some) for place, some in places.items()}
    return replace(given, **names)


def absolute_name(name: str, known: Container[str]) -> str:
    """A file or folder by its full name, so that a run can be resumed from another folder; names of known sets stay."""
    return name if name in known or not Path(name).exists() else str(Path(name).absolute())
