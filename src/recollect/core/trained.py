"""A trained model ready for use from Python: what all tasks share. Nothing here imports torch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from .errors import RecollectError
from .settings import known

Array = NDArray[Any]
State = Any  # what `step` returns beside its output, to be given to the next call


class Source(ABC):
    """Where a trained model comes from: a run folder, or an exported one."""

    path: Path
    task: str
    model: str  # the name of its architecture
    device: str
    exported: Any = None  # the `ExportedFolder`, where it is one
    notes: Sequence[str] = ()  # what should be known of its weights

    @property
    @abstractmethod
    def run(self) -> Any:
        """The `LoadedRun`, with torch; an exported folder has none and says so."""

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """config.json, or what the manifest of an exported folder has of it."""

    @property
    @abstractmethod
    def artifacts(self) -> Path:
        """The folder with the tokenizer, scaler or names."""

    @abstractmethod
    def open_step(self, steps: int = 0, precision: str | None = None, threads: int | None = None) -> Any | None:
        """The exported step for onnxruntime; None where there is none, and `steps` do not pay for making one.

        Where a `precision` of its weights is asked for, it is made if need be. `threads` are by default as many as its
        size is worth.
        """

    @abstractmethod
    def plain_step(self) -> Any:
        """The model's own call as a function of x and state."""

    @abstractmethod
    def measure(self, **options: Any) -> dict[str, Any]:
        """The figures of the run on its own or other data."""

    @abstractmethod
    def verify(self) -> dict[str, Any]:
        """Each law with the largest error, or with how it was broken."""


