"""A race in a table, and what a reader should know beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from . import fairness, rates
from .heat import Heat

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the seeds of one entrant reached."""

    label: str
    rows: list[Row]
    mean: float
    low: float
    high: float

    @property
    def first(self) -> Row:
        return self.rows[0]


def standings(heat: Heat, rows: Sequence[Row]) -> list[Standing]:
    """The entrants that finished, best first."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if "error" not in row:
            groups.setdefault(row["entry"], []).append(row)
    found = []
    for label, group in groups.items():
        values = [row["metric"]["value"] for row in group]
        found.append(Standing(label=label, rows=group, mean=fmean(values), low=min(values), high=max(values)))
    return sorted(found, key=lambda own: own.mean, reverse=heat.metric.better == "higher")


def table(heat: Heat, rows: Sequence[Row]) -> tuple[tuple[str, ...], list[list[str]]]:
    """Columns and lines: by rank, or rung by rung with what each bought."""
    found = standings(heat, rows)
    means = [own.mean for own in found]
    ranks = {own.label: 1 + means.index(own.mean) for own in found}  # equals share a rank
    order = [climber.label for climber in heat.climbers()]
    if heat.rungs:
        found.sort(key=lambda own: order.index(own.label) if own.label in order else len(order))
    gain = ("bought",) if heat.rungs else ()
    columns = ("rank", "rung" if heat.rungs else "model", heat.metric.label, *gain)
    columns += ("params", "tokens", "FLOPs", "seconds", "bytes of state")
    lines = []
    for own in found:
        spread = f" ({heat.metric.shown(own.low)} to {heat.metric.shown(own.high)})" if len(own.rows) > 1 else ""
        bought = [_bought(heat, found, own)] if heat.rungs else []
        lines.append([str(ranks[own.label]), own.label, heat.metric.shown(own.mean) + spread, *bought, *_costs(own)])
    marks = [", ".join(dict.fromkeys(reason for row in own.rows for reason in row["unfair"])) for own in found]
    if any(marks):
        columns += ("unfair",)
        lines = [[*line, mark] for line, mark in zip(lines, marks, strict=True)]
    failures = {row["entry"]: row["error"] for row in rows if "error" in row}
    lines += [["–", label, "failed", *[""] * (len(columns) - 3)] for label in failures if label not in ranks]
    return columns, lines


def _costs(own: Standing) -> list[str]:
    first = own.first
    size = f"{first['entries']:,} counts" if first.get("entries") else f"{first['params']:,}"
    seconds = f"{_mean(own, 'seconds') or 0:.1f}"
    return [size, short(_mean(own, "tokens")), short(_mean(own, "flops")), seconds, f"{first['state_bytes']:,}"]


def _mean(own: Standing, name: str) -> float | None:
    """Over seeds: a budget in seconds gives each its own number of tokens."""
    found = [row[name] for row in own.rows if row[name] is not None]
    return fmean(found) if found else None


def _bought(heat: Heat, found: Sequence[Standing], own: Standing) -> str:
    """What a rung gained on the one right before it, where that has a result: more is better, whatever the metric."""
    order = [rung.name for rung in heat.rungs]
    place = order.index(own.label) if own.label in order else 0
    before = next((other for other in found if place and other.label == order[place - 1]), None)
    if before is None:
        return "–"
    gain = own.mean - before.mean if heat.metric.better == "higher" else before.mean - own.mean
    if heat.metric.unit == "share":
        return f"{100 * gain:+.1f} points"
    return f"{gain:+.3f}"


def short(number: float | None) -> str:
    """1,234 as 1.2 k, and so on."""
    if number is None:
        return "–"
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f} {letter}"
    return f"{number:.0f}"


def one(heat: Heat, row: Row) -> str:
    """A finished entry in a line."""
    name = f"{heat.name}: {row['entry']}, seed {row['seed']}"
    if "error" in row:
        return f"{name}: failed: {row['error']}"
    return f"{name}: {heat.metric.label} {heat.metric.shown(row['metric']['value'])}"


def notes(heat: Heat, rows: Sequence[Row]) -> list[str]:
    """What a reader should know beside the figures."""
    good = [row for row in rows if "error" not in row]
    found = _of_ngram(heat, rows) + _of_mask(good)
    if good:
        found.append(f"Data: {good[0]['data']}; measured on validation, with the weights that did best there.")
        found += _of_guesses(heat, good)
    found += _of_rates(heat, good)
    reasons = sorted({reason for row in rows for reason in row.get("unfair", ())})
    found += [f"Marked {reason}: {fairness.REASONS[reason]}." for reason in reasons]
    found += [f"{row['entry']}, seed {row['seed']}, failed: {row['error']}" for row in rows if "error" in row]
    return found


def _of_rates(heat: Heat, good: Sequence[Row]) -> list[str]:
    """Where learning rates come from: a search, the package, or both."""
    searched = {row["entry"]: row["search"] for row in good if row.get("search")}
    others = [row for row in good if not row.get("search") and row["model"] not in heat.job.counted]
    committed = bool(others) and all(_committed(heat, row) for row in others)
    found = []
    if searched:
        total = sum(one["seconds"] for one in searched.values())
        whose = f" of {', '.join(searched)}" if others else ""
        alike = "" if others else " of the same rates for all"
        found.append(f"Learning rates{whose} by a search{alike}; it took {total:.0f} s of training beside.")
    if committed:
        whose = f" of {', '.join(dict.fromkeys(row['entry'] for row in others))}" if searched else ""
        found.append(f"Learning rates{whose} are committed with the package: {rates.how(heat)}.")
    return found


def _committed(heat: Heat, row: Row) -> bool:
    """Whether a row was trained at the rate that is committed for it."""
    climber = next((own for own in heat.climbers() if own.label == row["entry"]), None)
    if climber is None or climber.model in heat.job.counted:
        return climber is not None
    return row["settings"]["train"]["lr"] == rates.rate_of(heat, climber)


def _of_ngram(heat: Heat, rows: Sequence[Row]) -> list[str]:
    """Where counting stands among the networks."""
    found = standings(heat, rows)
    place = next((i for i, own in enumerate(found) if own.first["model"] == "ngram"), None)
    if place is None or len(found) == 1:
        return []
    behind = [own.label for own in found[place + 1 :]]
    counts = f"{found[place].label}, which only counts, read {short(found[place].first['tokens'])} tokens"
    if not behind:
        return [f"{counts} and is behind every network."]
    which = "every network" if place == 0 else ", ".join(behind)
    return [f"{counts} and is ahead of {which} at this small budget."]


def _of_mask(rows: Sequence[Row]) -> list[str]:
    """What a future that was seen in training is worth in writing."""
    seen = [row for row in rows if "all_at_once" in row and row["step_by_step"] > row["all_at_once"] + 0.1]
    return [
        f"{row['entry']}: {row['all_at_once']:.3f} nats per token with the whole window in view, "
        f"{row['step_by_step']:.3f} one token at a time, as in writing (guessing: {row['uniform']:.3f}). "
        "The ranking goes by one at a time; for every other rung both are the same."
        for row in seen
    ]


def _of_guesses(heat: Heat, rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    row = rows[0]
    if "chance" in row and heat.metric.unit == "share":
        seen = row["baselines"].get("one of the values seen")
        extra = "" if seen is None else f"; naming any value of the row {1 - seen:.1%}"
        return [f"Without a network: {row['chance']:.1%} right by chance{extra}."]
    right = heat.validation.better == "higher"  # the rows have the error
    guesses = ", ".join(f"{name} {1 - value if right else value:.3f}" for name, value in row["baselines"].items())
    found = [f"Without a network, {heat.validation.label}: {guesses}."] if guesses else []
    if row.get("floor") is not None:
        found.append(f"Nobody can get below {row['floor']:.3f}: that much is {heat.floor}.")
    return found
