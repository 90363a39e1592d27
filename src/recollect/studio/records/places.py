"""The folders that a studio was given, and the runs and races in them, by name.

A request names a run; the name is looked up among those that were found here and is never joined into a path. Links
are not followed, neither to folders nor to files, so that nothing outside of the folders is read.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ...core.errors import RecollectError
from ...core.typed import show

DEPTH = 5  # folders below one that was named; runs of a race lie in its own
MOST_FOLDERS = 20_000  # that are looked into
MOST_RUNS = 5_000


class Root(NamedTuple):
    """A folder that was named at the start, and the first part of the names of what is in it."""

    label: str
    path: Path


class Place(NamedTuple):
    """A run or a race: its folder, and the race that it is an entry of."""

    path: Path
    race: str | None = None


class Found(NamedTuple):
    runs: dict[str, Place]
    races: dict[str, Place]
    more: bool  # whether there are others, beyond the bounds


def open_roots(folders: Sequence[str | Path]) -> list[Root]:
    """The folders, each with a label of its own; one that is not there yet may come."""
    found: dict[str, Root] = {}
    for folder in folders:
        path = Path(folder).expanduser()
        if path.exists() and not path.is_dir():
            raise RecollectError(f"{folder}: expected a folder, found a file")
        path = path.resolve()
        if any(path == root.path for root in found.values()):
            continue
        first = path.name or "root"
        if not first.isprintable():
            raise RecollectError(f"{show(folder)}: expected a folder whose name can be printed, found another")
        label = next(
            name for n in range(1, len(found) + 2) if (name := first if n == 1 else f"{first}-{n}") not in found
        )
        found[label] = Root(label, path)
    return list(found.values())


def find(roots: Sequence[Root], most: int = MOST_RUNS) -> Found:
    """Every run and race below the roots."""
    found = Found({}, {}, False)
    looked = 0
    for root in roots:
        waiting: list[tuple[Path, str, int, str | None]] = [(root.path, root.label, 0, None)]
        while waiting:
            path, name, depth, race = waiting.pop()
            looked += 1
            if looked > MOST_FOLDERS or len(found.runs) >= most:
                return found._replace(more=True)
            files, folders = _list(path)
            if "config.json" in files:
                found.runs[name] = Place(path, race)
                continue
            if "race.json" in files:
                race = name
                found.races[name] = Place(path)
            if depth < DEPTH:
                waiting += [(path / own, f"{name}/{own}", depth + 1, race) for own in sorted(folders, reverse=True)]
    return found


def _list(path: Path) -> tuple[set[str], list[str]]:
    """The names of the regular files and of the folders in a folder; links, hidden and odd names are left out."""
    files, folders = set(), []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith(".") or not entry.name.isprintable():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files.add(entry.name)
    except OSError:  # it went away, or may not be read
        return set(), []
    return files, folders


Signature = tuple[int, int, int]  # inode, size, time of the last change


def sign(path: Path) -> Signature | None:
    """What tells one content of a regular file from another, without reading it; None for anything but such a file."""
    try:
        about = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (about.st_ino, about.st_size, about.st_mtime_ns) if stat.S_ISREG(about.st_mode) else None


def list_files(roots: Sequence[Root], most: int = 2_000) -> Iterator[tuple[str, Path]]:
    """Files and folders that a training may read, by name: what is below the roots but for runs and races."""
    given = 0
    for root in roots:
        waiting = [(root.path, root.label, 0)]
        while waiting:
            path, name, depth = waiting.pop()
            files, folders = _list(path)
            if "config.json" in files or "race.json" in files:
                continue
            for own, place in [(name, path), *((f"{name}/{own}", path / own) for own in sorted(files))]:
                if given >= most:
                    return
                given += 1
                yield own, place
            if depth < DEPTH:
                waiting += [(path / own, f"{name}/{own}", depth + 1) for own in sorted(folders, reverse=True)]
