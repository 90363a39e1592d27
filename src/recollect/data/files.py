"""UTF-8 text files, plain or gzip, in chunks of bounded size, with errors that name the place and the remedy."""

import codecs
import contextlib
import difflib
import gzip
import json
import os
import re
import shlex
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TypeVar, cast

StrPath = str | os.PathLike[str]
C = TypeVar("C")
T = TypeVar("T")

BLOCK = 1 << 20  # bytes read at a time
FIRST = 1 << 16  # bytes that decide whether a file in a folder is text
BOM = "\ufeff"
GZIP = b"\x1f\x8b"  # how a gzip file begins


class DataError(ValueError):
    """An error in the data, in one line: what was expected, what was found, where, and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message.replace("\r", "\\r").replace("\n", "\\n"))


class Unreachable(DataError):
    """Data that are not on this machine and could not be downloaded."""


# ---------------------------------------------------------------------------------------------- one file


def chunks(path: StrPath, size: int = BLOCK) -> Iterator[str]:
    """The text of a file in chunks of about `size` bytes at most, independent of line ends.

    A byte-order mark is removed, \\r\\n becomes \\n, no character is ever split. A file that is empty, binary or
    not UTF-8 is refused with the byte at which that showed.
    """
    path = Path(path)
    at = 0  # the offset of data[0] in the (unpacked) file
    line = 1
    tail = b""  # the first bytes of a character that the last block cut
    held = ""  # a \r that may be half of a \r\n
    accents = False  # whether anything beyond ASCII was decoded so far
    opened = False  # whether any character was decoded so far: the first may be a byte-order mark
    filled = False
    with _open(path) as file:
        while True:
            block = _read(file, size, path, at + len(tail))
            data = tail + block
            nul = data.find(0)
            try:
                text, used = codecs.utf_8_decode(data, "strict", not block)
            except UnicodeDecodeError as error:
                if 0 <= nul < error.start:
                    raise _binary(path, at + nul, line + data.count(b"\n", 0, nul)) from None
                bad, start = data[error.start], error.start
                near = data[start:] + (_read(file, 4096, path, at + len(data)) if block else b"")
                cut = not block and error.end == len(data) and "end of data" in error.reason
                accents = accents or not data[:start].isascii()
                line += data.count(b"\n", 0, start)
                where = f"byte {at + start:,} (line {line:,}) of {path}"
                guess = _guess(path, near, accents, cut)
                raise DataError(f"expected UTF-8 text, found 0x{bad:02X} at {where}: {guess}") from None
            if nul >= 0:
                raise _binary(path, at + nul, line + data.count(b"\n", 0, nul))
            at += used
            tail = data[used:]
            accents = accents or not text.isascii()
            line += text.count("\n")
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


def lines(path: StrPath) -> Iterator[str]:
    """The lines of a file, split at \\n alone."""
    rest = ""
    for chunk in chunks(path):
        *whole, rest = (rest + chunk).split("\n")
        yield from whole
    if rest:
        yield rest


def is_text(path: StrPath) -> bool:
    """Whether the first block of a file decodes as non-empty UTF-8 text."""
    try:
        with _open(Path(path)) as file:
            first = _read(file, FIRST, Path(path), 0)
        text, _ = codecs.utf_8_decode(first, "strict", len(first) < FIRST)
    except (DataError, UnicodeDecodeError):
        return False
    return bool(text.removeprefix(BOM)) and "\0" not in text


@contextlib.contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    """The file's bytes, unpacked if its first two bytes are those of gzip, whatever its name."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise DataError(f"expected a readable text file, found {error.strerror or error}: {path}") from None
    with raw:
        packed = raw.read(2) == GZIP
        raw.seek(0)
        if not packed:
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as unpacked:
            yield cast(IO[bytes], unpacked)


def _read(file: IO[bytes], size: int, path: Path, at: int) -> bytes:
    try:
        return file.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"expected a whole gzip file, found damage after {at:,} unpacked bytes of {path} ({error}); get a new copy"
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path} at byte {at:,}: {error.strerror or error}") from None


def load_json(path: StrPath, what: str, decode: Callable[[Any], T]) -> T:
    """The JSON value of a file, decoded; whatever goes wrong is a DataError that names the file."""
    try:
        data = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"expected {what} at {path}, found {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected JSON in {path}, found something else ({error}); copy it anew") from None
    try:
        return decode(data)
    except DataError as error:
        raise DataError(f"{error} ({path})") from None


