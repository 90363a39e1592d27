"""A task: its data, the models that can be trained on it, its loss, its metric, and what is shown of them.

`Task` is a class of which every task has one subclass. The class itself describes what is known before data are
read: which settings there are, how data and models are made from them. An instance is bound to data, settings and a
device: it makes batches, computes losses and measures. `train.run` and `train.loop` train all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from . import baselines, laws
from .contract import ContractError, Memory
from .errors import RunError as RunError
from .exported import Exports
from .limits import TooLarge, checked_allocation, describe_shortage, is_out_of_memory
from .settings import SettingError, find_name
from .summary import DataSummary
from .typed import show


class Data(Protocol):
    """What every task's data have."""

    @property
    def name(self) -> str: ...
    @property
    def notes(self) -> list[str]:
        """What a reader of results should know."""
        ...

    @property
    def fingerprint(self) -> str:
        """The same wherever the files lie, and another for other data."""
        ...


D = TypeVar("D", bound=Data)
A = TypeVar("A")  # artifacts: what a run folder stores of its data, such as a tokenizer or a scaler


@dataclass(frozen=True)
class Loss:
    """What one batch gives: the scalar to minimise, how much it counts, and the state to carry on."""

    value: Tensor
    tokens: int  # what the batch adds to those of a run: read or predicted, by the task
    carry: Any = None  # the first state of the next batch or part, for tasks that stream
    terms: Tensor | int | None = None  # how many `value` is the mean of, where ranks share a batch; None: the tokens


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The settings of a run in full: config.json."""

    data: Any  # the task's settings of its data
    task: Any  # and of the task itself
    model: dict[str, Any]  # {"name": …} and the settings of that model
    train: Any  # train.settings.Settings


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A model that was fitted in closed form: how much it read, a line for the user, and what its file notes."""

    tokens: int
    message: str
    note: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)  # options of `evaluate` for this model
    figures: Mapping[str, Any] = field(default_factory=dict)  # beside those that `evaluate` finds


@dataclass
class LoadedRun(Generic[D, A]):
    """A trained run: its settings, model and artifacts; its data, and the task bound to them, once they are needed."""

    path: Path
    kind: "type[Task[D, A]]"
    config: RunConfig
    model: Any
    artifacts: A
    device: str = "cpu"
    data_dir: str | None = None
    steps: Mapping[str, Any] = field(default_factory=dict)  # exported steps beside the weights, by their precision
    notes: list[str] = field(default_factory=list)  # what a reader of figures should know of the data that were read
    draw_initial: Callable[[], Any] | None = None  # the model as the run began with it, anew

    @cached_property
    def data(self) -> D:
        return self.kind.load_data(self.config.data, self.data_dir, self.artifacts)

    @cached_property
    def task(self) -> Any:
        return self.kind(self.config.task, self.data, self.device, self.config.train.seed)

    @property
    def name(self) -> str:
        return f"{self.config.model['name']} ({self.path.name})"


LoadRun = Callable[[str], LoadedRun[Any, Any]]  # handed to tasks whose models are made of other runs


