"""Tables of texts and labels separated by tabs: header and columns detected, rows read."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...data.files import DataError, lines
from .labelled import Artifacts

SAMPLE = 1_000  # lines that decide which column holds the labels
NAMES = {
    "label": {"label", "labels", "class", "category", "target", "sentiment", "gold_label", "y"},
    "text": {"text", "sentence", "review", "document", "comment", "phrase", "title", "tweet", "x"},
}


class Table:
    """The columns of text and label in some files."""

    def __init__(
        self,
        paths: Sequence[Path],
        label_column: str | None,
        text_column: str | None,
        header: bool | None,
        artifacts: Artifacts | None,
    ) -> None:
        self.first = paths[0]
        self.header = header
        sample = self._sample(self.first)
        width = len(sample[0])
        names = [cell.strip().lower() for cell in sample[0]]
        self.named = any(
            column is not None and not column.isdigit() and column.strip().lower() in names
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
        for number, line in enumerate(lines(path), 1):
            if not line.strip():
                continue
            rows.append(line.split("\t"))
            if len(rows[-1]) < 2:
                raise _no_tab(path, number, line)
            if len(rows) == SAMPLE:
                break
        if not rows:
            raise DataError(f"expected lines of text and label, found only blank ones in {path}")
        return rows

    def _headed(self, cells: Sequence[str]) -> bool:
        if self.header is not None:
            return self.header
        names = {cell.strip().lower() for cell in cells}
        return self.named or all(names & words for words in NAMES.values())

    def _place(self, kind: str, given: str | None, names: list[str], headed: bool, width: int) -> int | None:
        if given is None:
            places = [place for place, name in enumerate(names) if name in NAMES[kind]] if headed else []
            return places[0] if len(places) == 1 else None
        name = given.strip().lower()
        if headed and name in names:
            return names.index(name)
        if name.isdigit() and 1 <= int(name) <= width:
            return int(name) - 1
        there = f"a column out of {', '.join(names)}" if headed else f"a number from 1 to {width}"
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
        """Line number, text and label of every line, without header and blank lines."""
        for number, line in enumerate(lines(path), 1):
            if not line.strip(" \r"):
                continue
            cells = line.split("\t")
            if len(cells) < 2:
                raise _no_tab(path, number, line)
            if len(cells) != self.width:
                raise DataError(
                    f"expected {self.width} columns as in line 1, found {len(cells)} in line {number:,} of {path}; "
                    "mend or remove that line"
                )
            if number == 1 and self._headed(cells):
                continue
            yield number, cells[self.text].strip(), cells[self.label].strip()


def _no_tab(path: Path, number: int, line: str) -> DataError:
    shown = line if len(line) <= 40 else line[:40] + "…"
    return DataError(
        f"expected text TAB label, found no tab in line {number:,} of {path}: {shown!r}; put one between them"
    )
