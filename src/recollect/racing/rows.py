"""The files of a race: their declared shape, checked where they are read. This module imports no torch.

race.json says what was asked, results.jsonl has a row for each entry and seed, search.json what searches found.
Anybody may have written them, so that whatever does not fit is refused in a line that names the file and the key.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from ..core.files import FileError, read_file, read_json
from ..core.sharing import share
from ..core.typed import Infinite, TypeMismatch, check_bounds, read

RACE, ROWS, SEARCHES = "race.json", "results.jsonl", "search.json"
MOST_BYTES = 1 << 28  # of a file
Row = dict[str, Any]
Number = float | None  # None: not measured, or no number
COUNTS = (  # keys whose numbers are never below 0
    "seed", "params", "entries", "tokens", "flops", "seconds", "peak_bytes", "state_bytes", "length", "steps", "batch",
    "budget", "lr", "rate", "share",
)  # fmt: skip
NAMES = ("heat", "entry", "rung", "model", "name", "label", "unit", "title", "task", "ladder", "split")
SHARED = ("command", "data", "error", "settings", "run", "notes", "terms")  # keys whose texts may name a place


class MetricShape(TypedDict):
    name: str
    label: NotRequired[str]
    better: Literal["higher", "lower"]
    unit: NotRequired[str]


class Asked(TypedDict):
    """The terms of a heat."""

    params: NotRequired[int | None]
    steps: NotRequired[int | None]
    batch: NotRequired[int | None]
    equal: NotRequired[str]
    budget: NotRequired[float | None]
    settings: NotRequired[dict[str, str]]
    data: NotRequired[dict[str, str | list[str] | None]]
    device: NotRequired[str]


class RungShape(TypedDict):
    name: str
    model: NotRequired[str]
    change: NotRequired[str]


class EntryShape(TypedDict):
    """An entry that a heat will have a row for; `run` is its folder, below that of the race."""

    entry: str
    seed: int
    run: NotRequired[str]


class HeatShape(TypedDict):
    name: str
    task: NotRequired[str]
    title: NotRequired[str]
    question: NotRequired[str | None]
    metric: MetricShape
    learning: NotRequired[MetricShape | None]
    terms: Asked
    ladder: NotRequired[str | None]
    rungs: NotRequired[list[RungShape] | None]
    entries: NotRequired[list[EntryShape]]
    notes: NotRequired[list[str]]


class RaceShape(TypedDict):
    """race.json"""

    title: NotRequired[str]
    command: NotRequired[str]
    heats: list[HeatShape]


class Trial(TypedDict):
    """One rate of a search; no value: it failed."""

    rate: float
    value: Number
    way: NotRequired[Number]
    seconds: NotRequired[float]
    tokens: NotRequired[float]
    flops: NotRequired[float]
    error: NotRequired[str]


class SearchShape(TypedDict):
    lr: float
    share: NotRequired[float]
    tried: list[Trial]
    seconds: float
    tokens: NotRequired[float]
    flops: NotRequired[float]


class FailedRow(TypedDict):
    """The row of an entry that has no result."""

    heat: str
    entry: str
    seed: int
    error: str
    rung: NotRequired[str | None]
    model: NotRequired[str]
    task: NotRequired[str]
    unfair: NotRequired[list[str]]
    command: NotRequired[str]


class Value(TypedDict):
    value: float | Infinite | None
    name: NotRequired[str]
    rule: NotRequired[str]


class Fair(TypedDict):
    """What must be the same for all entries of a heat."""

    data: NotRequired[str | None]
    tokenizer: NotRequired[str | None]
    batch: NotRequired[int | None]
    search: NotRequired[str | None]  # how the learning rate was sought; None: unknown, or there is none


class TrainSettings(TypedDict):
    lr: float


class RowSettings(TypedDict):
    train: TrainSettings


class Written(TypedDict):
    """A text that a model went on with."""

    prompt: NotRequired[str | None]
    text: NotRequired[str | None]


class Answer(TypedDict):
    source: NotRequired[str | None]
    reference: NotRequired[str | None]
    output: NotRequired[str | None]
    right: NotRequired[bool]


class Gradient(TypedDict):
    distance: list[int]
    norm: list[Number]


class Cost(TypedDict):
    length: int
    flops: float
    state_bytes: float


class LeadShape(TypedDict):
    """By how much the first is ahead: the mean, and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float
    number: int
    over: str


class StandingShape(TypedDict):
    """Where an entrant stands: won, first, level with the first, behind it, or unknown."""

    place: int
    verdict: str
    below_guess: bool
    behind: LeadShape | None