class Task(ABC, Generic[D, A]):
    """One task, bound to `data`, its settings `config` and a device."""

    name: ClassVar[str]
    models: ClassVar[tuple[str, ...]]
    default: ClassVar[str]  # the model that is trained where none is named
    aliases: ClassVar[Mapping[str, str]] = {}  # other names of models, in small letters
    data_config: ClassVar[Any]  # frozen dataclasses
    task_config: ClassVar[Any]
    usual: ClassVar[Mapping[str, str]] = {}  # defaults of settings, where they differ from those of the dataclasses
    counted: ClassVar[Sequence[str]] = ()  # models that are counted, not trained
    unsized: ClassVar[Sequence[str]] = ()  # models without a width that could be solved for
    refused: ClassVar[Mapping[str, str]] = {}  # settings of other tasks, with what this one has in their place
    combined: ClassVar[Sequence[str]] = ()  # models that are made of two trained runs
    sequential: ClassVar[bool] = True  # whether its models read a sequence, so that they have a state
    free_length: ClassVar[bool] = False  # whether rows may be read to any length

    exports: ClassVar[Exports] = Exports()  # what is exported of its models beside the step

    instead: Mapping[str, str] = {}  # baselines that are models: how each is used in place of a worse one
    bounds: ClassVar[Sequence[str]] = ()  # baselines that no model can be better than
    baseline_metric: ClassVar[str | None] = None  # the key of `evaluate` that baselines measure; None: `metric`
    in_nats: ClassVar[bool] = False  # whether the loss is −log p, so that its exponential is a perplexity
    metric: str  # the key of `evaluate` that chooses the best checkpoint; smaller is better

    def __init__(self, config: Any, data: D, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.config, self.data, self.seed = config, data, seed
        self.device = torch.device(device)

    # Settings

    @classmethod
    @abstractmethod
    def model_settings(cls, model: str) -> dict[str, Any]:
        """The dataclasses that hold the settings of a model: `model`, and `layer` for those of its layers."""

    @classmethod
    def unused_settings(cls, model: str) -> Sequence[str]:
        """Settings that other models of the same Config have, and this one does not."""
        return ()

    @classmethod
    def check_model(cls, model: str) -> str:
        """The name of a model that this task can train; any other is refused with one line."""
        return find_name("model", model, cls.models, cls.aliases)

    # Data and artifacts

    @classmethod
    @abstractmethod
    def load_data(cls, config: Any, data_dir: str | None, artifacts: A | None = None) -> D:
        """The data; with a run's artifacts, so that it is read as that run reads it."""

    @classmethod
    def generated_rows(cls, config: Any) -> int | None:
        """How many rows the settings of the data generate; None where rows are read, or drawn only as they are used."""
        return None

    @classmethod
    @abstractmethod
    def artifacts_of(cls, data: D) -> A:
        """What the run folder must store of the data."""

    @classmethod
    @abstractmethod
    def save_artifacts(cls, artifacts: A, folder: Path) -> None: ...

    @classmethod
    @abstractmethod
    def load_artifacts(cls, folder: Path) -> A:
        """What `save_artifacts` wrote; a missing or strange file is one clear line."""

    @classmethod
    @abstractmethod
    def describe_data(cls, data: D) -> dict[str, Any]:
        """The data in config.json: `name`, `fingerprint` and counts."""

    @classmethod
    @abstractmethod
    def summarize_data(cls, data: D) -> str:
        """The data in half a line, for the heats of a race."""

    @classmethod
    def data_summary(cls, data: D) -> DataSummary:
        """What a user should see of the data before training: files, splits, counts."""
        about = cls.describe_data(data)
        facts = {name: value for name, value in about.items() if type(value) is int}
        return DataSummary(name=data.name, facts=facts, notes=data.notes)

    @classmethod
    def other_data(cls, config: Any, data: Sequence[str], artifacts: A) -> Any:
        """The settings for measuring a run on other data."""
        return replace(config, data=tuple(data))

    # Models

    @classmethod
    @abstractmethod
    def resolve(cls, run: RunConfig, data: D, params: int | None) -> RunConfig:
        """The settings in full, with the width that `params` asks for."""

    @classmethod
    @abstractmethod
    def build_model(cls, settings: dict[str, Any], artifacts: A, load_run: LoadRun) -> nn.Module:
        """The model that config.json names."""

    @classmethod
    def combine(cls, model: str, runs: Sequence[LoadedRun[D, A]]) -> RunConfig:
        """The settings of a model that is made of two trained runs."""
        raise ContractError(f"model: expected one that is made of other runs, found {model!r}")

    @classmethod
    @abstractmethod
    def law_example(cls, model: Any, artifacts: A) -> tuple[Any, Tensor, Memory | None]:
        """The module that the laws bind, an input for them (T ≥ 4), and the memory that it reads."""

    @classmethod
    def decoding_laws(
        cls, definition: Any, run: "LoadedRun[D, A]", x: Tensor, memory: Memory | None
    ) -> dict[str, Callable[[], float]]:
        """The law of the step on all that decodes with the model of a run; `definition` is the model in float64."""
        return {}

    @classmethod
    def list_laws(cls, definition: Any, run: "LoadedRun[D, A]") -> Mapping[str, laws.Law | laws.Exempt]:
        """The laws on the model of a run, which `definition` is in float64; of those that do not bind it, why."""
        module, x, memory = cls.law_example(definition, run.artifacts)
        cost: dict[str, laws.Law | laws.Exempt] = {"cost": lambda: laws.cost_of_parts(module, x, memory=memory)}
        return laws.list_laws(module, x, memory) | cost | cls.decoding_laws(definition, run, x, memory)

    @classmethod
    @abstractmethod
    def state_bytes(cls, model: Any, run: RunConfig) -> int:
        """Bytes of state that one row has at the length this run works with."""

    # Training

    @property
    def repeats(self) -> bool:
        """Whether every step runs the same operations, so that one can be captured for all."""
        return True

    @abstractmethod
    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Any]:
        """Batches of a split from the `start`-th on, in an order that depends on `seed` alone; endless for training.

        Since any batch can be reached by its number, a run goes on where it stopped without any state of the data.
        """

    def backward_parts(self, batch: Any) -> Sequence[Any]:
        """The batches that a batch is divided into where gradients are cut; their losses add up to that of the batch.

        Training goes back through each before it reads the next, whose `carry` is what the one before left. Their
        number depends on the run's seed and the batch's number and shape alone.
        """
        return [batch]

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any, carry: Any = None) -> Loss:
        """The loss of a batch, or of one of its `backward_parts`; `carry` is what the one before left."""

    @abstractmethod
    def shape(self, batch: Any) -> tuple[int, ...]:
        """What the cost of a batch depends on: rows, steps, and the length of a source where there is one."""

    def reading_shape(self, model: Any, batch: Any) -> tuple[int, int]:
        """Rows and steps of a batch, as the module of `law_example` reads them."""
        rows, steps = self.shape(batch)[:2]
        return rows, steps

    @abstractmethod
    def flops(self, model: Any, *shape: int) -> float:
        """Matrix-product FLOPs of a forward pass over a batch of that shape."""

    def solve(self, model: Any, tokens: float | None) -> Solution | None:
        """Fit a model that has a closed form, on at most so many tokens; None for those that are trained."""
        return None

    def calibrate(self, model: Any) -> bool:
        """Fit what is fitted after training, on validation; whether anything was."""
        return False

    # Measuring

    @property
    def reported(self) -> str:
        """The part of the data that a race reports on: the test, or validation where there is none."""
        return "valid" if getattr(self.data, "test", None) is None else "test"

    @abstractmethod
    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        """The metrics on a whole split, with the rule by which they were computed."""

    @abstractmethod
    def baselines(self, split: str) -> dict[str, float]:
        """What guesses reach that need no learning, by the figure `metric`."""

    def compared(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The figure of an evaluation that `baselines` are of: {name, value} of the model."""
        name = self.baseline_metric or self.metric
        return {"name": name, "value": float(found[name])}

    def compare_to_baselines(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The baselines on validation, and a line on where an evaluation there stands beside them."""
        guesses = {name: value for name, value in self.baselines("valid").items() if name not in self.bounds}
        words = baselines.compare(self.compared(found)["value"], guesses, self.instead)
        return {"baselines": guesses, "beside_baselines": words}

    @abstractmethod
    def figures(self, model: nn.Module, split: str, **options: Any) -> dict[str, Any]:
        """What a model reaches: `metric` is {name, value, rule}, and whatever else a row should hold.

        With the option `pieces` a metric's values on equal pieces of the split too, by its name, where it has such.
        Where `baselines` are of another figure than `metric`, `compared` has that one (see the method).
        """

    def metric_row(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The metric of an evaluation, as `figures` and a row have it."""
        return {"name": self.metric, "value": found[self.metric], "rule": found["rule"]}

    @classmethod
    def evaluation_rules(cls, name: str) -> list[str]:
        """The rules of measuring that `name` stands for, in tasks that have several."""
        raise SettingError(f"--rule: expected a task with several rules, found {cls.name}, which has one")

    @classmethod
    @abstractmethod
    def table(cls, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        """What `figures` found, to be printed: columns, rows, and lines below them."""

    @classmethod
    @abstractmethod
    def headline(cls, found: dict[str, Any]) -> str:
        """The evaluation that a training ends with, in a line."""

    # Inspection, and what the page of a race shows

    request_options: ClassVar[Sequence[str]] = ()  # of `text` and `image`, what can be read in place of the data

    @staticmethod
    def probe(run: Any, request: Any) -> Any:
        """The model beside rows of its data, for the instruments (see `core.inspection`)."""
        raise ContractError(f"inspect: expected a task with rows to look at, found {run.kind.name}, which has none")

    @classmethod
    def layer_of(cls, model: str) -> str:
        """The registered layer that does the remembering in a model."""
        return model

    def sample(self, run: LoadedRun[D, A]) -> Any:
        """What a model writes, for a reader; None where it writes nothing."""
        return None

    def declared_cost(self, run: LoadedRun[D, A], length: int) -> tuple[float, float] | None:
        """FLOPs and bytes of state of one row of that length, as the model declares them; None where it is fixed."""
        cost = getattr(run.model, "cost", None)
        if cost is None:
            return None
        own = cost(1, length)
        return own.flops, own.state_bytes


@contextmanager
def building(model: Any) -> Iterator[None]:
    """Turns what is raised where a model is built from settings that do not fit it, or this machine, into one line."""
    lower = "lower width, layers or the vocabulary"
    try:
        with checked_allocation(f"model: {show(model)}", lower):
            yield
    except (KeyError, TypeError, AttributeError, RuntimeError, MemoryError, OverflowError) as error:
        if is_out_of_memory(error):
            raise TooLarge(f"model: {describe_shortage(error, lower.removeprefix('lower '))}") from error
        reason = " ".join(str(error).split())
        raise ContractError(f"model: expected settings of {model!r}, found others ({reason})") from error


def describe_model(model: str, config: Any, decided: Sequence[str] = ()) -> dict[str, Any]:
    """A model in config.json: its name, and its settings but for those that its data decide."""
    return {"name": model} | {key: value for key, value in asdict(config).items() if key not in (*decided, "model")}
