"""Tables of texts and labels: header and columns detected, rows read."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...data.errors import DataError
from ...data.files import some_of
from ...data.limits import LABEL
from .cells import NAMES, names_both, read_cells
from .labelled import Artifacts

NUMBER = re.compile("[0-9]+")
SAMPLE = 1_000  # lines that decide which column holds the labels


class Table:
    """The columns of text and label in some files."""

    def __init__(
        self,
        paths: Sequence[Path],
        label_column: str | None,
        text_column: str | None,
        header: bool | None,
        artifacts: Artifacts | None,
        encoding: str | None = None,
    ) -> None:
        self.first, self.encoding = paths[0], encoding
        self.header = header
        sample = self._sample(self.first)
        width = len(sample[0])
        names = [cell.strip().lower() for cell in sample[0]]
        self.named = any(
            column is not None and not NUMBER.fullmatch(column) and column.strip().lower() in names
            for column in (label_column, text_column)
        )
        headed = self._headed(sample[0])
        body = sample[1:] if headed else sample
        columns = {
            kind: self._place(kind, given, names, headed, width)
            for kind, given in (("label", label_column), ("text", text_column))
        }
        label, text = columns["label"], columns["text"]
        if label is None and text is not None and width == 2:
            label = 1 - text
        if label is None:
            if width != 2:
                raise DataError(
                    f"expected a text and its label in two columns, found {width} in line 1 of {self.first}; name them "
                    "with --set label_column and --set text_column, as the header does or as numbers from 1"
                )
            label = self._fewest(body, artifacts)
        if text is None and width == 2:
            text = 1 - label
        if text is None or text == label:
            raise DataError(
                f"expected one column of texts, found {width} columns in {self.first}; name it with --set text_column"
            )
        self.text, self.label, self.width = text, label, width

    def _sample(self, path: Path) -> list[list[str]]:
        rows: list[list[str]] = []
        for number, cells in read_cells(path, self.encoding):
            if len(cells) < 2:
                raise _no_separator(path, number, cells[0])
            rows.append(cells)
            if len(rows) == SAMPLE:
                break
        if not rows:
            raise DataError(f"expected lines of text and label, found only blank ones in {path}")
        return rows

    def _headed(self, cells: Sequence[str]) -> bool:
        if self.header is not None:
            return self.header
        return self.named or names_both(cells)

    def _place(self, kind: str, given: str | None, names: list[str], headed: bool, width: int) -> int | None:
        if given is None:
            places = [place for place, name in enumerate(names) if name in NAMES[kind]] if headed else []
            return places[0] if len(places) == 1 else None
        name = given.strip().lower()
        if headed and name in names:
            return names.index(name)
        if (place := place_of(name, width)) is not None:
            return place
        there = f"a column out of {some_of(names, 12)}" if headed else f"a number from 1 to {width}"
        raise DataError(f"{kind}_column: expected {there} of {self.first}, found {given!r}")

    def _fewest(self, body: list[list[str]], artifacts: Artifacts | None) -> int:
        """The column of labels: that with the run's classes, else that with fewer different values."""
        cells = [[row[place] for row in body if len(row) == 2] for place in (0, 1)]
        if artifacts is not None:
            known_labels = set(artifacts.classes)
            hits = [sum(cell.strip() in known_labels for cell in column) for column in cells]
            if hits[0] != hits[1]:
                return int(hits[1] > hits[0])
        sizes = [(len(set(column)), sum(map(len, column))) for column in cells]
        if sizes[0] == sizes[1]:
            raise DataError(
                f"expected a column with fewer different values for the labels, found two alike in {self.first}; "
                "name it with --set label_column=1 or 2"
            )
        return 0 if sizes[0] < sizes[1] else 1

    def rows(self, path: Path) -> Iterator[tuple[int, str, str]]:
        """Line number, text and label of every row, without header and blank lines."""
        for number, cells in read_cells(path, self.encoding):
            if len(cells) < 2:
                raise _no_separator(path, number, cells[0])
            if len(cells) != self.width:
                raise DataError(
                    f"expected {self.width} columns as in line 1, found {len(cells)} in line {number:,} of {path}; "
                    "mend or remove that line"
                )
            if number == 1 and self._headed(cells):
                continue
            text, label = cells[self.text].strip(), cells[self.label].strip()
            if len(label) > LABEL:
                raise DataError(
                    f"expected labels of at most {LABEL:,} characters, found one of {len(label):,} in line {number:,} "
                    f"of {path}; name the right column with --set label_column"
                )
            yield number, text, label


def place_of(column: str, width: int) -> int | None:
    """The place of a column that is given as a number from 1, if it is one."""
    number = int(column) if NUMBER.fullmatch(column) and len(column) < 10 else 0
    return number - 1 if 1 <= number <= width else None


def _no_separator(path: Path, number: int, line: str) -> DataError:
    shown = line if len(line) <= 40 else line[:40] + "…"
    return DataError(
        f"expected text TAB label, found no tab in line {number:,} of {path}: {shown!r}; put one between them, or name "
        "a file with commas .csv"
    )
