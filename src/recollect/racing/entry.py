"""One entry of a heat: trained as any run is, then measured; its run folder stays and is a run like any other."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite, log10
from pathlib import Path
from re import sub
from statistics import fmean
from typing import Any

import torch

from ..core.heat import Entrant, Heat
from ..core.inspection import finite
from ..core.limits import one_line
from ..core.sharing import share_text
from ..core.task import RunConfig, RunError
from ..training import evaluation
from ..training import run as runs
from ..training.folder import RunFolder
from ..training.loop import Interrupted
from . import evidence
from .rows import check_row
from .terms import Terms, accepted, task_of

EVALUATIONS = 10  # evaluations on the way
SHOWN = 40  # of them, at most, in a row
SCHEMA = 1
WITHOUT_COST: dict[str, Any] = {"flops": None, "state_bytes": None, "costs": []}  # where what is declared is not so


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One run of a heat: entrant, terms, rate, seed and folder."""

    heat: Heat
    terms: Terms
    entrant: Entrant
    seed: int
    folder: Path
    lr: float | None = None
    search: Mapping[str, Any] | None = None  # what finding the rate took
    sought: str | None = None  # how the rate was sought, in words; None for what has no rate
    share: float = 1.0  # of the budget, for a trial of a rate

    @property
    def key(self) -> tuple[str, str, int]:
        return self.heat.name, self.entrant.label, self.seed

    @property
    def steps(self) -> int:
        return max(1, round(self.heat.steps * self.share))


def folder_of(out: Path, heat: Heat, entrant: Entrant, seed: int) -> Path:
    slug = sub(r"[^a-z0-9]+", "-", entrant.label.lower()).strip("-")
    place = f"{[c.label for c in heat.entrants()].index(entrant.label) + 1}-" if heat.rungs else ""
    return out / "runs" / f"{heat.name}-{place}{slug}-{seed}"


