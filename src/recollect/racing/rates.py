"""The learning rates that are committed: found by `racing.search`, the same grid for every model."""

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from ..core.heat import Entrant, Heat

SEED = 1000  # of searches: no race is scored on it
COMMITTED = "committed with the package"


class Plan(NamedTuple):
    """How learning rates are sought: which are tried, and with what share of the budget each."""

    rates: tuple[float, ...]
    share: float

    def in_words(self) -> str:
        budget = "the whole budget" if self.share == 1 else f"{self.share:.0%} of the budget"
        return f"{', '.join(f'{rate:g}' for rate in self.rates)}, each with {budget}"


@cache
def committed() -> dict[str, Any]:
    return json.loads((files("recollect.racing") / "rates.json").read_text(encoding="utf-8"))


def rate_of(heat: Heat, entrant: Entrant) -> float | None:
    """The committed rate of an entrant: the heat's own, else that of its model in the task's own heat.

    None on data of the user's own, for which no search was made.
    """
    if heat.data.get("data"):
        return None
    own = committed().get(heat.name, {}).get("rates", {})
    same = committed().get(heat.task, {}).get("rates", {})
    return own.get(entrant.label, same.get(entrant.model))


def how(heat: Heat) -> str:
    """How the heat's committed rates were found, in a sentence."""
    return (committed().get(heat.name) or committed().get(heat.task) or {}).get("how", "")


def plan_of(heat: Heat) -> Plan | None:
    """The rates that the heat's committed ones were chosen from, and the share of the budget of each trial."""
    found = None if heat.data.get("data") else committed().get(heat.name) or committed().get(heat.task)
    if not found:
        return None
    tried = next(iter(found["tried"].values()))
    return Plan(tuple(float(rate) for rate in tried), 1.0)
