"""The heats and ladders that there are: those that the tasks declare in their `heat.py`."""

from functools import cache

from .. import tasks
from ..core.heat import Heat


@cache
def heats() -> dict[str, Heat]:
    """A heat for each task, with settings that suit two cores and a few minutes."""
    return {heat.name: heat for _, group in tasks.declared("heat", "HEATS") for heat in group}


@cache
def ladders() -> dict[str, Heat]:
    """Each a heat whose entrants are rungs: how one memory became the next, one change at a time."""
    return {str(heat.ladder): heat for _, group in tasks.declared("heat", "LADDERS") for heat in group}


def default_heats() -> list[Heat]:
    """Those of a race for which no task is named: where memory decides."""
    found = [heat for heat in heats().values() if heat.default_rank is not None]
    return sorted(found, key=lambda heat: heat.default_rank or 0)
