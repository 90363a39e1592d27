"""Summary of a race from the files that it leaves: ranking, table and verdict, the same for terminal and page.

race.json describes each heat, results.jsonl has a row for each entry and seed. This module imports no torch.
"""

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..core import numbers
from ..core.metric import Metric

Row = dict[str, Any]
SIZE_TOLERANCE = 0.25  # relative difference in parameters beyond which entries are not comparable
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


class Reason(NamedTuple):
    """Why an entry is not comparable with the others: as a note on the race, and as a sentence about the entry."""

    note: str
    sentence: str


REASONS = {
    "data": Reason("trained or measured on other data or another split", "it learned from other data"),
    "tokenizer": Reason("another tokenizer", "it read another kind of tokens"),
    "batch": Reason("another batch", "its batches had another size"),
    "size": Reason(
        f"parameters more than {SIZE_TOLERANCE:.0%} off",
        "its number of parameters is off by more than a quarter from what was asked for",
    ),
    "memory": Reason("ran out of memory", "it ran out of memory"),
}


class Name(str):
    """The name of a model inside a sentence; a page sets it in bold."""


@dataclass
class Standing:
    """Results of one model, or one rung of a ladder, over all its seeds."""

    name: str
    rows: list[Row] = field(default_factory=list)  # of runs that finished, by seed
    failed: list[Row] = field(default_factory=list)

    @property
    def model(self) -> str:
        return str((self.rows or self.failed)[0].get("model") or self.name)

    @property
    def values(self) -> list[float]:
        return [row["metric"]["value"] for row in self.rows]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def counted(self) -> bool:
        """Whether the model only counts: then every seed gives the same, and one row is enough."""
        return bool(self.rows) and all(numbers.known(row.get("entries")) for row in self.rows)

    @property
    def unfair(self) -> list[str]:
        """Keys of `REASONS`, each once."""
        return list(dict.fromkeys(str(reason) for row in self.rows for reason in row.get("unfair") or []))

    @property
    def unfair_sentences(self) -> list[str]:
        return [REASONS[reason].sentence if reason in REASONS else reason for reason in self.unfair]

    def average(self, key: str) -> float | None:
        """The mean over seeds of a number in the rows."""
        found = [row[key] for row in self.rows if numbers.known(row.get(key))]
        return statistics.fmean(found) if found else None


def group_rows(rows: Iterable[Row], order: Sequence[str] = ()) -> list[Standing]:
    """The standing of every entrant of one heat, in this order, or else in that of the rows."""
    found: dict[str, Standing] = {}
    for row in rows:
        name = str(row.get("rung") or row.get("entry") or row.get("model"))
        standing = found.setdefault(name, Standing(name))
        good = not isinstance(row.get("error"), str) and numbers.known((row.get("metric") or {}).get("value"))
        (standing.rows if good else standing.failed).append(row)
    for standing in found.values():
        standing.rows.sort(key=lambda row: row.get("seed") or 0)
    return sorted(found.values(), key=lambda s: order.index(s.name) if s.name in order else len(order))