# ------------------------------------------------------------------------------------------------ guesses


def _head(path: Path) -> bytes:
    with _open(path) as file:
        return _read(file, 4096, path, 0)


def _convert(path: Path, encoding: str) -> str:
    return f"convert it with: {_iconv(path, f'-f {encoding}')}"


def _iconv(path: Path, options: str) -> str:
    """A shell command that converts the file to UTF-8, ready to paste."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    name = shlex.quote(str(path))
    unpack, name = (f"gzip -dc < {name} | ", "") if packed else ("", f" {name}")
    return f"{unpack}iconv {options} -t UTF-8{name} > utf8.txt"


def _wide(head: bytes) -> str | None:
    """The name of the UTF-16 or UTF-32 encoding of `head`, or None."""
    for mark, name in (
        (codecs.BOM_UTF32_LE, "UTF-32LE"),
        (codecs.BOM_UTF32_BE, "UTF-32BE"),
        (codecs.BOM_UTF16_LE, "UTF-16LE"),
        (codecs.BOM_UTF16_BE, "UTF-16BE"),
    ):
        if head.startswith(mark):
            return name
    even, odd = head[0::2].count(0), head[1::2].count(0)
    for zeros, others, name in ((odd, even, "UTF-16LE"), (even, odd, "UTF-16BE")):
        if zeros > 1 and not others:
            text = head[: len(head) // 2 * 2].decode(name, "replace")[:-1]  # the head may end within a pair
            if all(c.isprintable() or c in "\n\r\t" for c in text) and "\ufffd" not in text:
                return name
    return None


def _binary(path: Path, at: int, line: int) -> DataError:
    where = f"byte {at:,} (line {line:,}) of {path}"
    wide = _wide(_head(path))
    if wide:
        return DataError(f"expected UTF-8 text, found a NUL at {where}: looks like {wide}; {_convert(path, wide)}")
    return DataError(f"expected UTF-8 text, found a NUL at {where}: looks like a binary file; leave it out")


def _guess(path: Path, near: bytes, accents: bool, cut: bool) -> str:
    wide = _wide(_head(path))
    if wide:
        return f"looks like {wide}; {_convert(path, wide)}"
    if cut:
        return "the file ends inside a character, as if cut short; get a whole copy, or remove its last bytes"
    if accents:
        return (
            "the text before it is UTF-8, so the file is damaged or mixed there; mend it, or drop what is bad with: "
            + _iconv(path, "-c -f UTF-8")
        )
    high = re.findall(rb"[\x80-\xff]+", near)
    paired = sum(len(run) for run in high if len(run) > 1)
    if paired > 0.8 * sum(map(len, high)):
        try:
            codecs.getincrementaldecoder("gb18030")().decode(near)
        except UnicodeDecodeError:
            pass
        else:
            return f"looks like GBK or a like encoding; if so, {_convert(path, 'GB18030')}"
    return f"looks like latin-1 or a like encoding; if so, {_convert(path, 'ISO-8859-1')}"


# --------------------------------------------------------------------------------------------- many files


def files(paths: Sequence[StrPath] | StrPath) -> list[Path]:
    """The files that `paths` name, folders opened recursively in sorted order, each file once.

    In a folder hidden files and what does not begin as text are passed over; a file named outright is taken as it is
    and refused when it is read.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if not paths:
        raise DataError("expected at least one file or folder, found none; name one")
    found: list[Path] = []
    for name in paths:
        path = Path(name).expanduser()
        if path.is_dir():
            inside = [p for p in walk(path) if is_text(p)]
            if not inside:
                raise DataError(f"expected text files in {path}, found {_listing(path)}; name a folder with UTF-8 text")
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
        names = sorted(entry.name + "/" * entry.is_dir() for entry in os.scandir(folder))
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
    With `letters` the text is made of small letters a to z and single blanks (`only_letters`).
    """

    paths: tuple[Path, ...]
    start: int = 0
    stop: int | None = None
    letters: bool = False

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
            for chunk in chunks(path):
                yield chunk
                last = chunk[-1]

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
            for chunk in chunks(path):
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
