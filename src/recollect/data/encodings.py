"""Guesses at the encoding of a file that is no UTF-8, with the command that converts it."""

import codecs
import re
import shlex
from pathlib import Path

from .errors import DataError


def guess_binary(path: Path, head: bytes, packed: bool) -> str:
    """What a file with a NUL in it looks like, judged by its first bytes."""
    wide = _wide(head)
    if wide:
        return f"looks like {wide}; {_convert(path, packed, wide)}"
    return "looks like a binary file; leave it out"


def guess_encoding(path: Path, head: bytes, packed: bool, sample: bytes, *, cut: bool, flag: str | None = None) -> str:
    """What a file looks like that is no UTF-8, by a `sample` of its bytes; `cut`: its end alone is none.

    A file is called damaged only where most of what lies beyond ASCII is UTF-8. `flag` is the one by which an encoding
    can be named.
    """
    wide = _wide(head)
    if wide:
        return f"looks like {wide}; {_convert(path, packed, wide, flag)}"
    if cut:
        return "the file ends inside a character, as if cut short; get a whole copy"
    read = sample.decode("utf-8", "replace")
    bad = read.count("\ufffd")
    if sum(letter > "\x7f" for letter in read) - bad >= max(bad, 1):
        return "the rest is UTF-8, so the file is damaged or mixed there; mend that place, or get a whole copy"
    high = re.findall(rb"[\x80-\xff]+", sample)
    paired = sum(len(run) for run in high if len(run) > 1)
    if paired > 0.8 * sum(map(len, high)) and _decodes(sample, "gb18030"):
        return f"looks like GBK or a like encoding; if so, {_convert(path, packed, 'GB18030', flag)}"
    return f"looks like latin-1 or a like encoding; if so, {_convert(path, packed, 'ISO-8859-1', flag)}"


def _decodes(sample: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return False
    return True


def check_encoding(name: str) -> str:
    """The name of an encoding of text; any other is refused."""
    try:
        "".encode(name)
        return codecs.lookup(name).name
    except (LookupError, ValueError, UnicodeError):
        raise DataError(
            f"--encoding: expected the name of an encoding, such as utf-8, gb18030, big5 or latin-1, found {name!r}"
        ) from None


def _convert(path: Path, packed: bool, encoding: str, flag: str | None = None) -> str:
    named = "" if flag is None else f"name it with {flag} {encoding.lower()}, or "
    return f"{named}convert it with: {_iconv(path, packed, f'-f {encoding}')}"


def _iconv(path: Path, packed: bool, options: str) -> str:
    """A shell command that converts the file to UTF-8, ready to paste."""
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
