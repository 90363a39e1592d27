"""Summary of a race from the files that it leaves: ranking, table and verdict, the same for terminal and page.

race.json describes each heat, results.jsonl has a row for each entry and seed. This module imports no torch.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import numbers
from ..core.language import localize
from ..core.metric import Metric
from .rows import Row, read_race, read_rows
from .standing import REASONS as REASONS
from .standing import SIZE_TOLERANCE
from .standing import Standing as Standing
from .standing import group_rows as group_rows
from .standing import rank as rank
from .verdict import CLOSE, OPEN, Verdict, mark_names
from .verdict import Name as Name

MEANINGS = {  # of metrics, by name
    "accuracy": "the share of answers that are right",
    "bleu": "from 0 to 100, how many word sequences the translation shares with a person's",
    "nats_per_token": "how surprised the model is by the next token, on average; "
    "its exponential, the perplexity, is among how many equally likely tokens it seems to choose",
    "mse": "the mean squared error",
    "rmse": "the root of the mean squared error, in the unit of what is foretold",
}
EQUAL = {
    "params": "size: about as many parameters, and training ends after the same number of steps for all",
    "steps": "steps: training ends after the same number for all; sizes are those of each",
    "tokens": "data: training ends when each has learned from the same number of tokens",
    "flops": "work: training ends when each has spent the same number of FLOPs",
    "seconds": "time: training ends after the same number of seconds for all",
}
BEHIND = "behind, 95 %"  # the column with how far each is behind the first
TERMS = {
    "equal": "what is equal",
    "params": "parameters",
    "steps": "steps",
    "batch": "batch",
    "budget": "budget",
    "data": "data",
    "device": "device",
    "settings": "other settings",
}


@dataclass(frozen=True)
class Gain:
    """Improvement of one rung on another, counted so that more is better: mean and range over shared seeds."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def verdict(self) -> str:
        if self.seeds < 2:
            return "one seed: no spread is known"
        if self.low > 0:
            return "better with every seed"
        return "worse with every seed" if self.high < 0 else "no difference that seeds agree on"


def measure_gain(before: Standing | None, after: Standing | None, better: str) -> Gain | None:
    """Seed by seed where the two share seeds, else between the means; None where one of them has no result."""
    if before is None or after is None or not before.rows or not after.rows:
        return None
    sign = 1 if better == "higher" else -1
    old = {row.get("seed"): row["metric"]["value"] for row in before.rows}
    new = {row.get("seed"): row["metric"]["value"] for row in after.rows}
    if before.counted:
        old = dict.fromkeys(new, before.mean)
    elif after.counted:
        new = dict.fromkeys(old, after.mean)
    steps = [sign * (new[seed] - old[seed]) for seed in new if seed in old]
    steps = steps or [sign * (after.mean - before.mean)]
    return Gain(statistics.fmean(steps), min(steps), max(steps), len(steps))


def mark_unfair(rows: Sequence[Row], params: int | None) -> None:
    """Write into each row of a heat why it is not comparable: whatever differs from what most rows have."""
    good = [row for row in rows if "error" not in row]
    for name in ("data", "tokenizer", "batch"):
        counts = Counter(row["fair"].get(name) for row in good)
        usual = counts.most_common(1)[0][0] if counts else None
        for row in good:
            _mark(row, name, row["fair"].get(name) != usual)
    sought = Counter(own for row in good if (own := row["fair"].get("search")) is not None)
    for row in good:
        own = row["fair"].get("search")
        _mark(row, "search", own is not None and own != sought.most_common(1)[0][0])
        counted = row.get("entries") is not None  # stored n-grams are no parameters
        found = None if counted else row["params"]
        off = params is not None and found is not None and abs(found / params - 1) > SIZE_TOLERANCE
        _mark(row, "size", off)