def rank(standings: Iterable[Standing], better: str) -> list[Standing]:
    """Entrants that finished, the best mean first."""
    return sorted((s for s in standings if s.rows), key=lambda s: s.mean, reverse=better == "higher")


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
    for row in good:
        counted = row.get("entries") is not None  # stored n-grams are no parameters
        _mark(row, "size", params is not None and not counted and abs(row["params"] / params - 1) > SIZE_TOLERANCE)


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
        """The winner, its lead, and whether that lead is larger than the spread over seeds; pieces of a sentence."""
        metric, ranked = self.metric, self.ranked
        if not ranked:
            return ["No entry finished, so nobody won."]
        best, *rest = ranked
        score = f"{metric.label} {metric.write(best.mean)}"
        if not rest:
            return ["Only ", Name(best.name), f" has a result: {score}. {self._spread(best, None)}"]
        mark = f" It is marked: {'; '.join(best.unfair_sentences)}." if best.unfair else ""
        behind = [standing for standing in rest if not metric.is_tie(best.mean, standing.mean)]
        following = f"{behind[0].name} ({metric.write(behind[0].mean)})" if behind else ""
        if len(behind) < len(rest):
            leaders = [standing for standing in ranked if standing not in behind]
            means = [standing.mean for standing in leaders]
            if len({metric.write(mean) for mean in means}) > 1:
                score = f"{metric.label} {metric.write_range(min(means), max(means))}"
            following = f"; next is {following}" if following else ""
            spread = self._spread(best, behind[0] if behind else None)
            return [*_join_names(leaders), f" are level: {score}{following}.{mark} {spread}"]
        lead = metric.write_difference(abs(best.mean - rest[0].mean))
        spread = self._spread(best, rest[0])
        return [Name(best.name), f" won: {score}, ahead of {following} by {lead}.{mark} {spread}"]

    def _spread(self, best: Standing, second: Standing | None) -> str:
        """Whether a lead is larger than the spread over seeds."""
        drawn = [len(standing.rows) for standing in (best, second) if standing is not None and not standing.counted]
        if not drawn:
            return "What is counted is the same with every seed."
        if drawn == [1] and second is None:
            return "One seed shows no spread: --seeds 3 tells."
        if min(drawn) == 1:
            return "One seed shows no spread, so a small lead may be luck: --seeds 3 tells."
        if second is None:
            return f"Over seeds, {best.name} ranges from {self.metric.write_range(min(best.values), max(best.values))}."
        sign = self.metric.sign
        if min(sign * value for value in best.values) > max(sign * value for value in second.values):
            return "That is more than the spread over seeds: its worst seed beats the best of the other."
        return "That is within the spread over seeds: their ranges overlap, so another seed may turn the order."

    def compare_to_baselines(self) -> list[str]:
        """How the models stand against the best guess without a network; pieces of a sentence."""
        if not self.baselines or not self.ranked:
            return []
        sign = self.metric.sign
        guess, value = max(self.baselines, key=lambda item: sign * item[1])
        behind = [standing for standing in self.ranked if sign * standing.mean <= sign * value]
        best = f"The best guess without a network, {guess}, gets {self.metric.write(value)}; "
        if not behind:
            return [f"{best}every model does better than that."]
        if len(behind) == len(self.ranked):
            return [f"{best}no model does better than that."]
        return [best, *_join_names(behind), f" {'does' if len(behind) == 1 else 'do'} no better than that."]

    def in_words(self) -> str:
        """Verdict and baselines as plain text."""
        text = f"{''.join(self.verdict())} {''.join(self.compare_to_baselines())}"
        return text.strip().replace(numbers.BLANK, " ")

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
        size = f", about {params:,} parameters each" if params else ""
        ends = f"{self.terms['steps']:,} steps" if equal == "params" else f"equal {equal}"
        return f"{self.title} ({ends}{size})"

    def table(self) -> tuple[tuple[str, ...], list[list[str]]]:
        """Columns and lines: by rank, or rung by rung with the gain of each."""
        metric, gains = self.metric, self.gains()
        places = {standing.name: place for standing, place in zip(self.ranked, self.places(), strict=True)}
        finished = [standing for standing in self.standings if standing.rows] if self.rungs else self.ranked
        columns = ("rank", "rung" if self.rungs else "model", metric.label, *(("bought",) if self.rungs else ()))
        columns += ("params", "tokens", "FLOPs", "seconds", "bytes of state")
        lines = []
        for standing in finished:
            low, high = metric.write_cell(min(standing.values)), metric.write_cell(max(standing.values))
            value = metric.write_cell(standing.mean) + (f" ({low} to {high})" if len(standing.rows) > 1 else "")
            gain = [self._gain_cell(gains.get(standing.name))] if self.rungs else []
            lines.append([str(places[standing.name]), standing.name, value, *gain, *_cost_cells(standing)])
        if any(standing.unfair for standing in finished):
            columns += ("unfair",)
            lines = [[*line, ", ".join(s.unfair)] for line, s in zip(lines, finished, strict=True)]
        failures = [standing.name for standing in self.standings if not standing.rows]
        return columns, lines + [["–", name, "failed", *[""] * (len(columns) - 3)] for name in failures]

    def _gain_cell(self, gain: Gain | None) -> str:
        if gain is None:
            return "–"
        return f"{100 * gain.mean:+.1f} points" if self.metric.unit == "share" else f"{gain.mean:+.3f}"


def _join_names(standings: Sequence[Standing]) -> list[str]:
    """a, b and c."""
    found: list[str] = []
    for place, standing in enumerate(standings):
        last = place == len(standings) - 1
        found += [] if place == 0 else [" and " if last else ", "]
        found.append(Name(standing.name))
    return found


def _list_values(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} = {_list_values(one)}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _cost_cells(standing: Standing) -> list[str]:
    """What an entrant needed; numbers that differ between seeds are means."""
    first = standing.rows[0]
    size = f"{first['entries']:,} counts" if first.get("entries") else f"{first['params']:,}"
    spent = [numbers.coarse(standing.average(key)) for key in ("tokens", "flops")]
    return [size, *spent, f"{standing.average('seconds') or 0:.1f}", f"{first['state_bytes']:,}"]


def load(folder: Path) -> tuple[dict[str, Any], list[Row]]:
    """race.json and the rows of results.jsonl; no rows where no entry has ended yet."""
    try:
        race = json.loads((folder / "race.json").read_bytes())
    except FileNotFoundError:
        raise ValueError(
            f"{folder}: expected a race's folder with race.json in it, found none; name the --out of a race"
        ) from None
    except ValueError as error:
        raise ValueError(f"{folder / 'race.json'}: expected JSON, found none ({error})") from None
    if not isinstance(race, dict) or not all(isinstance(h, dict) and h.get("name") for h in race.get("heats") or [{}]):
        raise ValueError(
            f"{folder / 'race.json'}: expected what a race was asked, with its heats, found something else"
        )
    path, rows = folder / "results.jsonl", []
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            rows += [dict(json.loads(line))] if line.strip() else []
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number}: expected a JSON object, found none ({error}); delete that line"
            ) from None
    return race, rows


def summarize(race: Mapping[str, Any], rows: Sequence[Row]) -> list[Summary]:
    """A summary of every heat."""
    return [Summary(heat, rows) for heat in race["heats"]]
