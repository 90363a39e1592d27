"""The runs that a studio sees: those that were named, those of its folders, and those that ship with the package."""

import threading
from collections.abc import Sequence
from pathlib import Path

from ..api.loading import load
from ..core.errors import RunError
from ..core.trained import TrainedModel
from ..core.typed import show
from ..serve.models import name_of
from ..serve.refusals import Refusal

CONFIG = "config.json"
MOST_FOUND = 2_000  # runs of a folder that are looked at


class Registry:
    """Runs by their names. A request names a run and never a path; folders are looked through anew each time."""

    def __init__(self, folders: Sequence[Path], runs: Sequence[str]) -> None:
        self.folders = tuple(Path(folder) for folder in folders)
        self.named: dict[str, str] = {}
        for run in runs:
            name = name_of(run)
            if self.named.setdefault(name, run) != run:
                raise RunError(f"{run}: expected runs of different names, found two called {show(name)}; rename one")
        self.loaded: dict[str, TrainedModel] = {}
        self.lock = threading.Lock()

    def list_runs(self) -> dict[str, str]:
        """Names and places of all runs, those that were named first."""
        found = dict(self.named)
        for folder in self.folders:
            for path in list_folders(folder):
                if (path / CONFIG).is_file() and path.name.isprintable():
                    found.setdefault(path.name, str(path))
        return found

    def find(self, name: str) -> str:
        """The place of a run."""
        place = self.named.get(name) or self.list_runs().get(name)
        if place is None:
            raise Refusal(404, f"run: expected one that this studio sees, found {show(name)}", param="run")
        return place

    def load(self, name: str) -> TrainedModel:
        """The run as a trained model that works by its own call; loaded once. It may take seconds: use a thread."""
        with self.lock:
            place = self.find(name)
            if name not in self.loaded:
                self.loaded[name] = load(place, engine="torch")
            return self.loaded[name]


def list_folders(folder: Path) -> list[Path]:
    """The folders in a folder that are no links out of it, by name; none where it is not there."""
    try:
        found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []
    return found[:MOST_FOUND]