class FinishedRow(TypedDict):
    """The row of an entry that was trained and measured; a row may hold other keys of its task beside these."""

    heat: str
    entry: str
    seed: int
    model: str
    metric: Value
    params: int | None
    tokens: Number
    flops: Number
    seconds: Number
    state_bytes: Number
    unfair: list[str]
    settings: RowSettings
    baselines: dict[str, Number]
    data: str
    fair: Fair
    rung: NotRequired[str | None]
    task: NotRequired[str]
    split: NotRequired[str]
    entries: NotRequired[int | None]
    peak_bytes: NotRequired[Number]
    learning: NotRequired[list[tuple[int, Number, Number, Number]]]
    by_position: NotRequired[list[Number] | None]
    sample: NotRequired[Written | list[Answer] | None]
    gradient: NotRequired[Gradient | None]
    costs: NotRequired[list[Cost]]
    cost_problem: NotRequired[str]
    pieces: NotRequired[list[float]]
    standing: NotRequired[StandingShape | None]
    card: NotRequired[dict[str, str] | None]
    search: NotRequired[SearchShape | None]
    all_at_once: NotRequired[Number]
    step_by_step: NotRequired[Number]
    uniform: NotRequired[Number]
    chance: NotRequired[Number]
    floor: NotRequired[Number]
    error: NotRequired[float]  # the share that is wrong, of tests of memory
    commit: NotRequired[str]
    command: NotRequired[str]
    machine: NotRequired[dict[str, str | float | None]]
    run: NotRequired[str]


def check_row(row: Any) -> None:
    """Refuse what is no row of a race."""
    failed = isinstance(row, dict) and isinstance(row.get("error"), str)
    read(row, FailedRow if failed else FinishedRow)
    check_bounds(row, "", counts=COUNTS, names=NAMES)
    gradient = row.get("gradient")
    if not failed and gradient and len(gradient["distance"]) != len(gradient["norm"]):
        lengths = f"{len(gradient['distance'])} and {len(gradient['norm'])}"
        raise TypeMismatch(f"gradient: expected distance and norm of one length, found {lengths}")


def is_failed(row: Row) -> bool:
    """Whether a row says why its entry has no result."""
    return isinstance(row.get("error"), str)


def read_race(folder: Path) -> dict[str, Any]:
    """What a race was asked."""
    path = folder / RACE
    try:
        race = read_json(path, MOST_BYTES)
    except FileNotFoundError:
        raise FileError(
            f"{folder}: expected a race's folder with {RACE} in it, found none; name the --out of a race"
        ) from None
    try:
        read(race, RaceShape)
        check_bounds(race, "", counts=COUNTS, names=NAMES)
        names = [heat["name"] for heat in race["heats"]]
        if not names or not all(names) or len(set(names)) < len(names):
            raise TypeMismatch(f"heats: expected heats with a name of their own each, found {len(names)}")
    except TypeMismatch as error:
        raise FileError(
            f"{path}: expected what a race was asked, with its heats, found something else ({error}); mend that "
            "value, or race into another --out"
        ) from None
    return _share(race) | {"heats": [_share(heat) for heat in race["heats"]]}


def read_rows(folder: Path) -> list[Row]:
    """The rows of the entries that have ended; none where none has."""
    path = folder / ROWS
    if not path.exists():
        return []
    return [_share(row) for row in _checked_lines(path)]


def _checked_lines(path: Path) -> Iterator[Row]:
    for number, line in enumerate(read_file(path, MOST_BYTES).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            check_row(row)
        except (ValueError, RecursionError) as error:
            raise FileError(
                f"{path}, line {number}: expected a row of a race, found none ({error}); delete that line and its "
                "entry runs again"
            ) from None
        yield row


def read_searches(folder: Path) -> dict[str, dict[str, Any]]:
    """What searches of rates found, by heat and label; nothing where none was made."""
    path = folder / SEARCHES
    if not path.exists():
        return {}
    try:
        found = read_json(path, MOST_BYTES)
        read(found, dict[str, SearchShape])
        check_bounds(found, "", counts=COUNTS, names=NAMES)
    except TypeMismatch as error:
        raise FileError(
            f"{path}: expected what searches found, found something else ({error}); delete that file and the "
            "searches are made again"
        ) from None
    return found


def _share(content: dict[str, Any]) -> dict[str, Any]:
    """The same without the places of a machine, which files of older versions have."""
    return {key: share(value, key) if key in SHARED else value for key, value in content.items()}
