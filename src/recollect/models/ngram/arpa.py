r"""ARPA, the text file in which n-gram models travel between tools.

    \data\
    ngram 1=3
    ngram 2=2

    \1-grams:
    -0.61	the	-0.30           log10 probability, words, log10 back-off weight as a context
    …
    \2-grams:
    -0.25	the cat             no back-off weight at the longest length, where nothing can follow
    …
    \end\

A reader takes the longest n-gram that the file lists, and for each word of context that it had to give up
multiplies by the back-off weight of what it gave up.

Words stand between blanks, so a word with a blank in it (a character model has three) must be escaped:
backslash as ``\\``, space ``\s``, tab ``\t``, newline ``\n``, the empty word ``\e``, any other blank, NUL or
lone surrogate as ``\u`` and four hex digits. A file with an escaped word says so in a comment before ``\data\``
(the line `ESCAPED`); only such a file is unescaped, so that a backslash in another tool's file stays itself.
"""

import os
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from ...core.errors import RecollectError
from ...core.files import open_regular, write_aside

ESCAPED = r"# recollect: words are escaped (\\ backslash, \s space, \t tab, \n newline, \e nothing, \uXXXX code point)"
MARKERS = ("<s>", "</s>", "<unk>")
IMPOSSIBLE = -99.0  # what ARPA files write for the logarithm of zero
LN10 = float(np.log(10.0))
INFINITE = float("inf")
LONGEST_LINE = 1 << 20  # bytes
LONGEST_GRAM = 64  # words
MOST_SHOWN = 60  # bytes of what was found, in messages

_SHORT = {"\\": r"\\", " ": r"\s", "\t": r"\t", "\n": r"\n"}
_LONG = {short: character for character, short in _SHORT.items()}


class ArpaError(RecollectError):
    """A file that is not ARPA, or not for these words, named in one line with file and line number."""


class Grams(NamedTuple):
    """The n-grams of one length k, in natural logarithms."""

    words: np.ndarray  # E k, indices into the vocabulary
    log_probability: np.ndarray  # E
    log_backoff: np.ndarray  # E, zeros at the longest length
    line: np.ndarray  # E, where each stood in the file

    def with_unlisted(self, rows: np.ndarray) -> "Grams":
        """These and the n-grams `rows` (E' k), whose probability (NaN) is still to be found."""
        more = Grams(rows, np.full(len(rows), np.nan), np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64))
        return Grams(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))


def escape(word: str) -> str:
    """The word without blanks; words that have neither blanks nor backslashes stay as they are."""
    if not word:
        return r"\e"
    return "".join(_SHORT.get(c) or (rf"\u{ord(c):04x}" if _is_unwritable(c) else c) for c in word)


def unescape(text: str) -> str:
    """What `escape` was given."""
    if text == r"\e":
        return ""
    return re.sub(r"\\(?:u([0-9a-f]{4})|.)", lambda m: chr(int(m[1], 16)) if m[1] else _LONG.get(m[0], m[0]), text)


def _is_unwritable(character: str) -> bool:
    return character.isspace() or character == "\0" or "\ud800" <= character <= "\udfff"


def write(path: str | os.PathLike[str], words: Sequence[str], lengths: Sequence[Callable[[], Grams]]) -> None:
    """Write a model: `lengths[k - 1]()` gives its n-grams of length k.

    Readers that need <s>, </s> and <unk> find them: those that the vocabulary lacks are listed as impossible.
    """
    if len(set(words)) < len(words):
        raise ArpaError(f"{path}: expected every word once, found {_first_repeated(words)!r} twice")
    names = [escape(word) for word in words]
    absent = [marker for marker in MARKERS if marker not in words]
    counts, sections = [], []
    for k, grams_of in enumerate(lengths, start=1):
        grams, longest = grams_of(), k == len(lengths)
        counts.append(len(grams.words) + (len(absent) if k == 1 else 0))
        lines = [f"\\{k}-grams:", *_lines(grams, names, longest)]
        if k == 1:
            lines += [f"{IMPOSSIBLE:g}\t{marker}" for marker in absent]
        sections.append("\n".join(lines).encode())
    head = [ESCAPED] if any(name != word for name, word in zip(names, words, strict=True)) else []
    head += ["\\data\\", *(f"ngram {k}={count}" for k, count in enumerate(counts, start=1))]
    write_aside(path, b"\n\n".join(["\n".join(head).encode(), *sections, b"\\end\\\n"]))


