"""Caption files: lines `name TAB caption` or `name#i TAB caption`, or CSV; captions normalised to plain words."""

import csv
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from ...data.errors import DataError
from ...data.files import lines
from ...data.limits import CAPTION

NAMED = 3  # of what was left out, so many are named
_NUMBERED = re.compile(r"#\d+$")
_HEADER = re.compile(r'\s*"?[\w ]+"?\s*[,\t]\s*"?captions?"?\s*', re.IGNORECASE)


class _Table(dict[int, str | None]):
    """A table for `str.translate` that replaces punctuation by blanks, except for marks inside words."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kept = character in "'-" or unicodedata.category(character)[0] not in "PSCZ"
        self[code] = found = "'" if character == "’" else character if kept else " "
        return found


_PLAIN = _Table()


def plain(caption: str) -> str:
    """A caption normalised for training and scoring: lower case, words only, a blank between them."""
    words = unicodedata.normalize("NFC", caption.lower()).translate(_PLAIN).split()
    return " ".join(word for word in (word.strip("'-") or word for word in words) if any(map(str.isalnum, word)))


@dataclass
class Skipped:
    """Items that could not be used, by reason: their number, and the first few by name."""

    found: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, name: str) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if len(some := self.found.setdefault(reason, [])) < NAMED and name not in some:
            some.append(name)

    def notes(self) -> list[str]:
        """One line for each reason."""
        return [
            f"{self.counts[reason]:,} {reason}: {', '.join(some)}{', …' if self.counts[reason] > len(some) else ''}"
            for reason, some in self.found.items()
        ]


def read_captions(path: Path, skipped: Skipped | None = None) -> dict[str, list[str]]:
    """The normalised captions of each picture, in the order of the file; `skipped` collects unusable lines."""
    skipped = Skipped() if skipped is None else skipped
    found: dict[str, list[str]] = {}
    for number, name, caption in _captions(path):
        if name is None:
            if caption.strip():
                skipped.add("lines that are no `name TAB caption`", f"line {number:,} of {path.name}")
        elif len(caption) > CAPTION:
            skipped.add(f"captions of more than {CAPTION:,} characters", f"line {number:,} of {path.name}")
        elif words := plain(caption):
            if words not in (known_ones := found.setdefault(_NUMBERED.sub("", name), [])):
                known_ones.append(words)
        else:
            skipped.add("captions without a word", f"line {number:,} of {path.name}")
    return found


def _captions(path: Path) -> Iterator[tuple[int, str | None, str]]:
    """Line number, picture name and caption of each line; the name is None for a line of another form."""
    rest = (line.rstrip("\r") for line in lines(path))
    first = next(rest, "")
    headed = _HEADER.fullmatch(first) is not None
    begun = 1 if headed else 0
    every = rest if headed else chain([first], rest)
    if "\t" not in first and (headed or path.name.endswith(".csv")):
        reader = csv.reader(every)
        number = 1 + begun
        try:
            for row in reader:
                yield (number, row[0].strip(), ",".join(row[1:])) if len(row) > 1 else (number, None, ",".join(row))
                number = reader.line_num + 1 + begun
        except csv.Error as error:
            raise DataError(f"{path}, line {number:,}: expected CSV, found something else ({error})") from None
        return
    for number, line in enumerate(every, 1 + begun):
        name, tab, caption = line.partition("\t")
        yield (number, name.strip(), caption) if tab and name.strip() else (number, None, line)


def names_in(path: Path) -> Iterator[str]:
    """The picture names of a list, one on each line."""
    return (line.strip() for line in lines(path) if line.strip())
