"""The terms of a race: what its user decides, and the heats with what was decided."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from .. import tasks
from ..core.heat import Heat
from ..core.settings import SettingError, parse
from ..core.sharing import share
from ..core.task import Task
from ..layers import outside
from ..training import run as runs
from ..training.settings import Settings

Kind = type[Task[Any, Any]]
MOST_RATES = 25  # over twelve powers of ten
EQUALS = ("params", "tokens", "flops", "seconds")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a user decides of a race. `budget` is in steps where `equal` is params; None: as the heat says."""

    equal: str = "params"
    budget: float | None = None
    params: int | None = None
    seeds: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    data_dir: str | None = None
    search: int | None = None  # rates to try; None: where an entrant has no committed one
    log: str | None = None  # beside the metrics of each run
    committed: bool = False  # committed rates for those that have one, whoever is in the field

    def __post_init__(self) -> None:
        if self.equal not in EQUALS:
            raise SettingError(f"--equal: expected one of {', '.join(EQUALS)}, found {self.equal!r}")
        if self.equal != "params" and self.budget is None:
            raise SettingError(f"--equal {self.equal}: expected --budget with it: how many {self.equal} each may use")
        if self.budget is not None and not self.budget > 0:
            raise SettingError(f"--budget: expected more than 0, found {self.budget}")
        if self.params is not None and self.params < 1:
            raise SettingError(f"--params: expected at least 1, found {self.params}")
        if self.seeds < 1:
            raise SettingError(f"--seeds: expected at least 1, found {self.seeds}")
        if self.search is not None and self.search < 0:
            raise SettingError(f"--search: expected at least 0 rates, found {self.search}")
        if self.search is not None and self.committed:
            raise SettingError("--search: expected committed or how many rates to try, found both")
        if self.search is not None and self.search > MOST_RATES:
            raise SettingError(
                f"--search: expected at most {MOST_RATES} rates, each √10 times the one before, found {self.search:,}, "
                "which is as many trainings of each model"
            )

    def of(self, heat: Heat) -> Heat:
        """The heat with what was decided."""
        if self.params is not None and heat.params is None:
            raise SettingError(
                f"--params: expected a heat with one size for all, found {heat.name}, where sizes differ; leave it out"
            )
        changes: dict[str, Any] = {"params": self.params or heat.params}
        settings = dict(self.settings)
        if self.equal == "params" and self.budget is not None:
            changes["steps"] = max(1, int(self.budget))
        if self.equal == "params" and "steps" in settings:  # a setting of single runs, and here the budget of all
            if self.budget is not None:
                raise SettingError("--budget: expected it or --set steps, found both; leave one out")
            changes["steps"] = parse("steps", settings.pop("steps"), int)
            if changes["steps"] < 1:
                raise SettingError(f"steps: expected at least 1, found {changes['steps']}")
        if (choice := self.settings.get("choose", "")) in heat.chosen:
            changes["validation"] = heat.chosen[choice]
        if heat.elsewhere is not None and self.data.get("data"):
            changes["metric"] = heat.elsewhere
        _check_settings(heat, settings)
        changes["settings"] = {**heat.settings, **settings}
        return replace(heat, data={**heat.data, **self.data}, **changes)

    def to_json(self, heat: Heat) -> dict[str, Any]:
        """The terms of one heat, for race.json: what must be the same for a race to be gone on with."""
        steps = heat.steps if self.equal == "params" else None
        return {
            "params": heat.params,
            "steps": steps,
            "batch": batch_of(heat),
            "equal": self.equal,
            "budget": steps if self.budget is None else self.budget,
            "settings": share(dict(heat.settings)),
            "data": share(dict(heat.data), "data"),
            "device": self.device,
        }


def task_of(heat: Heat) -> Kind:
    """The task that a heat trains."""
    return tasks.find(heat.task)


def batch_of(heat: Heat) -> int | None:
    """Rows (of translation: tokens) of a batch."""
    task = task_of(heat)
    own = {**task.usual, **heat.settings}.get("batch")
    return int(own) if own is not None else getattr(task.task_config(), "batch", None)


def setting_names(heat: Heat, model: str) -> set[str]:
    """Every setting that this model has in this task."""
    task = task_of(heat)
    homes = [Settings, task.task_config, task.data_config, *task.model_settings(model).values()]
    return {f.name for home in homes for f in fields(home)} - set(task.unused_settings(model))


def accepted(heat: Heat, model: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Those of the settings that this model has: `mini_batch` means nothing to an LSTM."""
    names = setting_names(heat, model)
    return {name: value for name, value in settings.items() if name in names}


def own_layers() -> set[str]:
    """Names of the layers of the user's own; what breaks in one of them is told by its row, and the others run."""
    places = os.environ.get(outside.VARIABLE, "").split(os.pathsep)
    return {Path(place).stem.replace("_", "-") for place in places if place}


def _check_settings(heat: Heat, settings: Mapping[str, str]) -> None:
    """Refuse a setting that no entrant has, as a training of the last one would."""
    everywhere: set[str] = set()
    for model in {entrant.model for entrant in heat.entrants()} if settings else ():
        try:
            everywhere |= setting_names(heat, model)
        except Exception:  # code of the user's own may raise anything
            if model not in own_layers():
                raise
    if any(name not in everywhere for name in settings):
        runs.configure(task_of(heat), settings, model=heat.entrants()[-1].model)


def with_models(heat: Heat, models: Sequence[str]) -> Heat:
    """The heat with these models alone, each once."""
    task, own = task_of(heat), own_layers()
    found = tuple(model if model in own else task.check_model(model) for model in dict.fromkeys(models))
    return replace(heat, models=found)
