"""The results of a race as tables for a paper and for other programs, each mean with its interval over seeds."""

import csv
import io
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core import numbers
from ..racing.summary import Standing, Summary

CONFIDENCE = 0.95
QUANTILES = (  # of Student's t for that confidence, by degrees of freedom from 1
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
NORMAL = 1.959964
COLUMNS: tuple[str, ...] = (
    "heat", "place", "name", "model", "metric", "mean", "low", "high", "seeds", "params", "entries", "tokens", "flops",
    "seconds", "state_bytes", "unequal",
)  # fmt: skip
SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", numbers.BLANK: "~", "−": "$-$", "–": "--", "×": r"$\times$",
    "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """The mean of values over seeds, and between what it lies by Student's t; of one seed no bounds."""

    mean: float
    low: float | None
    high: float | None


def measure_interval(values: Sequence[float]) -> Interval:
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(mean, None, None)
    half = _quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def _quantile(freedom: int) -> float:
    if freedom <= len(QUANTILES):
        return QUANTILES[freedom - 1]
    return NORMAL + (NORMAL**3 + NORMAL) / (4 * freedom)


def list_results(heat: Summary) -> list[dict[str, Any]]:
    """A dict for each entrant, with the keys of `COLUMNS`; numbers as they stand in the rows, None where none is."""
    return [_result(heat, standing, place) for standing, place in _placed(heat)]


def _placed(heat: Summary) -> list[tuple[Standing, int | None]]:
    places = dict(zip((standing.name for standing in heat.ranked), heat.places(), strict=True))
    order = heat.standings if heat.rungs else [*heat.ranked, *(s for s in heat.standings if not s.rows)]
    return [(standing, places.get(standing.name)) for standing in order]


def _result(heat: Summary, standing: Standing, place: int | None) -> dict[str, Any]:
    found = measure_interval(standing.values) if standing.rows else Interval(math.nan, None, None)
    costs = {key: standing.average(key) for key in COLUMNS[9:15]}
    return {
        "heat": heat.name,
        "place": place,
        "name": standing.name,
        "model": standing.model,
        "metric": heat.metric.name,
        "mean": found.mean if standing.rows else None,
        "low": found.low,
        "high": found.high,
        "seeds": len(standing.rows),
        **costs,
        "unequal": "; ".join(standing.unfair),
    }


def write_csv(heats: Sequence[Summary]) -> str:
    """All heats as one table; an empty cell is what was not measured."""
    page = io.StringIO()
    writer = csv.DictWriter(page, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for heat in heats:
        writer.writerows(list_results(heat))
    return page.getvalue()


def write_latex(heats: Sequence[Summary]) -> str:
    """A table of booktabs for each heat."""
    return "\n".join(_latex(heat) for heat in heats)


def _latex(heat: Summary) -> str:
    metric = heat.metric
    head = ["rung" if heat.rungs else "model", metric.axis, "seeds", "parameters", "tokens", "FLOPs", "time", "state"]
    several = any(len(standing.rows) > 1 for standing in heat.ranked)
    notes = [
        f"% {' '.join(heat.heading().split())}",
        f"% mean ± half of the {CONFIDENCE:.0%} interval over seeds, by Student's t" if several else "% one seed each",
        r"% \usepackage{booktabs}",
    ]
    lines = [*notes, rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\toprule", _line(head), r"\midrule"]
    for standing, _ in _placed(heat):
        if not standing.rows:
            lines.append(_line([standing.name, "no result", "0", *[numbers.MISSING] * (len(head) - 3)]))
            continue
        found = measure_interval(standing.values)
        value = numbers.fixed(metric.factor * found.mean, metric.digits)
        half = None if found.high is None else numbers.fixed(metric.factor * (found.high - found.mean), metric.digits)
        counts = standing.average("entries")
        cells = [
            standing.name,
            value,
            str(len(standing.rows)),
            f"{numbers.count(counts)} counts" if counts else numbers.count(standing.average("params")),
            numbers.count(standing.average("tokens")),
            numbers.flops(standing.average("flops")),
            numbers.duration(standing.average("seconds")),
            numbers.size(standing.average("state_bytes")),
        ]
        escaped = [escape(cell) for cell in cells]
        escaped[1] += "" if half is None else rf" $\pm$ {half}"
        lines.append(" & ".join(escaped) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _line(cells: Sequence[str]) -> str:
    return " & ".join(map(escape, cells)) + r" \\"


def escape(text: str) -> str:
    """A text as LaTeX sets it, whatever is in it."""
    return "".join(SPECIAL.get(letter, letter) for letter in " ".join(text.split(" ")))
