"""Files that are no UTF-8: read in an encoding that was named, or a guess at it with the command that converts them."""

import codecs
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from .byte_files import ByteFile, StrPath
from .errors import DataError

BOM = "\ufeff"
ENCODING = "--encoding"  # the flag by which it is named
FIRST = 1 << 16  # bytes by which a file is taken for UTF-8


def guess_binary(path: Path, head: bytes, packed: bool, flag: str | None = None) -> str:
    """What a file with a NUL in it looks like, judged by its first bytes; `flag` names an encoding."""
    wide = _wide(head)
    if wide:
        return f"looks like {wide}; {_convert(path, packed, wide, flag)}"
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
    if paired > 0.8 * sum(map(len, high)) and decoded(sample, "gb18030") is not None:
        other = " (of traditional characters perhaps big5)" if decoded(sample, "big5") is not None else ""
        return f"looks like GBK or a like encoding; if so, {_convert(path, packed, 'GB18030', flag)}{other}"
    letters = [letter for letter in decoded(sample, "big5") or "" if letter.isalpha()]
    if 2 * sum(letter > "\u2e80" for letter in letters) > len(letters):  # the second byte of a character may be ASCII
        return f"looks like Big5 or a like encoding; if so, {_convert(path, packed, 'BIG5', flag)}"
    # from 0x80 to 0x9F latin-1 has controls, which no text holds, and its relative from Windows has quotes and the euro
    western = "CP1252" if re.search(rb"[\x80-\x9f]", sample) else "ISO-8859-1"
    return f"looks like latin-1 or a like encoding; if so, {_convert(path, packed, western, flag)}"


def decoded(sample: bytes, encoding: str, *, whole: bool = False) -> str | None:
    """Bytes as text in an encoding; None where they are none. But for `whole` ones they may end inside a character."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample, whole)
    except UnicodeDecodeError:
        return None


def check_encoding(name: str) -> str:
    """The name of an encoding of text; any other is refused."""
    try:
        "".encode(name)
        return codecs.lookup(name).name
    except (LookupError, ValueError, UnicodeError):
        raise DataError(
            f"{ENCODING}: expected the name of an encoding, such as utf-8, gb18030, big5 or latin-1, found {name!r}"
        ) from None


def encoding_of(path: StrPath, encoding: str | None) -> str | None:
    """The encoding by which a file is read where one was named for files that are no UTF-8; None for UTF-8.

    A file that begins as UTF-8 with characters beyond ASCII is UTF-8, so that files of both kinds can be read together,
    and by a run that was trained on the other.
    """
    if encoding is None:
        return None
    with ByteFile(path) as file:
        first = file.read(FIRST)
    beyond = any(byte > 0x7F for byte in first)
    return None if beyond and decoded(first, "utf-8") is not None else check_encoding(encoding)


def decode(path: StrPath, encoding: str) -> Iterator[str]:
    """The text of a file in a named encoding, in chunks; \\r\\n becomes \\n, a byte-order mark is removed."""
    name, at, held, opened = check_encoding(encoding), 0, "", False
    decoder = codecs.getincrementaldecoder(name)()
    with ByteFile(path) as file:
        while True:
            block = file.read()
            try:
                text = held + decoder.decode(block, not block)
            except UnicodeDecodeError as error:
                place = at + error.start
                raise DataError(
                    f"expected text in {name}, found 0x{error.object[error.start]:02X} at about byte {place:,} of "
                    f"{path}; name another with {ENCODING}"
                ) from None
            if "\0" in text:
                raise DataError(f"expected text in {name}, found a NUL in {path}; name another with {ENCODING}")
            at += len(block)
            held = "\r" if block and text.endswith("\r") else ""
            text = text.removesuffix(held).replace("\r\n", "\n")
            if text:
                yield text if opened else text.removeprefix(BOM)
                opened = True
            if not block:
                break
    if not opened:
        raise DataError(f"expected text, found an empty file: {path}; leave it out or fill it")


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
        # in Chinese line ends alone have it there, some characters at the other place, and most bytes are no ASCII
        chinese = zeros > max(others, 1) and 4 * sum(byte > 0x7F for byte in head) > len(head)
        if (zeros > 1 and not others) or chinese:
            text = head[: len(head) // 2 * 2].decode(name, "replace")[:-1]  # the head may end within a pair
            if all(c.isprintable() or c in "\n\r\t" for c in text) and "\ufffd" not in text:
                return name
    return None