def _first_repeated(words: Sequence[str]) -> str:
    seen: set[str] = set()
    return next(word for word in words if word in seen or seen.add(word))


def _lines(grams: Grams, names: list[str], longest: bool) -> Iterator[str]:
    block = 1 << 16
    for start in range(0, len(grams.words), block):
        part = slice(start, start + block)
        text = [" ".join([names[i] for i in row]) for row in grams.words[part].tolist()]
        # + 0.0 makes −0 plain.
        ten = [np.maximum(values[part] / LN10, IMPOSSIBLE) + 0.0 for values in grams[1:3]]
        if longest:
            yield from (f"{p:.9g}\t{t}" for p, t in zip(ten[0].tolist(), text, strict=True))
        else:
            columns = zip(ten[0].tolist(), text, ten[1].tolist(), strict=True)
            yield from (f"{p:.9g}\t{t}\t{b:.9g}" for p, t, b in columns)


def read_words(path: str | os.PathLike[str]) -> list[str]:
    """The words of the file, in its order: a vocabulary for `read`."""
    reader = _Reader(path)
    reader.preamble()
    words = [fields[1] for fields in reader.section(1)]
    return [reader.decode(word) for word in words]


def read(path: str | os.PathLike[str], words: Sequence[str]) -> list[Grams]:
    """The n-grams of each length, as far as they are made of `words`.

    Words of the file that are not among `words` (<s>, say) cannot occur in a text of these words: what
    contains them is left out. A word that the file does not list is an error: its probability is unknown.
    """
    reader = _Reader(path)
    reader.preamble()
    index = {reader.encode(word): i for i, word in enumerate(words)}
    if len(index) < len(words):
        raise ArpaError(f"{path}: expected a vocabulary with every word once, found {_first_repeated(words)!r} twice")
    missing = set(index)
    known: dict[bytes, int] = {}  # the words that the file lists; −1 if not among ours
    lengths = []
    for k in range(1, len(reader.counts) + 1):
        ids, log_probability, log_backoff, line = array("q"), array("d"), array("d"), array("q")
        for fields in reader.section(k):
            if k == 1:
                if fields[1] in known:
                    reader.fail("each word once among the 1-grams", f"{_show(fields[1])} again")
                known[fields[1]] = index.get(fields[1], -1)
                missing.discard(fields[1])
            try:
                row = [known[word] for word in fields[1 : k + 1]]
            except KeyError as unknown:
                reader.fail("only words that are among the 1-grams", _show(unknown.args[0]))
            if -1 in row:
                continue
            probability, backoff = reader.numbers(fields, k)
            ids.extend(row)
            log_probability.append(probability)
            log_backoff.append(backoff)
            line.append(reader.line)
        if missing:
            more = f" and {len(missing) - 1:,} others" if len(missing) > 1 else ""
            first = min(missing, key=lambda word: index[word])
            reader.fail("every word of the vocabulary among the 1-grams", f"no entry for {_show(first)}{more}")
        lengths.append(
            Grams(
                np.array(ids, dtype=np.int64).reshape(-1, k),
                np.array(log_probability) * LN10,
                np.array(log_backoff) * LN10,
                np.array(line, dtype=np.int64),
            )
        )
    return lengths


def _show(word: bytes) -> str:
    text = word[:MOST_SHOWN].decode("utf-8", "backslashreplace")
    return repr(text if len(word) <= MOST_SHOWN else f"{text}…")


