"""How far a reader has come in the course, remembered in a file of the user's."""

import json
import os
from pathlib import Path
from typing import NamedTuple

MOST = 1 << 16  # bytes of the file


class Progress(NamedTuple):
    """The chapter and section where the reader left off, and the chapters that are finished."""

    chapter: str = ""
    section: str = ""
    finished: tuple[str, ...] = ()


def progress_file() -> Path:
    """In RECOLLECT_CACHE where that is set, else where programs keep their state (XDG_STATE_HOME, ~/.local/state)."""
    own = os.environ.get("RECOLLECT_CACHE")
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return (Path(own) if own else Path(state, "recollect")).expanduser() / "course.json"


def read_progress() -> Progress:
    """What is remembered; nothing where the file is not there, or is none of ours."""
    try:
        with progress_file().open("rb") as file:
            found = json.loads(file.read(MOST))
        return Progress(str(found["chapter"]), str(found["section"]), tuple(map(str, found["finished"])))
    except (OSError, ValueError, KeyError, TypeError):
        return Progress()


def write_progress(progress: Progress) -> bool:
    """Remember it; false where the file cannot be written: a walk is worth more than its bookmark."""
    from ..core.files import write_aside

    path = progress_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_aside(path, json.dumps(progress._asdict(), indent=1).encode())
    except (OSError, ValueError):
        return False
    return True
