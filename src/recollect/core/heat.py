"""A heat of a race: one task, the models that enter it, and what is the same for all of them. Data only, no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .metric import Metric


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
    names the baseline that is a lower bound of the error. `chosen` is how validation reads by what the setting
    `choose` has it watch, where that is not as usual. `default_rank` is the place of the heat in a race of no task
    named, None for those that are not in it.
    """

    name: str
    task: str
    title: str
    question: str
    metric: Metric
    validation: Metric
    elsewhere: Metric | None = None
    models: Sequence[str]
    params: int | None
    steps: int
    settings: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    ladder: str | None = None
    rungs: tuple[Rung, ...] = ()
    step_by_step: bool = False
    floor: str | None = None
    chosen: Mapping[str, Metric] = field(default_factory=dict)
    default_rank: int | None = None

    def entrants(self) -> list["Entrant"]:
        """The models, or the rungs with the settings of all rungs up to them."""
        if not self.rungs:
            return [Entrant(label=model, model=model) for model in self.models]
        gathered: dict[str, str] = {}
        found = []
        for rung in self.rungs:
            gathered = {**gathered, **rung.settings}
            found.append(Entrant(label=rung.name, model=rung.model, settings=gathered, rung=rung.name))
        return found


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """One entry of a heat, for all seeds."""

    label: str
    model: str
    settings: Mapping[str, str] = field(default_factory=dict)
    rung: str | None = None
