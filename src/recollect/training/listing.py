"""The runs in a folder, in a row each: task, model, data, metric, size and date. Nothing here imports torch."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ..core.errors import RecollectError
from ..core.files import open_regular
from .folder import SHIPPED, RunFolder, shipped

DEPTH = 4  # folders below the one that is listed: those of a race lie in its own
MOST_HEADER = 1 << 26  # bytes of the names and shapes in a file of weights
STATES = {"model": "finished", "best": "not finished", "last": "no validation yet"}


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """A run as it is listed; None for what its files do not say."""

    run: str
    task: str
    model: str
    data: str
    metric: str | None
    value: float | None
    params: int | None
    bytes: int | None  # of the file of weights
    date: str | None
    state: str


def list_runs(folder: Path | None) -> list[RunEntry]:
    """The runs in a folder and in those inside it, the newest last; with None those of `runs`, and the shipped ones."""
    place = Path("runs") if folder is None else folder
    found = sorted((read_entry(own, str(own)) for own in find_runs(place)), key=lambda entry: entry.date or "")
    return found + ([read_entry(SHIPPED / name, name) for name in shipped()] if folder is None else [])


def find_runs(folder: Path) -> Iterator[Path]:
    """Every run folder in a folder, itself included."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        if "config.json" in names and _is_run(Path(place)):
            yield Path(place)
            folders.clear()
        elif len(Path(place).relative_to(folder).parts) >= DEPTH:
            folders.clear()


def _is_run(folder: Path) -> bool:
    try:
        RunFolder(folder).config()
    except (OSError, RecollectError):
        return False
    return True


def read_entry(path: Path, name: str, rows: Sequence[Mapping[str, Any]] | None = None) -> RunEntry:
    """The row of a run; `rows` are those of its metrics, where they have been read already."""
    folder = RunFolder(path)
    config = folder.config()
    model, corpus = config.get("model"), config.get("corpus", {})
    weights = next((place for place in (folder.model_path, folder.best, folder.last_file) if place.is_file()), None)
    shapes, note = _read_header(weights) if weights is not None else ({}, {})
    if "valid" in note:
        value = note["valid"]
    else:
        value = min((row["valid"] for row in (_read_metrics(folder) if rows is None else rows) if "valid" in row),
                    default=None)  # fmt: skip
    return RunEntry(
        run=name,
        task=str(config.get("task")),
        model=str(model.get("name")) if isinstance(model, dict) else "–",
        data=str(corpus.get("name", "–")),
        metric=config.get("metric"),
        value=value if isinstance(value, int | float) else None,
        params=sum(map(prod, shapes.values())) if shapes else None,
        bytes=weights.stat().st_size if weights is not None else None,
        date=_read_date(folder),
        state=STATES["model" if weights == folder.model_path else weights.stem] if weights else "without weights",
    )


def _read_metrics(folder: RunFolder) -> list[dict[str, Any]]:
    try:
        return folder.metrics()
    except (OSError, RecollectError):
        return []


def _read_date(folder: RunFolder) -> str | None:
    try:
        return folder.manifest().get("date")
    except (OSError, RecollectError):
        return None


def _read_header(path: Path) -> tuple[dict[str, list[int]], dict[str, Any]]:
    """Shapes of the weights in a safetensors file, and the note of recollect; nothing where they cannot be read."""
    try:
        with open_regular(path) as file:
            size = int.from_bytes(file.read(8), "little")
            content = json.loads(file.read(size)) if size <= MOST_HEADER else {}
        about = content.pop("__metadata__", {})
        shapes = {name: entry["shape"] for name, entry in content.items()}
        own = {name: shape for name, shape in shapes.items() if name.startswith("model.")}
        note = json.loads(about.get("recollect", "{}"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecollectError):
        return {}, {}
    return (own if path.stem == "last" else shapes), note if isinstance(note, dict) else {}
