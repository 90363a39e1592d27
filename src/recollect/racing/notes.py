"""Notes on a heat: what a reader should know beside the figures. A race writes them into race.json."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..core import numbers
from ..core.heat import Entrant, Heat
from . import rates
from .search import plan_of_search
from .summary import REASONS, Row, group_rows, rank
from .terms import task_of

BOTH_WAYS = ("all_at_once", "step_by_step", "uniform")  # losses of a text that is seen at once, and written


def write_notes(heat: Heat, rows: Sequence[Row]) -> list[str]:
    """One sentence or two for each note."""
    good = [row for row in rows if "error" not in row]
    found = _note_counting(heat, rows) + _note_seen_future(good)
    if good:
        found.append(f"Data: {good[0]['data']}; {_describe_split(good)}.")
        found += _note_baselines(heat, good[0])
    found += _note_rates(heat, good)
    reasons = sorted({reason for row in rows for reason in row.get("unfair", ())})
    found += [f"Marked {reason}: {REASONS[reason].note}." for reason in reasons if reason in REASONS]
    wrong = {row["entry"]: row["cost_problem"] for row in good if row.get("cost_problem")}
    found += [f"{name}, its costs: {problem}; mend cost() of that layer." for name, problem in wrong.items()]
    found += [f"{row['entry']}, seed {row['seed']}, failed: {row['error']}" for row in rows if "error" in row]
    return found


def write_progress(heat: Heat, row: Row) -> str:
    """A finished entry in a line."""
    if "error" in row:
        return f"{heat.name}: {row['entry']}, seed {row['seed']}: failed: {row['error']}"
    score = f"{heat.metric.label} {heat.metric.write_cell(row['metric']['value'])}"
    return f"{heat.name}: {row['entry']}, seed {row['seed']}: {score}"


def _describe_split(good: Sequence[Row]) -> str:
    """What figures were measured on, and what chose the weights."""
    if all(row.get("split") == "test" for row in good):
        return "measured on the test part, with the weights that did best on validation"
    return "measured on validation, with the weights that did best there; it has no test part"


def _note_rates(heat: Heat, good: Sequence[Row]) -> list[str]:
    """Where learning rates come from: a search, the package, or both; and whether all were sought alike."""
    searched = {row["entry"]: row["search"] for row in good if row.get("search")}
    committed = [row["entry"] for row in good if not row.get("search") and _at_committed_rate(heat, row)]
    found = []
    if searched:
        total = sum(one["seconds"] for one in searched.values())
        names = f" of {', '.join(searched)}" if committed else ""
        found.append(f"Learning rates{names} by a search: {_describe_plans(searched)}; it took {total:.0f} s beside.")
    if committed:
        names = f" of {', '.join(dict.fromkeys(committed))}" if searched else ""
        found.append(f"Learning rates{names} are committed with the package: {rates.how(heat)}.")
    here = {plan_of_search(one) for one in searched.values()}
    elsewhere = {how for row in good if not row.get("search") and (how := row.get("fair", {}).get("search"))}
    if len(here) == 1 and not elsewhere and not committed:
        found.append("All were searched alike, in this race: the same rates, as much training for each.")
    elif len(here) + len(elsewhere) > 1 or (here and committed):
        found.append("Learning rates were not sought alike; --search 3 in another --out does so for all.")
    return found


def _describe_plans(searched: Mapping[str, Any]) -> str:
    """What was tried, each way of it once."""
    return "; ".join(dict.fromkeys(plan_of_search(one).in_words() for one in searched.values()))


def _at_committed_rate(heat: Heat, row: Row) -> bool:
    """Whether a row was trained at the rate that is committed for it, whoever is in the field today."""
    if row["model"] in task_of(heat).counted:
        return False
    rate = rates.rate_of(heat, Entrant(label=row["entry"], model=row["model"]))
    return rate is not None and row["settings"]["train"]["lr"] == rate


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
    measured = [row for row in rows if all(numbers.known(row.get(key)) for key in BOTH_WAYS)]
    seen = [row for row in measured if row["step_by_step"] > row["all_at_once"] + 0.1]
    return [
        f"{row['entry']}: {row['all_at_once']:.3f} nats per token with the whole window in view, "
        f"{row['step_by_step']:.3f} one token at a time, as in writing (guessing: {row['uniform']:.3f}). "
        "The ranking goes by one at a time; for every other rung both are the same."
        for row in seen
    ]


def _note_baselines(heat: Heat, row: Row) -> list[str]:
    """What guesses without a network reach, and the least error that is possible where it is known."""
    baselines = {name: value for name, value in row["baselines"].items() if value is not None}
    if numbers.known(row.get("chance")) and heat.metric.unit == "share":
        seen = baselines.get("one of the values seen")
        extra = "" if seen is None else f"; naming any value of the row {1 - seen:.1%}"
        return [f"Without a network: {row['chance']:.1%} right by chance{extra}."]
    right = heat.validation.better == "higher"  # the rows have the error
    guesses = ", ".join(f"{name} {1 - value if right else value:.3f}" for name, value in baselines.items())
    found = [f"Without a network, {heat.validation.label}: {guesses}."] if guesses else []
    if row.get("floor") is not None:
        found.append(f"Nobody can get below {row['floor']:.3f}: that much is {heat.floor}.")
    return found
