"""The run of a race: every entry of every heat that has no row in results.jsonl yet, several at a time.

A finished entry is a row there, so a stopped race goes on with the entries that it lacks. A failed entry is a row with
its error, and the others go on.
"""

import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core import numbers
from ..core.errors import RecollectError
from ..core.files import locked, remove_leftovers, write_aside
from ..core.heat import Entrant, Heat
from ..core.settings import SettingError
from ..core.sharing import share_command
from ..training.folder import RunFolder
from ..training.progress import Progress, format_seconds
from . import search
from .entry import Entry, configure, failed, folder_of, race
from .notes import write_notes, write_progress
from .parts import WHOLE, Part
from .processes import Died, Task, count_cores
from .rows import RACE, ROWS, Row, read_race, read_rows
from .summary import mark_unfair, note_standings
from .terms import Terms, own_layers, task_of
from .workers import Local, Workers

SCHEMA = 1
LEAST_SHARE = 0.02  # of a race that must be done before the time left can be estimated
MOST_TRAININGS = 10_000  # of a race, trials of rates included
MOST_BUDGET = {"params": 1e9, "tokens": 1e15, "flops": 1e27, "seconds": 1e8}  # of one training; params: in steps


class Stopped(RecollectError):
    """The user stopped the race; what was finished is kept."""


def run(
    heats: Sequence[Heat],
    terms: Terms,
    out: Path,
    *,
    title: str,
    command: str,
    workers: Workers | None = None,
    part: Part = WHOLE,
    progress: Progress | None = None,
) -> list[Row]:
    """Run the entries that have no row yet. Returns all rows; race.json and results.jsonl hold them too."""
    progress, workers = progress or Progress(quiet=True), workers or Local()
    check_cost(heats, terms, workers)
    heats = [terms.of(heat) for heat in heats]
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: expected a folder for the race, found a file; use another --out")
    out.mkdir(parents=True, exist_ok=True)
    busy = f"{out}: expected a folder that no other race writes to, found one in use; wait for it, or use another --out"
    with locked(out, wait=False, busy=busy):
        remove_leftovers(out)
        return _run(heats, terms, out, title, command, workers, part, progress)


def _run(
    heats: Sequence[Heat],
    terms: Terms,
    out: Path,
    title: str,
    command: str,
    workers: Workers,
    part: Part,
    progress: Progress,
) -> list[Row]:
    about = {"schema": SCHEMA, "title": title, "command": share_command(command)}
    about["heats"] = [describe(heat, terms) for heat in heats]
    for heat, content in zip(heats, about["heats"], strict=True):
        content["entries"] = list_entries(heat, terms, out)
    rows = {key_of(row): row for row in _load_rows(out, about)}
    _write_json(out / RACE, about)
    entries = [
        Entry(heat=heat, terms=terms, entrant=entrant, seed=seed, folder=folder_of(out, heat, entrant, seed))
        for heat in heats
        for entrant in heat.entrants()
        for seed in range(_seeds_of(heat, entrant, terms))
    ]
    own = part.select(entries)
    missing = [entry for entry in own if "error" in rows.get(entry.key, {"error": ""})]
    _check_data(missing, progress)
    with _stop_gently(command, rows, own):
        found = search.rates_for(entries, list(rows.values()), out, own=own, workers=workers, progress=progress)
        ready = [replace(entry, **found[entry.key[:2]]) for entry in missing]
        if ready:
            at_once = min(len(ready), workers.jobs)
            progress.say(f"{len(ready)} of {len(own)} entries to run, {at_once} at a time; Ctrl-C keeps what is done")
        for entry, row in _run_entries(ready, workers, progress):
            rows[entry.key] = row | {"command": share_command(command)}
            _write_rows(out, entries, rows)
    for heat in heats:
        own = [row for row in rows.values() if row["heat"] == heat.name]
        mark_unfair(own, heat.params)
        note_standings(describe(heat, terms), own)
    ordered = _write_rows(out, entries, rows)
    about["heats"] = [
        content | {"notes": write_notes(heat, [row for row in ordered if row["heat"] == heat.name])}
        for heat, content in zip(heats, about["heats"], strict=True)
    ]
    _write_json(out / RACE, about)
    return ordered


def _seeds_of(heat: Heat, entrant: Entrant, terms: Terms) -> int:
    """How often an entrant runs: what is counted is the same with every seed."""
    return 1 if entrant.model in task_of(heat).counted else terms.seeds


def check_cost(heats: Sequence[Heat], terms: Terms, workers: Workers) -> None:
    """Refuse a race that nobody could wait for, with what it would take."""
    entrants = [(heat, entrant) for heat in heats for entrant in heat.entrants()]
    trials = len(entrants) * (terms.search or 0)
    trainings = trials + sum(_seeds_of(heat, entrant, terms) for heat, entrant in entrants)
    if trainings > MOST_TRAININGS:
        raise SettingError(
            f"race: expected at most {MOST_TRAININGS:,} trainings, found {trainings:,} (models: {len(entrants):,}, "
            f"--seeds: {terms.seeds:,}, trials of rates: {trials:,}); lower --seeds, --search or --models"
        )
    most = MOST_BUDGET[terms.equal]
    if terms.budget is not None and terms.budget > most:
        unit = "steps" if terms.equal == "params" else terms.equal
        raise SettingError(
            f"--budget: expected at most {most:g} {unit} for each training, found {terms.budget:g} for each of "
            f"{trainings:,} trainings; lower it"
        )
    jobs = workers.jobs
    if isinstance(workers, Local) and jobs > (bound := max(64, 4 * count_cores())):
        raise SettingError(
            f"--jobs: expected at most {bound} entries at a time, each a process with its own model and data, on "
            f"this machine of {count_cores()} cores, found {jobs:,}; lower it"
        )