class TrainedModel:
    """A trained model. `recollect.load` makes one of the class that belongs to its task."""

    methods: ClassVar[Sequence[str]] = ()  # what the task adds, for `repr`

    def __init__(self, source: Source) -> None:
        self._source = source
        self._step: Any = None

    @property
    def path(self) -> Path:
        """The folder that it was loaded from."""
        return self._source.path

    @property
    def task(self) -> str:
        """The name of its task, such as `text`."""
        return self._source.task

    @property
    def model(self) -> str:
        """The name of its architecture, such as `lstm`."""
        return self._source.model

    @property
    def settings(self) -> Mapping[str, Any]:
        """Its settings in full, as config.json has them."""
        return self._source.settings

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known of its weights: that no validation chose them, of a run that was stopped before one."""
        return tuple(self._source.notes)

    @property
    def engine(self) -> str:
        """What computes a step: `onnxruntime` with its version, or `torch` with the device."""
        if self._source.exported is not None or self._source.open_step() is not None:
            from importlib.metadata import version

            return f"onnxruntime {version('onnxruntime')} on cpu"
        return f"torch on {self._source.device}"

    @property
    def module(self) -> Any:
        """The `torch.nn.Module` itself, in eval mode."""
        return self._source.run.model

    def evaluate(self, split: str = "valid", data: str | Sequence[str] = (), **options: Any) -> dict[str, Any]:
        """The metric on a split of its own data, or on other `data`, with the rule by which it was computed."""
        given = (data,) if isinstance(data, str) else tuple(data)
        return self._source.measure(split=split, data=given, **options)

    def verify(self) -> dict[str, Any]:
        """The laws of the contract on the trained weights: the largest error of each, or how it was broken."""
        return self._source.verify()

    def step(self, x: Any, state: State = None) -> tuple[Array, State]:
        """One step of the model: the output for x (B numbers, or B D), and the state after it.

        `state` is what the step before returned; None begins anew. It can be used once: `state.copy()` keeps one, to
        fork or to rewind. A single number (or a vector) is a batch of one.
        """
        return self._stepper(x, state)

    def initial_state(self, rows: int = 1) -> State:
        """The state before `step` has seen anything, of so many rows."""
        return self._stepper.initial_state(rows)

    @property
    def limit(self) -> int | None:
        """How many steps a state can see, where its positions are learned; None: any number."""
        return self._stepper.limit

    def join(self, states: Sequence[State]) -> State:
        """The rows of several states in one, which `step` takes on together; `state.select([row])` takes one out again.

        The rows may have seen different numbers of steps. The states that are joined stay as they are.
        """
        if not states:
            raise RecollectError("join: expected at least one state, found none")
        return self._stepper.join(states)

    def prepare(self, steps: int = 0) -> None:
        """Open what it works with, so that the first call takes no longer than others.

        Where so many `steps` to come pay for it, the exported step is made if it is not there.
        """
        if self._source.open_step(steps) is None and self._source.exported is None:
            _ = self._source.run

    @property
    def _stepper(self) -> Any:
        if self._step is None:
            self._step = self._make_step()
        return self._step

    def explain(self, *given: Any, **options: Any) -> dict[str, Array]:
        """What the layers did at the last step of one input, by name: gates, attention weights, and the like.

        Of texts and translations; what other tasks read is a batch of windows, pictures or pairs rather than one text,
        which the instruments of `recollect inspect` explain.
        """
        raise RecollectError(
            f"explain: expected a model of text or translation, found one of {self.task}; "
            f"`recollect inspect` has the instruments for it"
        )

    def _make_step(self) -> Any:
        step = self._source.open_step()
        return self._source.plain_step() if step is None else Stepper(step)

    def __repr__(self) -> str:
        can = ", ".join([*self.methods, "step", "evaluate", "verify"])
        return f"<{self.task} model {self.model!r} from {self.path}: {can}>"


class Stepper:
    """Calls of an exported step with numbers or arrays of any integer or floating type."""

    def __init__(self, step: Any) -> None:
        self.own = step
        self.dtype: np.dtype[Any] = np.dtype(step.x.dtype)
        self.axes = len(step.x.shape)
        self.state: type[Any] = type(step.initial_state(1))
        self.limit: int | None = step.manifest.limit

    def initial_state(self, rows: int) -> State:
        """The state before anything was seen."""
        return self.own.initial_state(rows)

    def join(self, states: Sequence[State]) -> State:
        """The rows of several states in one."""
        for state in states:
            self.check(state)
        return self.own.join(states)

    def check(self, state: State) -> None:
        """Refuse what is no state of this model."""
        if not isinstance(state, self.state):
            raise RecollectError(f"step: expected the state that a step returned, found {type(state).__name__}")
        if state.step is not self.own:  # its memory is bound to the other model, which would answer
            raise RecollectError("step: expected a state of this model, found one of another; load a model once")

    def __call__(self, x: Any, state: State) -> tuple[Array, State]:
        if not (isinstance(x, np.ndarray) and x.dtype == self.dtype and x.ndim == self.axes):  # pyright: ignore[reportUnknownMemberType]
            x = as_input(x, self.dtype, self.axes)
        if state is None:
            state = self.own.initial_state(len(cast(Array, x)))
        else:
            self.check(state)
        try:
            y, state = self.own(x, state)
        except RuntimeError as error:  # of onnxruntime: a token outside the vocabulary
            reason = str(error).splitlines()[0]
            raise RecollectError(
                f"step: expected numbers of tokens of the model, found others ({reason:.200})"
            ) from None
        return y.copy(), state


def check_text(where: str, text: Any) -> str:
    """A text; anything else is refused."""
    if not isinstance(text, str):
        raise RecollectError(f"{where}: expected a text, found {type(text).__name__}")
    return text


def check_options(where: str, options: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """Refuse a misspelt option with a suggestion."""
    for name in options:
        known(f"option of {where}", name, allowed)


def as_input(x: Any, dtype: np.dtype[Any], axes: int) -> Array:
    """The input of a step as an array of B or B D, from a number, a list, an array or a tensor."""
    try:
        found = np.asarray(x)
    except (ValueError, TypeError, RuntimeError) as error:
        raise RecollectError(f"step: expected numbers, found {type(x).__name__} ({error})") from None
    if found.dtype.kind not in ("iu" if dtype.kind == "i" else "iuf"):
        kind = "token numbers" if dtype.kind == "i" else "numbers"
        raise RecollectError(f"step: expected {kind}, found {found.dtype} {str(x)[:40]}")
    if dtype.kind == "i" and found.size and found.min() < 0:
        raise RecollectError(f"step: expected token numbers of at least 0, found {found.min()}")
    if found.ndim == axes - 1:
        found = found[None]
    if found.ndim != axes:
        shape = "one number a row" if axes == 1 else "one vector a row (B D)"
        raise RecollectError(f"step: expected {shape}, found an array of shape {found.shape}")
    return np.ascontiguousarray(found, dtype)
