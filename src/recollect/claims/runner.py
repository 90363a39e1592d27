"""Runs claims one after the other; each is a row in claims.jsonl, so that a stopped run goes on with what it lacks."""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import torch

from ..core import typed
from ..core.chart import check_chart
from ..core.files import check_place, locked, read_file, remove_leftovers, write_aside
from ..core.limits import one_line
from ..core.sharing import share_text
from ..training.folder import commit, machine
from ..training.loop import Interrupted
from ..training.progress import format_seconds
from . import code_of, load, names
from .claim import Claim, Effort
from .laboratory.watch import watched

SCHEMA = 1
FILE = "claims.jsonl"
MOST_BYTES = 1 << 28  # of the file
FAILED = "failed"  # in place of a verdict


def run(wanted: Sequence[str], effort: Effort, out: Path, say: Callable[[str, str], None]) -> list[dict[str, Any]]:
    """Judge every claim of `wanted` that `out` does not hold yet. Returns all rows of `out`, in the order of `names`.

    A claim whose experiment breaks is a row that says so, and is tried again by the next run. `say` is given a text and
    what ends it: each claim's line is begun before its experiment and ended after it, with the progress between.
    """
    out.mkdir(parents=True, exist_ok=True)
    busy = f"{out}: expected a folder that no other run of claims writes to, found one in use; use another --out"
    with locked(out, wait=False, busy=busy):
        remove_leftovers(out)
        return _run(wanted, effort, out, say)


def _run(wanted: Sequence[str], effort: Effort, out: Path, say: Callable[[str, str], None]) -> list[dict[str, Any]]:
    check_place(out / FILE)
    rows = {row["id"]: row for row in read(out / FILE)}
    spent = tried = 0.0
    for number, name in enumerate(wanted, 1):
        head, before = f"[{number}/{len(wanted)}] {name}: ", rows.get(name)
        say(head, "")
        with watched(head, say):
            row = _try(name, effort, before)
        if row is before:
            say(f"{row['verdict']} (already in {out / FILE})", "\n")
            continue
        rows[name] = row
        _save(out, rows)
        spent, tried = spent + row["seconds"], tried + 1
        left = f", about {format_seconds(spent / tried * (len(wanted) - number))} left" if number < len(wanted) else ""
        problem = f" ({row['summary']})" if row["verdict"] == FAILED else ""
        say(f"{row['verdict']}{problem}, {row['seconds']:.1f} s{left}", "\n")
    return [rows[name] for name in _ordered(rows)]


class RowShape(TypedDict):
    """A row of claims.jsonl."""

    id: str
    statement: str
    verdict: str
    summary: str
    seconds: float
    figures: dict[str, Any]
    charts: list[Any]
    sources: NotRequired[list[str]]
    experiment: NotRequired[str]
    decided: NotRequired[str]
    note: NotRequired[str]
    deterministic: NotRequired[bool]
    effort: NotRequired[str]
    device: NotRequired[str]
    seeds: NotRequired[int | None]
    chapter: NotRequired[int | None]
    code: NotRequired[str]
    commit: NotRequired[str]
    machine: NotRequired[dict[str, str | float | None]]


def check_row(row: Any) -> None:
    """Refuse what is no row of a claim."""
    typed.read(row, RowShape)
    typed.check_bounds(
        row, counts=("seconds", "seeds", "chapter"), names=("id", "verdict", "name", "x", "title", "level_name")
    )
    for number, chart in enumerate(row["charts"]):
        check_chart(chart, f"charts[{number}]")


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of an earlier run."""
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(read_file(path, MOST_BYTES).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            check_row(row)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path}, line {number}: expected the row of a claim, found something else ({error}); remove the line"
            ) from None
        rows.append(row)
    return rows


def _save(out: Path, rows: dict[str, dict[str, Any]]) -> None:
    lines = [json.dumps(rows[name], ensure_ascii=False, allow_nan=False) + "\n" for name in _ordered(rows)]
    write_aside(out / FILE, "".join(lines).encode())


def _ordered(rows: dict[str, dict[str, Any]]) -> list[str]:
    known = names()
    return sorted(rows, key=lambda name: (known.index(name) if name in known else len(known), name))


def _stands(row: dict[str, Any] | None, head: dict[str, Any]) -> bool:
    """Whether a row still answers the question: the same claim, decided in the same way, at the same effort."""
    if row is None or row["verdict"] == FAILED:
        return False
    return all(row.get(key) == head[key] for key in ("experiment", "decided", "code", "effort", "device", "seeds"))


def _head(name: str, claim: Claim, effort: Effort) -> dict[str, Any]:
    """What is known of a row before its experiment."""
    how = {"effort": "full" if effort.full else "quick", "device": effort.device, "seeds": effort.seeds}
    return {"schema": SCHEMA} | words(claim) | how | {"code": code_of(name, effort.full)}


def words(claim: Claim) -> dict[str, Any]:
    """What a row says of a claim, whatever was found."""
    return {key: value for key, value in asdict(claim).items() if key != "run"} | {"sources": list(claim.sources)}


def _try(name: str, effort: Effort, before: dict[str, Any] | None) -> dict[str, Any]:
    """The row of a claim: that of an earlier run where it still stands."""
    torch.manual_seed(0)
    started = time.perf_counter()
    row: dict[str, Any] = {"schema": SCHEMA, "id": name, "statement": "", "figures": {}, "charts": []}
    try:
        claim = load(name)
        row |= _head(name, claim, effort)
        if before is not None and _stands(before, row):
            return before
        found = claim.run(effort)
        row |= {
            "verdict": found.verdict.value,
            "summary": found.summary,
            "figures": _finite(found.figures),
            "charts": [_finite(chart.to_json()) for chart in found.charts],
        }
    except Interrupted as error:
        raise Interrupted(f"stopped while {name} ran; the same command goes on with it") from error
    except Exception as error:  # whatever breaks one experiment is no reason to give the others up
        reason = share_text(one_line(" ".join(str(error).split()))) or "no reason given"
        row |= {"verdict": FAILED, "summary": f"{type(error).__name__}: {reason}"}
    return row | {"seconds": time.perf_counter() - started, "commit": commit(), "machine": machine()}


def _finite(value: Any) -> Any:
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