def note_standings(heat: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Write into each row of a heat how its entrant stands beside the first."""
    summary = Summary(heat, rows)
    for standing in summary.standings:
        for row in standing.rows:
            row["standing"] = summary.judged.to_json(standing.name)


def _mark(row: Row, reason: str, unfair: bool) -> None:
    row["unfair"] = [other for other in row["unfair"] if other != reason] + ([reason] if unfair else [])


class Summary:
    """One heat: its description in race.json, the standing of every entrant, and what follows from them."""

    def __init__(self, heat: Mapping[str, Any], rows: Iterable[Row]) -> None:
        self.heat = heat
        self.name, self.title = str(heat["name"]), str(heat.get("title") or heat["name"])
        self.terms: Mapping[str, Any] = heat.get("terms") or {}
        self.rungs: list[dict[str, Any]] = heat.get("rungs") or []
        self.notes: list[str] = heat.get("notes") or []
        metric = Metric.from_json(heat.get("metric") or {})
        order = [str(rung["name"]) for rung in self.rungs]
        self.standings = group_rows((row for row in rows if row.get("heat") == heat["name"]), order)
        self.ranked = rank(self.standings, metric.better)
        self.metric = metric.fit_digits(value for standing in self.ranked for value in standing.values)
        self.baselines = self._baselines()
        self.judged = Verdict(self.metric, self.ranked, self.baselines)

    def _baselines(self) -> list[tuple[str, float]]:
        """What guesses without a network reach, by the heat's metric; none where rows measure them by another.

        Rows have them by the figure that validation watches, which of shares is the error.
        """
        watched = self.heat.get("learning")
        if watched and watched.get("name") != self.metric.name:
            return []
        flipped = bool(watched) and self.metric.better == "higher"
        named: dict[str, float] = {}
        for standing in self.standings:
            for row in standing.rows:
                for name, value in (row.get("baselines") or {}).items():
                    if numbers.known(value):
                        named.setdefault(str(name), 1 - value if flipped else value)
        return list(named.items())

    def places(self) -> list[int]:
        """The place of each of `ranked`, from 1; equal means share a place."""
        means = [standing.mean for standing in self.ranked]
        return [1 + means.index(mean) for mean in means]

    def gains(self) -> dict[str, Gain | None]:
        """For each rung its gain on the rung right before it."""
        by_name = {standing.name: standing for standing in self.standings}
        names = [str(rung["name"]) for rung in self.rungs]
        pairs = zip([None, *names], names, strict=False)
        return {
            name: measure_gain(by_name.get(before) if before else None, by_name.get(name), self.metric.better)
            for before, name in pairs
        }

    # In words

    def verdict(self) -> list[str]:
        """Who won, or why nobody did; pieces of a sentence."""
        return self.judged.in_words()

    def compare_to_baselines(self) -> list[str]:
        """How the models stand against the best guess without a network; pieces of a sentence."""
        return self.judged.compare_to_baselines()

    def in_words(self) -> str:
        """Verdict and baselines as plain text."""
        text = f"{''.join(self.verdict())} {''.join(self.compare_to_baselines())}"
        return text.strip().replace(numbers.BLANK, " ")

    def told(self) -> str:
        """The same in the language of the reader."""
        text = localize(mark_names([*self.verdict(), " ", *self.compare_to_baselines()]).strip())
        return text.replace(OPEN, "").replace(CLOSE, "").replace(numbers.BLANK, " ")

    def terms_in_words(self) -> list[tuple[str, str, str]]:
        """The terms of the heat: key, name and value, known ones first."""
        order = [key for key in TERMS if key in self.terms]
        found = []
        for key in [*order, *(key for key in self.terms if key not in order)]:
            value = self.terms[key]
            if key == "budget" and self.terms.get("equal") == "params":
                continue  # it is the steps
            if value is None or value in ({}, [], ""):
                continue
            if key == "equal":
                unsized = value == "params" and self.terms.get("params") is None
                text = EQUAL["steps"] if unsized else EQUAL.get(str(value), str(value))
            elif key == "params":
                text = f"about {numbers.brief(value)} each."
            elif isinstance(value, bool):
                text = "yes" if value else "no"
            else:
                text = numbers.brief(value) if numbers.known(value) else _list_values(value)
            found.append((key, TERMS.get(key, key.replace("_", " ")), text))
        return found

    # As a table in the terminal

    def heading(self) -> str:
        params, equal = self.terms.get("params"), self.terms.get("equal")
        size = [f"about {params:,} parameters each"] if params else []
        steps = self.terms.get("steps")
        ends = f"{steps:,} steps" if equal == "params" and steps is not None else f"equal {equal}"
        return f"{self.title} ({', '.join([ends, *size])})"

    def table(self) -> tuple[tuple[str, ...], list[list[str]]]:
        """Columns and lines: by rank, or rung by rung with the gain of each."""
        metric, gains = self.metric, self.gains()
        places = {standing.name: place for standing, place in zip(self.ranked, self.places(), strict=True)}
        finished = [standing for standing in self.standings if standing.rows] if self.rungs else self.ranked
        columns = ("rank", "rung" if self.rungs else "model", metric.label, "bought" if self.rungs else BEHIND)
        columns += ("params", "tokens", "FLOPs", "seconds", "bytes of state")
        lines = []
        for standing in finished:
            low, high = metric.write_cell(min(standing.values)), metric.write_cell(max(standing.values))
            value = metric.write_cell(standing.mean) + (f" ({low} to {high})" if len(standing.rows) > 1 else "")
            name = standing.name
            cell = self._gain_cell(gains.get(name)) if self.rungs else self.judged.behind_cell(name)
            lines.append([str(places[name]), name, value, cell, *_cost_cells(standing)])
        if any(standing.unfair for standing in finished):
            columns += ("unfair",)
            lines = [[*line, ", ".join(s.unfair)] for line, s in zip(lines, finished, strict=True)]
        failures = [standing.name for standing in self.standings if not standing.rows]
        return columns, lines + [["–", name, "failed", *[""] * (len(columns) - 3)] for name in failures]

    def _gain_cell(self, gain: Gain | None) -> str:
        if gain is None:
            return "–"
        return f"{100 * gain.mean:+.1f} points" if self.metric.unit == "share" else f"{gain.mean:+.3f}"


def _list_values(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} = {_list_values(one)}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _cost_cells(standing: Standing) -> list[str]:
    """What an entrant needed; numbers that differ between seeds are means."""
    first = standing.rows[0]
    size = f"{first['entries']:,} counts" if first.get("entries") else _whole(first["params"])
    spent = [numbers.coarse(standing.average(key)) for key in ("tokens", "flops")]
    return [size, *spent, f"{standing.average('seconds') or 0:.1f}", _whole(first["state_bytes"])]


def _whole(value: float | None) -> str:
    return numbers.MISSING if value is None else f"{value:,}"


def load(folder: Path) -> tuple[dict[str, Any], list[Row]]:
    """race.json and the rows of results.jsonl; no rows where no entry has ended yet."""
    return read_race(folder), read_rows(folder)


def summarize(race: Mapping[str, Any], rows: Sequence[Row]) -> list[Summary]:
    """A summary of every heat."""
    return [Summary(heat, rows) for heat in race["heats"]]
