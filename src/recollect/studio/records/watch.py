"""The table of all runs, kept up to date: at each look only files whose size or time changed are read again.

Each change has a number; whoever asks with the number of the last change that was seen is told what came after it.
"""

import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import RecollectError
from ...core.files import is_locked, read_json
from ...training.listing import read_entry
from .curves import Curves, read_tail
from .places import Found, Place, Root, Signature, find, sign

FILES = (
    "config.json", "manifest.json", "model.safetensors", "checkpoints/best.safetensors",
    "checkpoints/last.safetensors", "metrics.jsonl",
)  # fmt: skip
LOOK, SEARCH = 0.7, 2.5  # seconds between two looks at the files of runs, and two searches for new ones
MOST_GONE = 10_000  # names of runs that went, which are remembered
MOST_CONFIG = 1 << 22


@dataclass
class Run:
    """A run as the table shows it; None for what its files do not say."""

    id: str
    name: str
    race: str | None
    task: str = "–"
    model: str = "–"
    data: str = "–"
    metric: str | None = None
    value: float | None = None
    params: int | None = None
    bytes: int | None = None
    date: str | None = None
    state: str = "stopped"  # running, finished, stopped
    step: int | None = None
    steps: int | None = None  # that it will make, where that is what ends it
    tokens: float | None = None
    seconds: float | None = None
    loss: float | None = None

    @property
    def folder(self) -> str:
        return self.id.rpartition("/")[0]


@dataclass
class Kept:
    """What is remembered of a run between looks."""

    place: Place
    signatures: tuple[Signature | None, ...] = ()
    locked: bool = False
    run: Run | None = None  # None: no run after all
    changed: int = 0


@dataclass(frozen=True)
class Changes:
    """What is new since a cursor; `all`: these are all runs, and whatever else is known should be forgotten."""

    cursor: str
    runs: list[Run]
    gone: list[str]
    all: bool
    races: list[str] = field(default_factory=list)  # whose files changed

    def to_json(self) -> dict[str, Any]:
        return {
            "cursor": self.cursor, "runs": [to_json(run) for run in self.runs], "gone": self.gone, "all": self.all,
            "races": self.races,
        }  # fmt: skip


def to_json(run: Run) -> dict[str, Any]:
    """A run for a page: numbers that grew beyond all bounds are left out, as JSON has none."""
    finite = {name: value for name, value in asdict(run).items() if not isinstance(value, float) or abs(value) < 1e300}
    return finite | {"folder": run.folder}