def configure(entry: Entry) -> RunConfig:
    """The run of an entry: the heat's settings, the entrant's own, and the budget."""
    heat = entry.heat
    every = max(1, entry.steps // EVALUATIONS)
    texts = {
        "warmup": str(max(1, entry.steps // 10)),
        "eval_every": str(every),
        "save_every": str(10**9),
        "log_every": str(max(1, every // 2)),
        "seed": str(entry.seed),
    }
    texts |= _budget(entry)
    if entry.lr is not None:
        texts["lr"] = f"{entry.lr:g}"
    texts |= accepted(heat, entry.entrant.model, {**heat.settings, **entry.entrant.settings})
    return runs.configure(task_of(heat), texts, model=entry.entrant.model, **heat.data)


def _budget(entry: Entry) -> dict[str, str]:
    """Where a run ends."""
    if entry.terms.equal == "params":
        return {"steps": str(entry.steps)}
    assert entry.terms.budget is not None
    return {entry.terms.equal: f"{entry.terms.budget * entry.share:.17g}"}


def train(entry: Entry) -> dict[str, Any]:
    """Train an entry into its folder; what an earlier, stopped try left there goes first."""
    heat, terms, task = entry.heat, entry.terms, task_of(entry.heat)
    shutil.rmtree(entry.folder, ignore_errors=True)
    run = configure(entry)
    if entry.entrant.model in task.counted and terms.equal == "params":
        seen = entry.steps * run.task.batch * getattr(run.task, "context", 1)
        run = replace(run, train=replace(run.train, tokens=float(seen)))  # as many as the others read
    sized = entry.entrant.model not in task.unsized
    params = heat.params if sized else None
    given = {"device": terms.device, "data_dir": terms.data_dir, "log": terms.log}
    return runs.train(task, run, str(entry.folder), params=params, **given)


def race(entry: Entry) -> dict[str, Any] | None:
    """The row of an entry, or of its failure; None where the user stopped it."""
    torch.set_num_threads(1)  # the same bits however many entries run beside it
    try:
        train(entry)
        row = _row(entry)
        json.dumps(row)
        check_row(row)  # what is written can be read again
    except Interrupted:
        return None
    except (Exception, SystemExit) as error:  # a layer of the user's own may fail in any way
        return failed(entry, error_line(error))
    shutil.rmtree(entry.folder / "checkpoints", ignore_errors=True)
    return row


def _row(entry: Entry) -> dict[str, Any]:
    heat, terms = entry.heat, entry.terms
    path = str(entry.folder)
    split = runs.load(path, terms.device, data_dir=terms.data_dir).task.reported
    row = evaluation.result(path, split=split, device=terms.device, data_dir=terms.data_dir, pieces=True)
    row |= evidence.collect(heat, path, terms.device, terms.data_dir)
    row.pop("error", None)  # the share that is wrong, of tests of memory; in a row of a race it means failure
    rule, value = heat.metric.rule or row["metric"]["rule"], heat.metric.of(row)
    if not isfinite(value):
        raise ValueError(f"{heat.metric.label}: expected a number at the end of training, found {value}")
    row["metric"] = {"name": heat.metric.name, "value": value, "rule": rule}
    guesses = dict(row["baselines"])
    floor = guesses.pop(heat.floor, None) if heat.floor else None
    config = RunFolder.open(path).config()
    wrong = row.pop("cost_problem")
    return finite(
        _named(entry)
        | row
        | (WITHOUT_COST | {"cost_problem": wrong} if wrong else {})
        | {
            "baselines": guesses,
            "floor": floor,
            "pieces": row.get("pieces", {}).get(heat.metric.name, []),
            "learning": _thinned([[*point[:3], _as_shown(heat, point[3])] for point in row["learning"]]),
            "by_position": row.get("by_position") or row.get("forced", {}).get("by_position"),
            "fair": {
                "data": config["corpus"]["fingerprint"],
                "tokenizer": evidence.describe_tokenizer(config),
                "batch": config[heat.task].get("batch"),
                "search": entry.sought,
            },
            "unfair": ["cost"] if wrong else [],
            "search": entry.search,
            "run": f"runs/{entry.folder.name}",
        }
    )


def error_line(error: BaseException) -> str:
    """An error in one line; by its kind too, where it is none of those that are raised with a sentence."""
    words = share_text(one_line(" ".join(str(error).split())))
    if words and isinstance(error, ValueError | RuntimeError | OSError):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def failed(entry: Entry, error: str) -> dict[str, Any]:
    """The row of an entry that has none."""
    short = any(words in error for words in ("out of memory", "allocate memory", "MemoryError"))
    own = {"schema": SCHEMA, "task": entry.heat.task, "model": entry.entrant.model, "seed": entry.seed}
    return own | _named(entry) | {"error": error, "unfair": ["memory"] if short else []}


def _named(entry: Entry) -> dict[str, Any]:
    return {"heat": entry.heat.name, "rung": entry.entrant.rung, "entry": entry.entrant.label}


def _as_shown(heat: Heat, value: float) -> float:
    """What validation watches is an error where the heat speaks of the share that is right."""
    return 1 - value if heat.validation.better == "higher" else value


def _thinned(points: list[Any]) -> list[Any]:
    every = -(-len(points) // SHOWN)
    return points if every <= 1 else points[::-1][::every][::-1]


def try_rate(entry: Entry) -> dict[str, Any] | None:
    """What one rate is worth after a share of the budget: the best validation, None where it did not last.

    `way` is the mean of validation on the way there.
    """
    torch.set_num_threads(1)
    found = nothing(entry)
    try:
        train(entry)
    except Interrupted:
        return None
    except (Exception, SystemExit) as error:
        found["error"] = error_line(error)
    try:
        rows = RunFolder.open(entry.folder).metrics()
    except RunError:
        rows = []
    if "error" not in found:
        valid = [row["valid"] for row in rows if "valid" in row]
        found |= {"value": min(valid), "way": fmean(valid)}
    for row in rows:
        found |= {name: row[name] for name in ("seconds", "tokens", "flops") if name in row}
    shutil.rmtree(entry.folder, ignore_errors=True)
    return found


def nothing(entry: Entry) -> dict[str, Any]:
    """A trial that has not begun."""
    return {"rate": entry.lr, "value": None, "way": None, "seconds": 0.0, "tokens": 0, "flops": 0.0}


def grid(count: int) -> list[float]:
    """So many rates around 3e-3, each √10 times the one before: 1e-3, 3e-3, 1e-2 for three."""
    half = (count - 1) / 2
    exponents = [log10(10**-2.5) + (i - half) / 2 for i in range(count)]
    return [float(f"{10**e:.0e}") for e in exponents]
