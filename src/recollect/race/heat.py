"""A heat: one task, the models that enter it, and what is the same for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..config import SettingError
from ..train.job import Job
from ..train.jobs import JOBS
from ..train.settings import Settings
from .metric import Metric

EQUALS = ("params", "tokens", "flops", "seconds")


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A step of a ladder: a model, and the settings that it changes against the rung before."""

    name: str
    model: str
    change: str  # what is new, in one sentence
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Heat:
    """The terms of a heat. `validation` is how the figure reads that a run is watched by while it learns.

    `elsewhere` is the metric on data of the user's own. `params` None leaves sizes as the settings say. With `rungs`
    the entries are those of a ladder; `step_by_step` measures a text one token at a time, as it is written. `floor`
    names the baseline that is no guess: what nobody can get below. `chosen` is how validation reads by what the setting
    `choose` has it watch, where that is not as usual.
    """

    name: str
    task: str
    title: str
    question: str
    metric: Metric
    validation: Metric
    elsewhere: Metric | None = None
    models: tuple[str, ...]
    params: int | None
    steps: int
    settings: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    ladder: str | None = None
    rungs: tuple[Rung, ...] = ()
    step_by_step: bool = False
    floor: str | None = None
    chosen: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def job(self) -> Job[Any, Any]:
        return JOBS[self.task]

    def climbers(self) -> list["Climber"]:
        """Who enters: the models, or the rungs with the settings that they have gathered."""
        if not self.rungs:
            return [Climber(label=model, model=model) for model in self.models]
        gathered: dict[str, str] = {}
        found = []
        for rung in self.rungs:
            gathered = {**gathered, **rung.settings}
            found.append(Climber(label=rung.name, model=rung.model, settings=gathered, rung=rung.name))
        return found


@dataclass(frozen=True, kw_only=True)
class Climber:
    """Who enters a heat, whatever the seed."""

    label: str
    model: str
    settings: Mapping[str, str] = field(default_factory=dict)
    rung: str | None = None


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
    search: int | None = None  # rates to try; None: where none is committed

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

    def of(self, heat: Heat) -> Heat:
        """The heat with what was decided."""
        if self.params is not None and heat.params is None:
            raise SettingError(
                f"--params: expected a heat with one size for all, found {heat.name}, where sizes differ; leave it out"
            )
        changes: dict[str, Any] = {"params": self.params or heat.params}
        if self.equal == "params" and self.budget is not None:
            changes["steps"] = max(1, int(self.budget))
        if (choice := self.settings.get("choose", "")) in heat.chosen:
            changes["validation"] = heat.chosen[choice]
        if heat.elsewhere is not None and self.data.get("data"):
            changes["metric"] = heat.elsewhere
        changes["settings"] = {**heat.settings, **_fitting(heat, self.settings)}
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
            "settings": dict(heat.settings),
            "data": {name: list(value) if isinstance(value, tuple) else value for name, value in heat.data.items()},
            "device": self.device,
        }


def batch_of(heat: Heat) -> int | None:
    """Rows (of translation: tokens) of a batch."""
    own = {**heat.job.usual, **heat.settings}.get("batch")
    return int(own) if own is not None else getattr(heat.job.task_config(), "batch", None)


def setting_names(heat: Heat, model: str) -> set[str]:
    """Every setting that this model has in this task."""
    job = heat.job
    homes = [Settings, job.task_config, job.data_config, *job.homes(model).values()]
    return {f.name for home in homes for f in fields(home)} - set(job.idle(model))


def accepted(heat: Heat, model: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Those of the settings that this model has: `mini_batch` means nothing to an LSTM."""
    names = setting_names(heat, model)
    return {name: value for name, value in settings.items() if name in names}


def _fitting(heat: Heat, settings: Mapping[str, str]) -> Mapping[str, str]:
    """Settings that at least one entrant has; the job tells of others in its own words."""
    entrants = {climber.model for climber in heat.climbers()}
    everywhere = set().union(*(setting_names(heat, model) for model in entrants))
    if any(name not in everywhere for name in settings):
        heat.job.configure(settings, model=heat.climbers()[-1].model)
    return settings


def chosen(heat: Heat, models: Sequence[str]) -> Heat:
    """The heat with these models alone, each once."""
    return replace(heat, models=tuple(dict.fromkeys(heat.job.takes(model) for model in models)))
