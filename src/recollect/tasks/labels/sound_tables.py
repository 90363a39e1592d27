"""Tables of recordings: a file and its label in each row, and where they are named a speaker and a split."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from ...data.errors import DataError
from ...data.files import some_of
from ...data.limits import LABEL
from ...data.sound.listing import Recording, is_recording
from .cells import NAMES, is_table, read_cells
from .tables import place_of

FILES = {"file", "files", "path", "filename", "file_name", "audio", "recording", "wav", "sound", "clip"}
COLUMNS = {
    "file": FILES,
    "label": NAMES["label"] | {"word", "command", "digit"},
    "speaker": {"speaker", "speaker_id", "client_id", "person", "voice"},
    "split": {"split", "part", "subset", "set"},
}
SPLITS = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
}
SPLITS |= {"test": "test", "testing": "test", "eval": "test"}
LOOKED = 5  # rows that show whether a table is one of recordings


def names_recordings(path: Path, encoding: str | None = None) -> bool:
    """Whether a file is a table in whose first rows recordings are named."""
    if not is_table(path) or not path.is_file():
        return False
    try:
        rows = [cells for _, cells in islice(read_cells(path, encoding), LOOKED)]
    except DataError:  # whoever reads it whole says what is wrong
        return False
    return any(is_recording(Path(cell.strip())) for cells in rows for cell in cells)


def read_table(
    path: Path,
    columns: dict[str, str | None],
    header: bool | None,
    skipped: list[tuple[Path, str]],
    encoding: str | None = None,
) -> Iterator[Recording]:
    """The recordings that a table names, by paths from its own folder; those that are not there go to `skipped`.

    `columns` names columns of the file, label and speaker, by the header's names or as numbers from 1 (None: found).
    """
    rows = read_cells(path, encoding)
    begin, first = next(rows, (0, []))
    names = [cell.strip().lower() for cell in first]
    headed = not any(is_recording(Path(name)) for name in names) if header is None else header
    places = _places(path, names if headed else [""] * len(first), first if not headed else None, columns)
    for number, cells in rows if headed else chain([(begin, first)], rows):
        if len(cells) != len(first):
            raise DataError(
                f"expected {len(first)} columns as in line 1, found {len(cells)} in line {number:,} of {path}; mend or "
                "remove that line"
            )
        own = {kind: cells[place].strip() for kind, place in places.items()}
        if not own["file"] or not own["label"]:
            skipped.append((path, f"line {number:,} without a file or a label"))
            continue
        if len(own["label"]) > LABEL:
            raise DataError(f"expected labels of at most {LABEL:,} characters, found more in line {number:,} of {path}")
        split = own.get("split", "").lower()
        if split and split not in SPLITS:
            raise DataError(
                f"expected a split out of {', '.join(SPLITS)}, found {split!r} in line {number:,} of {path}"
            )
        place = path.parent / own["file"]
        if not place.is_file():
            skipped.append((place, "not there"))
            continue
        yield Recording(place, own["file"], own["label"], speaker=own.get("speaker", ""), split=SPLITS.get(split, ""))


def _places(
    path: Path, names: Sequence[str], first: Sequence[str] | None, columns: dict[str, str | None]
) -> dict[str, int]:
    """The number of each column; `first` is the first row where there is no header."""
    found: dict[str, int] = {}
    for kind, known in COLUMNS.items():
        given = columns.get(kind)
        if given is not None:
            wanted = given.strip().lower()
            place = names.index(wanted) if wanted in names else place_of(wanted, len(names))
            if place is None:
                there = some_of([name for name in names if name], 12) or f"a number from 1 to {len(names)}"
                raise DataError(f"{kind} column: expected one of {path} ({there}), found {given!r}")
            found[kind] = place
        elif len(some := [place for place, name in enumerate(names) if name in known]) == 1:
            found[kind] = some[0]
    if first is not None and "file" not in found:
        found["file"] = next((place for place, cell in enumerate(first) if is_recording(Path(cell.strip()))), 0)
    if "label" not in found and len(names) == 2 and "file" in found:
        found["label"] = 1 - found["file"]
    missing = [kind for kind in ("file", "label") if kind not in found]
    if missing or found["file"] == found["label"]:
        raise DataError(
            f"expected a column of files and one of labels in {path}, found {some_of(list(names), 12)}; name them with "
            "--set text_column (files) and --set label_column, by name or as numbers from 1"
        )
    return found
