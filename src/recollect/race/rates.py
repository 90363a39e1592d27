"""The learning rates that are committed: found by `race.search`, the same grid for every model."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from ..core.heat import Entrant, Heat


@cache
def committed() -> dict[str, Any]:
    return json.loads((files("recollect.race") / "rates.json").read_text(encoding="utf-8"))


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
