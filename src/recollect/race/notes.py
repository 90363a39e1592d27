"""Notes on a heat: what a reader should know beside the figures. A race writes them into race.json."""

from collections.abc import Sequence

from ..core import numbers
from ..core.heat import Heat
from . import rates
from .summary import REASONS, Row, group_rows, rank
from .terms import task_of


def write_notes(heat: Heat, rows: Sequence[Row]) -> list[str]:
    """One sentence or two for each note."""
    good = [row for row in rows if "error" not in row]
    found = _note_counting(heat, rows) + _note_seen_future(good)
    if good:
        found.append(f"Data: {good[0]['data']}; measured on validation, with the weights that did best there.")
        found += _note_baselines(heat, good[0])
    found += _note_rates(heat, good)
    reasons = sorted({reason for row in rows for reason in row.get("unfair", ())})
    found += [f"Marked {reason}: {REASONS[reason].note}." for reason in reasons]
    found += [f"{row['entry']}, seed {row['seed']}, failed: {row['error']}" for row in rows if "error" in row]
    return found


def write_progress(heat: Heat, row: Row) -> str:
    """A finished entry in a line."""
    name = f"{heat.name}: {row['entry']}, seed {row['seed']}"
    if "error" in row:
        return f"{name}: failed: {row['error']}"
    return f"{name}: {heat.metric.label} {heat.metric.write_cell(row['metric']['value'])}"


def _note_rates(heat: Heat, good: Sequence[Row]) -> list[str]:
    """Where learning rates come from: a search, the package, or both."""
    searched = {row["entry"]: row["search"] for row in good if row.get("search")}
    others = [row for row in good if not row.get("search") and row["model"] not in task_of(heat).counted]
    committed = bool(others) and all(_at_committed_rate(heat, row) for row in others)
    found = []
    if searched:
        total = sum(one["seconds"] for one in searched.values())
        names = f" of {', '.join(searched)}" if others else ""
        alike = "" if others else " of the same rates for all"
        found.append(f"Learning rates{names} by a search{alike}; it took {total:.0f} s of training beside.")
    if committed:
        names = f" of {', '.join(dict.fromkeys(row['entry'] for row in others))}" if searched else ""
        found.append(f"Learning rates{names} are committed with the package: {rates.how(heat)}.")
    return found


def _at_committed_rate(heat: Heat, row: Row) -> bool:
    """Whether a row was trained at the rate that is committed for it."""
    entrant = next((own for own in heat.entrants() if own.label == row["entry"]), None)
    if entrant is None or entrant.model in task_of(heat).counted:
        return entrant is not None
    return row["settings"]["train"]["lr"] == rates.rate_of(heat, entrant)


def _note_counting(heat: Heat, rows: Sequence[Row]) -> list[str]:
    """How a model that was counted stands among the networks."""
    ranked = rank(group_rows(rows), heat.metric.better)
    place = next((i for i, standing in enumerate(ranked) if standing.counted), None)
    if place is None or len(ranked) == 1:
        return []
    behind = [standing.name for standing in ranked[place + 1 :]]
    counts = f"{ranked[place].name}, which only counts, read {numbers.coarse(ranked[place].rows[0]['tokens'])} tokens"
    if not behind:
        return [f"{counts} and is behind every network."]
    which = "every network" if place == 0 else ", ".join(behind)
    return [f"{counts} and is ahead of {which} at this small budget."]


def _note_seen_future(rows: Sequence[Row]) -> list[str]:
    """Models that saw the future in training and are worse without it when they write."""
    seen = [row for row in rows if "all_at_once" in row and row["step_by_step"] > row["all_at_once"] + 0.1]
    return [
        f"{row['entry']}: {row['all_at_once']:.3f} nats per token with the whole window in view, "
        f"{row['step_by_step']:.3f} one token at a time, as in writing (guessing: {row['uniform']:.3f}). "
        "The ranking goes by one at a time; for every other rung both are the same."
        for row in seen
    ]


def _note_baselines(heat: Heat, row: Row) -> list[str]:
    """What guesses without a network reach, and the least error that is possible where it is known."""
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