class Watch:
    """The runs and races of some folders. `look` is cheap to call as often as pages ask: it looks once in a while."""

    def __init__(self, roots: Sequence[Root], *, look: float = LOOK, search: float = SEARCH) -> None:
        self.roots, self.every_look, self.every_search = list(roots), look, search
        self.curves = Curves()
        self.epoch = secrets.token_hex(4)  # cursors of another start of the server are of no use here
        self.number = 0
        self.looked = self.searched = -1e9
        self.found = Found({}, {}, False)
        self.kept: dict[str, Kept] = {}
        self.race_signs: dict[str, tuple[Signature | None, ...]] = {}
        self.race_changed: dict[str, int] = {}
        self.gone: dict[str, int] = {}
        self.lock = threading.Lock()

    def look(self, *, now: bool = False) -> None:
        """See what changed, unless that was seen a moment ago."""
        with self.lock:
            moment = time.monotonic()
            if not now and moment - self.looked < self.every_look:
                return
            if now or moment - self.searched >= self.every_search:
                self.found = find(self.roots)
                self.searched = time.monotonic()
                self._drop()
            for name, place in self.found.runs.items():
                self._look_at(name, place)
            for name, place in self.found.races.items():
                self._look_at_race(name, place)
            self.looked = time.monotonic()

    def _drop(self) -> None:
        for name in [name for name in self.kept if name not in self.found.runs]:
            if self.kept.pop(name).run is not None:
                self.number += 1
                self.gone[name] = self.number
        for name in [name for name in self.race_signs if name not in self.found.races]:
            del self.race_signs[name]
            self.number += 1
            self.race_changed[name] = self.number
        while len(self.gone) > MOST_GONE:
            del self.gone[next(iter(self.gone))]

    def _look_at(self, name: str, place: Place) -> None:
        signatures = tuple(sign(place.path / file) for file in FILES)
        locked = is_locked(place.path)
        kept = self.kept.get(name)
        if kept is not None and (kept.signatures, kept.locked, kept.place) == (signatures, locked, place):
            return
        run = read_run(name, place, signatures, locked=locked, before=kept)
        same = kept is not None and kept.run == run
        if not same:
            self.number += 1
        changed = kept.changed if kept is not None and same else self.number
        self.kept[name] = Kept(place, signatures, locked, run, changed)
        self.gone.pop(name, None)

    def _look_at_race(self, name: str, place: Place) -> None:
        signs = sign(place.path / "race.json"), sign(place.path / "results.jsonl")
        if self.race_signs.get(name) != signs:
            self.number += 1
            self.race_signs[name], self.race_changed[name] = signs, self.number

    def changes(self, cursor: str = "") -> Changes:
        """What is new since the cursor; everything where it is none of ours."""
        self.look()
        with self.lock:
            epoch, _, text = cursor.partition(".")
            since = int(text) if epoch == self.epoch and text.isascii() and text.isdecimal() and len(text) < 16 else -1
            oldest = min(self.gone.values(), default=0) if len(self.gone) >= MOST_GONE else 0
            everything = since < oldest or since > self.number
            since = -1 if everything else since
            runs = [kept.run for kept in self.kept.values() if kept.run is not None and kept.changed > since]
            gone = [] if everything else [name for name, number in self.gone.items() if number > since]
            races = [name for name, number in self.race_changed.items() if number > since]
            return Changes(f"{self.epoch}.{self.number}", runs, gone, everything, races)

    def runs(self) -> list[Run]:
        self.look()
        with self.lock:
            return [kept.run for kept in self.kept.values() if kept.run is not None]

    def run(self, name: str) -> tuple[Run, Path] | None:
        """A run by its name, with its folder; None for a name that is none."""
        with self.lock:
            kept = self.kept.get(name)
            return (kept.run, kept.place.path) if kept is not None and kept.run is not None else None

    def race(self, name: str) -> Path | None:
        """The folder of a race by its name."""
        with self.lock:
            place = self.found.races.get(name)
            return None if place is None else place.path


def read_run(
    name: str, place: Place, signatures: Sequence[Signature | None], *, locked: bool, before: Kept | None = None
) -> Run | None:
    """The row of a run; None where its files are none of a run, or links to somewhere else."""
    config, _, model, best, last, _ = signatures
    if config is None or config[1] > MOST_CONFIG or any(_is_link(place.path / file) for file in FILES):
        return None
    tail = read_tail(place.path / "metrics.jsonl")
    try:
        if before is not None and before.run is not None and before.signatures[:-1] == tuple(signatures[:-1]):
            run = Run(**asdict(before.run))  # only its metrics grew
        else:
            run = _describe(name, place, tail)
    except (OSError, RecollectError, ValueError, TypeError):
        return None
    row = next((row for row in reversed(tail) if "loss" in row), tail[-1] if tail else {})
    run.step, run.tokens, run.seconds = int(row["step"]) if row else None, row.get("tokens"), row.get("seconds")
    run.loss = row.get("loss")
    weights = any(signature is not None for signature in (model, best, last))
    run.state = "running" if locked else "finished" if model is not None else "stopped" if weights or row else "begun"
    if run.value is None and model is None:
        run.value = min((row["valid"] for row in tail if isinstance(row.get("valid"), int | float)), default=None)
    return run


def _is_link(path: Path) -> bool:
    return path.is_symlink() or (path.parent.name == "checkpoints" and path.parent.is_symlink())


def _describe(name: str, place: Place, tail: Sequence[dict[str, Any]]) -> Run:
    entry = read_entry(place.path, name, tail)
    train = read_json(place.path / "config.json", MOST_CONFIG).get("train", {})
    steps = train.get("steps")
    if all(train.get(budget) is None for budget in ("steps", "tokens", "seconds", "flops")):
        steps = 1_000  # as training.settings has it
    return Run(
        id=name, name=name.rpartition("/")[2], race=place.race, task=entry.task, model=entry.model, data=entry.data,
        metric=entry.metric, value=entry.value, params=entry.params, bytes=entry.bytes, date=entry.date,
        steps=steps if isinstance(steps, int) else None,
    )  # fmt: skip
