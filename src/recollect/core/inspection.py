"""Inspection of runs: the rows asked for (`Request`), a model with its inputs (`Probe`), results (`Reading`)."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from . import state as states
from .chart import Chart, Map
from .contract import ContractError, Memory
from .settings import option
from .task import LoadedRun

MOST_STEPS = 100_000  # of a row


@dataclass(frozen=True, kw_only=True)
class Request:
    """How much of a run's data is read, or what in its place; None: as the run has it."""

    rows: int | None = option(None, "Rows of validation that are looked at.", most=10_000)
    steps: int | None = option(None, "Steps of each.", most=MOST_STEPS)
    text: str | None = option(None, "This text in place of validation.")
    image: str | None = option(None, "Of captions and films: this picture or film.")
    sound: str | None = option(None, "Of transcribe: this recording.")

    @property
    def own_data(self) -> bool:
        """Whether the run's own data are read."""
        return self.text is None and self.image is None and self.sound is None


@dataclass(frozen=True)
class Instrument:
    """An instrument: its name, its options (a dataclass of flags), and the function that applies it to a run."""

    name: str
    options: type
    read: Callable[[LoadedRun[Any, Any], Any], "Reading"]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """`model` obeys the contract; every row of x has T steps, and outputs are asked for after the steps `places`.

    `source` is what `model.encode` is given where there is something to encode. What goes step by step is `stepper`
    with its inputs `steps`: the model itself, or the part of it that has the state; None where none has.
    """

    model: Any
    x: Tensor  # B T tokens, or B T D numbers
    y: Tensor  # B O, what should come (tokens, labels), or B O V numbers
    places: Sequence[int]
    inputs: Sequence[str]  # names of the first row's steps
    outputs: Sequence[str]  # and of what was asked of it
    categorical: bool = True  # whether outputs are logits over tokens or classes; else numbers
    ahead: bool = False  # whether all outputs come after the last step
    source: tuple[Tensor, ...] | None = None
    source_names: Sequence[str] = ()
    stepper: Any = None
    steps: Tensor | None = None
    encode: Callable[[str], Sequence[int]] | None = None  # words to tokens, where x holds tokens of a text
    data: str = ""  # where the rows are from, in words
    missing: str | None = None  # why the run's own data could not be read, where something else is

    def memory(self, rows: Tensor | None = None, source: Tensor | None = None) -> Memory | None:
        """What an encoder leaves of the source, of these rows; `source` takes the place of the first of its parts."""
        if self.source is None:
            return None
        parts = self.source if rows is None else tuple(part[rows] for part in self.source)
        return self.model.encode(*(parts if source is None else (source, *parts[1:])))

    def run(self, x: Tensor, rows: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        """Every output of the model: B T V; `rows` are the rows of the probe that those of x stand for."""
        state = self.model.initial_state(len(x), memory=self.memory(rows, source))
        return self.model(x, state)[0]

    def answers(self, x: Tensor, rows: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        """What was asked, B O V: log-probabilities of a choice, or numbers."""
        return self.read(self.run(x, rows, source)[:, list(self.places)])

    def last(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """The output after the last step of an x of any length: B 1 V, or of a forecaster the whole horizon."""
        y = self.run(x, rows)
        return self.read(y if self.ahead else y[:, -1:])

    def read(self, y: Tensor) -> Tensor:
        return y.log_softmax(dim=-1) if self.categorical else y

    def losses(self, predicted: Tensor, y: Tensor) -> Tensor:
        """Nats, or squared errors, of predictions (B O V): the mean of each row."""
        if not self.categorical:
            return (predicted - y).square().flatten(1).mean(dim=1)
        return cross_entropy(predicted.flatten(0, 1), y.flatten(), reduction="none").view_as(y).mean(dim=1)

    @property
    def last_targets(self) -> Tensor:
        """The targets after the last step: B 1, or of a forecaster the whole horizon."""
        return self.y if self.ahead else self.y[:, -1:]

    def first(self, rows: int = 1) -> Self:
        """The first rows alone."""
        source = None if self.source is None else tuple(part[:rows] for part in self.source)
        if rows == 1 and source is not None and self.source_names:
            source = (source[0][:, : len(self.source_names)], *source[1:])  # its own padding goes
        each = 1 if self.steps is None else len(self.steps) // len(self.x)  # a forecaster may make several of a row
        steps = None if self.steps is None else self.steps[: rows * each]
        return replace(self, x=self.x[:rows], y=self.y[:rows], source=source, steps=steps)

    def double(self) -> Self:
        """The same in float64, the model a copy: small gradients do not drown."""

        def to(tensor: Tensor) -> Tensor:
            return tensor.double() if tensor.is_floating_point() else tensor

        model = copy.deepcopy(self.model).double()
        source = None if self.source is None else tuple(map(to, self.source))
        stepper = None if self.stepper is None else getattr(model, "stepping_part", model)
        steps = None if self.steps is None else to(self.steps)
        return replace(
            self, model=model, x=to(self.x), y=to(self.y), source=source, stepper=stepper, steps=steps
        )  # fmt: skip

    def token(self, text: str) -> int:
        """The one token that a text is."""
        if self.encode is None:
            raise ContractError("token: expected a model that reads words, found one that reads something else")
        found = self.encode(text)
        if len(found) != 1:
            raise ContractError(f"token: expected a text that is one token, found {len(found)} in {text!r}")
        return int(found[0])

    def stepping(self) -> tuple[Any, Tensor, Any]:
        """What goes step by step, its inputs, and its first state."""
        if self.stepper is None or self.steps is None:
            raise ContractError(
                "inspect: expected a model that goes step by step, found one that sees all of its past at once "
                "(attention=full); it has no state"
            )
        rows = len(self.steps)
        with torch.no_grad():
            return self.stepper, self.steps, self.stepper.initial_state(rows, memory=self.memory())


def changing_tensors(state: Any) -> list[tuple[str, Tensor]]:
    """The tensors of a state that steps change: floating ones, but for what never changes while decoding."""

    def found(part: Any, prefix: str) -> Any:
        if isinstance(part, Tensor):
            if part.is_floating_point() and part.numel():
                yield prefix, part
        elif isinstance(part, tuple):
            still = getattr(part, "constant", ())
            names = getattr(part, "_fields", [str(i) for i in range(len(part))])
            for name, own in zip(names, part, strict=True):
                if name not in still:
                    yield from found(own, f"{prefix}.{name}" if prefix else name)

    return list(found(state, ""))


def step_through(stepper: Any, x: Tensor, state: Any) -> Any:
    """Run a model step by step: (what it explains, output, state) of each step."""
    with torch.no_grad():
        for t in range(x.shape[1]):
            explain = getattr(stepper, "explain", None)
            shown = {} if explain is None else explain(state, x[:, t])
            y, state = stepper(x[:, t : t + 1], state)
            yield shown, y[:, 0], states.detach(state)


def spread_evenly(count: int, rows: int) -> np.ndarray:
    """`rows` indices below `count`, evenly from the first to the last."""
    return np.unique(np.linspace(0, count - 1, min(rows, count)).astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The result of an instrument: `summary` in lines of text, `figures` with every number, `charts` by importance.

    `picture` is what attention weights are drawn over: H W 3, from 0 to 255, or T H W 3 of a film; or `spectrum`, the
    frames of a sound, T bands, with the seconds of a frame and of a step of the weights among the figures. `notes` are
    about the data; `model` is the name of the one that was looked at.
    """

    summary: Sequence[str]
    figures: dict[str, Any] = field(default_factory=dict)
    charts: Sequence[Chart | Map] = ()
    picture: Any = None
    spectrum: Any = None
    notes: Sequence[str] = ()
    model: str = ""

    def to_json(self) -> dict[str, Any]:
        content = {"summary": list(self.summary), **self.figures, "charts": [chart.to_json() for chart in self.charts]}
        return finite(content)


def finite(content: Any) -> Any:
    """The same with None in place of numbers that JSON lacks (NaN, infinity)."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {str(name): finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return content


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of the straight line that lies nearest to the points, by least squares; NaN for fewer than two."""
    if len(x) < 2:
        return math.nan
    a, b = sum(x) / len(x), sum(y) / len(y)
    return sum((u - a) * (v - b) for u, v in zip(x, y, strict=True)) / sum((u - a) ** 2 for u in x)
