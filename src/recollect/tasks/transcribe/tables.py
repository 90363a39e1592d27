"""Tables of transcripts: the name of a recording and what is said in it, in each line; also who says it."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ...data.errors import DataError
from ...data.files import lines, some_of
from ...data.limits import CAPTION

TABLES = (
    "transcripts.tsv", "transcripts.csv", "transcripts.txt", "metadata.tsv", "metadata.csv", "train.tsv", "train.csv",
)  # fmt: skip
NAMES = {
    "file": {"file", "path", "name", "wav", "audio", "filename", "file_name"},
    "text": {"text", "transcript", "transcription", "sentence", "label"},
    "speaker": {"speaker", "client_id", "speaker_id"},
    "split": {"split", "part"},
}
ENDINGS = ("", ".wav", ".flac", ".ogg", ".mp3")
FOLDERS = ("", "wavs", "clips", "recordings", "audio")


class Said(NamedTuple):
    """A row of a table."""

    path: Path
    text: str
    speaker: str
    split: str  # as the table says; nothing where it does not


def find_table(place: Path) -> Path | None:
    """The table of transcripts: the file itself, or the one that lies in a folder."""
    if place.is_file():
        return place
    return next((place / name for name in TABLES if (place / name).is_file()), None)


def read_table(path: Path, skip: Callable[[str, str], None]) -> Iterator[Said]:
    """The recordings of a table that are there; `skip` is called with a reason and the name of each other one."""
    source = iter(lines(path))
    head = next(source, "")
    mark = next((mark for mark in "\t|" if mark in head), ",")

    def every() -> Iterator[str]:
        yield head
        yield from source

    quoted = csv.QUOTE_MINIMAL if mark == "," else csv.QUOTE_NONE
    reader = csv.reader((f"{line}\n" for line in every()), delimiter=mark, quoting=quoted)
    places: dict[str, int] | None = None
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            if not any(cells):
                continue
            if places is None:
                places = _find_columns(cells)
                if places is not None:
                    continue
                places = {"file": 0, "text": 1}
            if len(cells) <= max(places["file"], places["text"]):
                skip("rows without a name and a text", f"line {reader.line_num:,} of {path.name}")
                continue
            name, text = cells[places["file"]], cells[places["text"]]
            found = _find_recording(path.parent, name)
            if found is None:
                skip("recordings that are not there", name)
            elif not text:
                skip("recordings without a text", name)
            elif len(text) > CAPTION:
                skip(f"texts of more than {CAPTION:,} characters", name)
            else:
                more = {what: _cell(cells, places.get(what)) for what in ("speaker", "split")}
                yield Said(found, text, **more)
    except csv.Error as error:
        raise DataError(
            f"{path}: expected a table of transcripts, found a row that is none from line {reader.line_num:,} on "
            f"({error})"
        ) from None


def _cell(cells: list[str], place: int | None) -> str:
    return cells[place] if place is not None and place < len(cells) else ""


def _find_columns(cells: list[str]) -> dict[str, int] | None:
    """The places of the columns that a header names; None where the row is no header."""
    lower = [cell.lower() for cell in cells]
    found = {
        what: next(place for place, cell in enumerate(lower) if cell in words)
        for what, words in NAMES.items()
        if words & set(lower)
    }
    return found if {"file", "text"} <= set(found) else None


def _find_recording(folder: Path, name: str) -> Path | None:
    """The recording of that name in a folder or in one of its usual folders of sound; never one outside of it."""
    given = Path(name)
    if not name or given.is_absolute() or ".." in given.parts:
        return None
    for inside in FOLDERS:
        for ending in ENDINGS:
            path = folder / inside / f"{name}{ending}"
            if path.is_file():
                return path
    return None


def missing_table(place: Path) -> DataError:
    return DataError(
        f"{place}: expected a folder of recordings with a table of their transcripts (lines `file TAB text`, named "
        f"{some_of(TABLES, 3)}), found none; write one"
    )
