"""Runs claims one after the other; each is a row in claims.jsonl, so that a stopped run goes on with what it lacks."""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ..core.files import write_aside
from ..train.folder import commit, machine
from ..train.loop import Interrupted
from ..train.progress import format_seconds
from . import load, names
from .claim import Claim, Effort

SCHEMA = 1
FILE = "claims.jsonl"
FAILED = "failed"  # in place of a verdict


def run(wanted: Sequence[str], effort: Effort, out: Path, say: Callable[[str, str], None]) -> list[dict[str, Any]]:
    """Judge every claim of `wanted` that `out` does not hold yet. Returns all rows of `out`, in the order of `names`.

    A claim whose experiment breaks is a row that says so, and is tried again by the next run. `say` is given a text and
    what ends it: each claim's line is begun before its experiment and ended after it.
    """
    out.mkdir(parents=True, exist_ok=True)
    rows = {row["id"]: row for row in read(out / FILE)}
    spent = tried = 0.0
    for number, name in enumerate(wanted, 1):
        say(f"[{number}/{len(wanted)}] {name}: ", "")
        before, row = rows.get(name), _try(name, effort, rows.get(name))
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


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of an earlier run."""
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not {"id", "verdict", "seconds"} <= set(row):
            raise ValueError(
                f"{path}, line {number}: expected the row of a claim, found something else; remove the line"
            )
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
    return all(row.get(key) == head[key] for key in ("experiment", "decided", "effort", "device", "seeds"))


def _head(claim: Claim, effort: Effort) -> dict[str, Any]:
    """What is known of a row before its experiment."""
    about = {name: value for name, value in asdict(claim).items() if name != "run"}
    how = {"effort": "full" if effort.full else "quick", "device": effort.device, "seeds": effort.seeds}
    return {"schema": SCHEMA} | about | {"sources": list(claim.sources)} | how


def _try(name: str, effort: Effort, before: dict[str, Any] | None) -> dict[str, Any]:
    """The row of a claim: that of an earlier run where it still stands."""
    torch.manual_seed(0)
    started = time.perf_counter()
    row: dict[str, Any] = {"schema": SCHEMA, "id": name, "statement": "", "figures": {}, "charts": []}
    try:
        claim = load(name)
        row |= _head(claim, effort)
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
        reason = " ".join(str(error).split()) or "no reason given"
        row |= {"verdict": FAILED, "summary": f"{type(error).__name__}: {reason}"}
    return row | {"seconds": time.perf_counter() - started, "commit": commit(), "machine": machine()}


def _finite(value: Any) -> Any:
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