class _Reader:
    """Goes through the file line by line, so that a complaint can say where it stands."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.line = 0
        self.escaped = False
        self.counts: list[int] = []  # n-grams of each length, as the head of the file declares
        self._lines = self._open()
        self._held: bytes | None = None

    def _open(self) -> Iterator[bytes]:
        # Bytes, because only ASCII blanks separate: others may be part of a word.
        with open_regular(self.path) as file:
            while text := file.readline(LONGEST_LINE + 1):
                self.line += 1
                if len(text) > LONGEST_LINE:
                    self.fail(f"lines of at most {LONGEST_LINE:,} bytes", "a longer one; is it an ARPA file?")
                yield text.strip()
        self.line += 1

    def fail(self, expected: str, found: str) -> NoReturn:
        raise ArpaError(f"{self.path}:{self.line}: expected {expected}, found {found}")

    def encode(self, word: str) -> bytes:
        return (escape(word) if self.escaped else word).encode("utf-8", "surrogateescape")

    def decode(self, word: bytes) -> str:
        text = word.decode("utf-8", "surrogateescape")
        return unescape(text) if self.escaped else text

    def preamble(self) -> None:
        """Up to and with the counts; what stands before \\data\\ is a comment."""
        for text in self._lines:
            if text.removeprefix(b"\xef\xbb\xbf") == b"\\data\\":
                break
            self.escaped |= text.removeprefix(b"\xef\xbb\xbf") == ESCAPED.encode()
        else:
            self.fail("a line \\data\\", "the end of the file; is it an ARPA file?")
        for text in self._lines:
            if not text:
                continue
            if text.startswith(b"\\"):
                self._held = text
                break
            declared = re.fullmatch(rb"ngram\s+(\d{1,18})\s*=\s*(\d{1,18})", text)
            if not declared or int(declared[1]) != len(self.counts) + 1:
                self.fail(f"'ngram {len(self.counts) + 1}=' and a count", _show(text))
            if len(self.counts) == LONGEST_GRAM:
                self.fail(f"n-grams of at most {LONGEST_GRAM} words", "longer ones")
            self.counts.append(int(declared[2]))
        if not self.counts:
            self.fail("'ngram 1=' and a count", _show(self._held) if self._held else "the end of the file")

    def section(self, k: int) -> Iterator[list[bytes]]:
        """The fields of each n-gram of length k: log10 probability, k words, perhaps a log10 back-off weight."""
        if self._held != b"\\%d-grams:" % k:
            self.fail(f"\\{k}-grams:", "the end of the file" if self._held is None else _show(self._held))
        self._held, found = None, 0
        for text in self._lines:
            if text.startswith(b"\\"):
                self._held = text
                break
            fields = text.split()
            if not fields:
                continue
            found += 1
            if not k + 1 <= len(fields) <= k + 2:
                self.fail(f"a probability, {k} words and perhaps a back-off weight", _show(text))
            yield fields
        if found != self.counts[k - 1]:
            self.fail(f"{self.counts[k - 1]:,} {k}-grams, as declared under \\data\\", f"{found:,}")
        if k == len(self.counts) and self._held != b"\\end\\":
            self.fail("\\end\\", "the end of the file" if self._held is None else _show(self._held))

    def numbers(self, fields: list[bytes], k: int) -> tuple[float, float]:
        """log10 of the probability and of the back-off weight, which is 0 where the file gives none."""
        try:
            probability = float(fields[0])
            backoff = float(fields[k + 1]) if len(fields) == k + 2 and k < len(self.counts) else 0.0
        except ValueError:
            self.fail("numbers around the words", _show(b" ".join(fields)))
        if not -INFINITE < probability <= 0.0:
            self.fail("log10 of a probability, at most 0 and finite", _show(fields[0]))
        if not -INFINITE < backoff < INFINITE:
            self.fail("log10 of a back-off weight, finite", _show(fields[k + 1]))
        return probability, backoff
