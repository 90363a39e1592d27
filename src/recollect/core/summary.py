"""What data a run is given: files read and skipped, sizes of its splits, and counts that a user should see first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .language import columns as width
from .language import localize, localize_note
from .numbers import scaled

INDENT = "      "
SHOWN = 12  # names, at most, in a line of the terminal
LISTED = 100  # names, at most, in JSON


@dataclass(frozen=True)
class SkippedFile:
    """A file in a folder that could not be used, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class FileList:
    """The files that data were read from; names are relative to the folder that holds all of them."""

    names: Sequence[str] = ()
    size: int = 0  # bytes, as they lie there
    encodings: Mapping[str, int] = field(default_factory=dict)  # encoding → files
    skipped: Sequence[SkippedFile] = ()

    def describe(self) -> str:
        """`3 files, 1.2 MB, UTF-8; 2 skipped`; nothing for data that are generated."""
        if not self.names:
            return "generated"
        whole = f"{len(self.names):,} files" if len(self.names) > 1 else self.names[0]
        several = len(self.encodings) > 1
        kinds = [f"{name} ({count:,})" if several else name for name, count in self.encodings.items()]
        skipped = [f"{len(self.skipped):,} skipped"] if self.skipped else []
        return "; ".join([", ".join([whole, scaled(self.size, "B"), *kinds]), *skipped])

    def to_json(self) -> dict[str, Any]:
        """The first names, and all counts."""
        return {
            "read": len(self.names),
            "bytes": self.size,
            "encodings": dict(self.encodings),
            "names": list(self.names[:LISTED]),
            "skipped": [vars(each) for each in self.skipped[:LISTED]],
            "skipped_count": len(self.skipped),
        }


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """Data before training.

    `splits` has a row of counts for each part, `counts` tables of a name and its number, such as those of labels, and
    `facts` whatever else is one number or one word.
    """

    name: str
    files: FileList | None = None
    splits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    facts: Mapping[str, int | str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """As `data.json` in a run folder has it."""
        return {
            "name": self.name,
            "files": None if self.files is None else self.files.to_json(),
            "splits": {split: dict(row) for split, row in self.splits.items()},
            "counts": {what: dict(table) for what, table in self.counts.items()},
            "facts": dict(self.facts),
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        """For the terminal, in the language of the reader."""
        files = "" if self.files is None else f": {localize(self.files.describe())}"
        found = [f"{localize('data')}  {self.name}{files}"]
        found += [INDENT + line for line in align(self.splits)]
        for what, table in self.counts.items():
            some = [f"{name} {number:,}" for name, number in list(table.items())[:SHOWN]]
            more = [localize(f"{len(table) - SHOWN:,} more")] if len(table) > SHOWN else []
            found.append(f"{INDENT}{localize(what)}: {', '.join([*some, *more])}")
        facts = [
            f"{localize(name)} {value:,}" if isinstance(value, int) else f"{localize(name)} {localize(value)}"
            for name, value in self.facts.items()
        ]
        if facts:
            found.append(INDENT + ", ".join(facts))
        return [*found, *map(localize_note, self.notes)]


def align(rows: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A table of counts in lines: a row for each name, columns in the order in which they first come.

    Names of rows and columns are in the language of the reader.
    """
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    if not columns:
        return []
    table = [["", *map(localize, columns)]]
    table += [
        [localize(name), *(format_count(row.get(column, "–")) for column in columns)] for name, row in rows.items()
    ]
    widths = [max(width(cells[place]) for cells in table) for place in range(len(columns) + 1)]
    return ["  ".join(map(_pad, cells, widths, range(len(cells)))).rstrip() for cells in table]


def _pad(cell: str, wide: int, place: int) -> str:
    """The first cell of a line stands left, the others right."""
    blanks = " " * (wide - width(cell))
    return blanks + cell if place else cell + blanks


def format_count(value: int | str) -> str:
    """1,234; a word stays as it is."""
    return f"{value:,}" if isinstance(value, int) else value