def _check_data(entries: Sequence[Entry], progress: Progress) -> None:
    """Refuse wrong settings and data before anything runs, and fill the cache of the data once.

    What breaks in a layer of the user's own is left to its entry, so that the others run.
    """
    seen = set()
    for entry in entries:
        task = task_of(entry.heat)
        try:
            settings = configure(entry)
        except SettingError:
            raise
        except Exception:  # code of the user's own may raise anything
            if entry.entrant.model not in own_layers():
                raise
            continue
        if entry.heat.name not in seen:
            seen.add(entry.heat.name)
            data = task.load_data(settings.data, entry.terms.data_dir)
            progress.say(f"{entry.heat.name}: {task.summarize_data(data)}")


def describe(heat: Heat, terms: Terms) -> dict[str, Any]:
    """A heat for race.json."""
    rungs = [{"name": rung.name, "model": rung.model, "change": rung.change} for rung in heat.rungs]
    return {
        "name": heat.name,
        "task": heat.task,
        "title": heat.title,
        "question": heat.question,
        "metric": heat.metric.to_json(),
        "learning": heat.validation.to_json(),
        "terms": terms.to_json(heat),
        "ladder": heat.ladder,
        "rungs": rungs or None,
        "notes": [],
    }


def list_entries(heat: Heat, terms: Terms, out: Path) -> list[dict[str, Any]]:
    """Every entry that a heat will have a row for, so that whoever watches the race knows what is still to come."""
    return [
        {"entry": entrant.label, "seed": seed, "run": folder_of(out, heat, entrant, seed).relative_to(out).as_posix()}
        for entrant in heat.entrants()
        for seed in range(_seeds_of(heat, entrant, terms))
    ]


def key_of(row: Row) -> tuple[str, str, int]:
    return row["heat"], row["entry"], row["seed"]


def _run_entries(entries: Sequence[Entry], workers: Workers, progress: Progress) -> Iterator[tuple[Entry, Row]]:
    """Each entry with its row as it ends; the last starts first, since later models cost more."""
    began, done = time.monotonic(), 0
    tasks = [Task(number, race, entry) for number, entry in reversed(list(enumerate(entries)))]

    def tick(running: Sequence[Task]) -> None:
        if progress.due() and running:
            ahead = [_progress_of(entries[task.number]) for task in running]
            names = [entries[task.number].entrant.label for task in running]
            fields = {name: words for name, (_, words) in zip(names, ahead, strict=True)}
            share = (done + sum(part for part, _ in ahead)) / len(entries)
            share = share if share >= LEAST_SHARE else 0.0
            progress.show({"entries": f"{done}/{len(entries)}", **fields}, share, time.monotonic() - began)

    for task, row in workers.run(tasks, tick):
        entry = entries[task.number]
        if row is None:
            raise KeyboardInterrupt
        done += 1
        row = failed(entry, row.reason) if isinstance(row, Died) else row
        took = format_seconds(time.monotonic() - began)
        progress.say(f"[{done}/{len(entries)}] {took}  {write_progress(entry.heat, row)}")
        yield entry, row


def _progress_of(entry: Entry) -> tuple[float, str]:
    """The share of its steps that a running entry has done, and a description."""
    rows = [row for row in RunFolder(entry.folder).metrics() if "loss" in row]
    if not rows:
        return 0.0, "starting"
    step = rows[-1]["step"]
    share = min(1.0, step / entry.steps) if entry.terms.equal == "params" else 0.0
    return share, f"step {step:,}, loss {rows[-1]['loss']:.3f}"


@contextmanager
def _stop_gently(command: str, rows: dict[Any, Row], entries: Sequence[Entry]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the race with a line that says how to resume it."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread
        before = None
    try:
        yield
    except KeyboardInterrupt:
        done = sum("error" not in rows.get(entry.key, {"error": ""}) for entry in entries)
        raise Stopped(
            f"stopped with {done} of {len(entries)} entries done and kept; go on with the same command: {command}"
        ) from None
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _load_rows(out: Path, about: dict[str, Any]) -> list[Row]:
    """The rows of an earlier, stopped race on the same terms; a race on other terms is refused if it has results.

    An entry whose value is no number runs again.
    """
    if not (out / ROWS).exists():
        return []
    then, now = ({heat["name"]: heat["terms"] for heat in one["heats"]} for one in (read_race(out), about))
    rows = [row for row in read_rows(out) if "error" in row or numbers.known(row["metric"]["value"])]
    problem = _difference(then, json.loads(json.dumps(now)))
    if problem is None:
        return rows
    if all("error" in row for row in rows) and not search.load_searches(out):
        return []
    raise ValueError(f"{out}: {problem}; use another --out")


def _difference(then: dict[str, Any], now: dict[str, Any]) -> str | None:
    """The first difference between the terms of an earlier race, by heat, and those given."""
    if list(then) != list(now):
        return f"expected a race with the heats {', '.join(now)}, found {', '.join(then)}"
    for name, terms in now.items():
        other = [f"{key} {then[name].get(key)}" for key in terms if then[name].get(key) != terms[key]]
        if other:
            return f"expected a race on the same terms to go on with, found one with {', '.join(other)}"
    return None


def _write_rows(out: Path, entries: Sequence[Entry], rows: dict[Any, Row]) -> list[Row]:
    """Write results.jsonl in the order of the entries; rows of entries that are no longer asked for come last."""
    order = [entry.key for entry in entries if entry.key in rows]
    ordered = [rows[key] for key in (*order, *(key for key in rows if key not in order))]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ordered)
    write_aside(out / ROWS, text.encode())
    return ordered


def _write_json(path: Path, content: Any) -> None:
    write_aside(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
