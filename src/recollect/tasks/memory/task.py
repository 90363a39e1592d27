"""The tests of memory as tasks: any of them, for any model, through the loop that trains everything.

Training never sees a row twice on purpose; validation and test are fixed sets of rows, the same for every run. The
tokens of a run are the steps that it has read, asked about or not; older rows in results/ count answers instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...core import pieces, typed
from ...core.artifacts import read_artifact, write_artifact
from ...core.contract import ContractError, Memory
from ...core.settings import SettingError, distribute, refuse_both_ways, split
from ...core.task import LoadRun, Loss, RunConfig, RunError, Task, building, describe_model
from ...data.files import DataError
from ...layers import LAYERS
from ...models import classifier
from ...models.body import KINDS, StackedModels, kind_of
from . import probe
from .data import CLOSE, Adding, Copy, Gap, Order, Parity, Recall
from .export import MemoryExports
from .generator import PARTS, VERSION, Rows, Test
from .sentences import Agreement, Clouds, Nested
from .settings import Config

SEED = 0  # of validation and test, whatever the seed of the run
FILE = "memory.json"
DECIDED = ("inputs", "outputs", "tokens", "pool")  # settings of the model that the test decides


class Batch(NamedTuple):
    x: Tensor  # B T tokens, or B T D numbers
    at: Tensor  # B A, the steps at which something is asked
    y: Tensor  # B A, the answers
    number: int


class Judged(NamedTuple):
    """What a model was worth on every answer of a set."""

    losses: Tensor  # N A: nats, or squared errors
    right: Tensor  # N J, of the answers that are the test's questions


class MemoryTask(StackedModels, Task[Test, Test]):
    """A test of memory to pass; every test has a subclass, which names its settings. The settings are the data."""

    models = tuple(KINDS)
    default = "lstm"
    task_config = Config
    exports = MemoryExports()
    data_config: ClassVar[type[Test]]
    # rows are never seen twice, so there is nothing for decay to guard against
    usual: ClassVar[Mapping[str, str]] = {"lr": "3e-3", "weight_decay": "0"}
    refused: ClassVar[Mapping[str, str]] = refuse_both_ways("a test of memory, which asks after single steps")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        test = cls.data_config
        cls.name, cls.metric, cls.in_nats = test.kind, test.metric, test.metric != "mse"

    def __init__(self, config: Config, data: Test, device: torch.device | str = "cpu", seed: int = 0) -> None:
        super().__init__(config, data, device, seed)
        self.drawn: dict[tuple[str, int], Rows] = {}  # the rows of evaluations, by split and dial
        data.turned(max(data.points())).check_rows(config.eval_rows)  # before anything is trained
        data.check_rows(config.batch)

    # Data and models

    @classmethod
    def model_settings(cls, model: str) -> dict[str, Any]:
        return {"model": classifier.Settings, "layer": LAYERS[kind_of(model).layer]}

    @classmethod
    def unused_settings(cls, model: str) -> Sequence[str]:
        return ("both_ways",)

    @classmethod
    def load_data(cls, config: Test, data_dir: str | None, artifacts: Test | None = None) -> Test:
        """Another test than the run's own must have the same words."""
        if artifacts is not None and (config.inputs, config.outputs) != (artifacts.inputs, artifacts.outputs):
            raise ContractError(
                f"{cls.name}: expected a test with {artifacts.inputs} inputs and {artifacts.outputs} answers as the "
                f"run has, found {config.inputs} and {config.outputs}"
            )
        return config

    @classmethod
    def artifacts_of(cls, data: Test) -> Test:
        return data

    @classmethod
    def save_artifacts(cls, artifacts: Test, folder: Path) -> None:
        write_artifact(folder, FILE, artifacts.settings(), indent=1)

    @classmethod
    def load_artifacts(cls, folder: Path) -> Test:
        content = read_artifact(folder, FILE)
        try:
            typed.check_keys(content, "", known=None, needed=("kind", "version"))
            found = {name: content.pop(name) for name in ("kind", "version")}
            if found == {"kind": cls.name, "version": VERSION}:
                return typed.read(content, cls.data_config)
        except ValueError as error:
            found = error
        raise RunError(
            f"{folder / FILE}: expected the settings of a {cls.name} test of version {VERSION}, found {found}"
        )

    @classmethod
    def describe_data(cls, data: Test) -> dict[str, Any]:
        counts = {"inputs": data.inputs, "outputs": data.outputs, "steps": data.steps, "questions": data.judged}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | {"notes": data.notes}

    @classmethod
    def summarize_data(cls, data: Test) -> str:
        return f"{data.name}: rows of {data.steps:,} steps"

    @classmethod
    def other_data(cls, config: Test, data: Sequence[str], artifacts: Test) -> Test:
        """The same test with other dials, as `--data distance=200`."""
        try:
            return replace(config, **distribute(split(data), {"data": cls.data_config})["data"])
        except SettingError as error:
            names = ", ".join(field.name for field in fields(cls.data_config))
            raise SettingError(f"--data: expected a dial of {cls.name} ({names}) as name=value; {error}") from error

    @classmethod
    def resolve(cls, run: RunConfig, data: Test, params: int | None) -> RunConfig:
        config = cls._configure_model(run.model, data)
        if params is not None:
            config = config.sized(params, f"a {config.model} with {data.inputs:,} inputs and {data.outputs:,} answers")
        longest = max(data.turned(value).steps for value in data.points())
        config = replace(config, max_positions=max(config.max_positions, longest))
        return replace(run, model=describe_model(config.model, config, DECIDED))

    @classmethod
    def build_model(cls, settings: dict[str, Any], artifacts: Test, load_run: LoadRun) -> nn.Module:
        with building(str(settings.get("name"))):
            return cls._configure_model(settings, artifacts).build()

    @classmethod
    def _configure_model(cls, settings: dict[str, Any], test: Test) -> classifier.Config:
        own = {"inputs": test.inputs, "outputs": test.outputs, "tokens": test.tokens, "pool": "each"}
        rest = {name: value for name, value in settings.items() if name != "name"}
        return classifier.Config(model=cls.check_model(settings["name"]), **own, **rest)

    @classmethod
    def law_example(cls, model: nn.Module, artifacts: Test) -> tuple[nn.Module, Tensor, Memory | None]:
        generator = torch.Generator().manual_seed(0)
        if artifacts.tokens:
            return model, torch.randint(artifacts.inputs, (3, 12), generator=generator), None
        return model, torch.rand(3, 12, artifacts.inputs, generator=generator, dtype=torch.float64), None

    @classmethod
    def state_bytes(cls, model: Any, run: RunConfig) -> int:
        return model.cost(1, run.data.steps).state_bytes

    # Training

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        if split != "train":
            yield from self._cut(self._rows(split, self.data.value), start)
            return
        number = start
        while True:
            yield self._batch(self.data.batch(split, seed, number, self.config.batch), number)
            number += 1

    def _rows(self, split: str, value: int) -> Rows:
        """The fixed rows of a split with the dial at `value`."""
        if split not in PARTS:
            raise DataError(f"{self.name}: expected a split out of {', '.join(PARTS)}, found {split!r}")
        if (split, value) not in self.drawn:
            turned = self.data.turned(value)
            self.drawn[split, value] = turned.batch(split, SEED, 0, self.config.eval_rows)
        return self.drawn[split, value]

    def _cut(self, rows: Rows, start: int = 0) -> Iterator[Batch]:
        size = self.config.eval_batch
        for number in range(start, -(-len(rows.x) // size)):
            part = slice(number * size, (number + 1) * size)
            yield self._batch(Rows(*(array[part] for array in rows)), number)

    def _batch(self, rows: Rows, number: int) -> Batch:
        x, at, y = (self._tensor(array) for array in rows)
        return Batch(x, at, y, number)

    def _tensor(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor

    def loss(self, model: Any, batch: Batch, carry: Any = None) -> Loss:
        """Over the steps at which something is asked, and no others."""
        losses = self.losses(answers(model, batch.x, batch.at), batch.y)
        return Loss(losses.mean(), batch.y.shape[0] * batch.x.shape[1], terms=losses.numel())

    def losses(self, logits: Tensor, y: Tensor) -> Tensor:
        """Nats, or squared errors, of each answer: B A."""
        logits = logits.float()  # also where the model runs in half precision
        if not self.data.tokens:
            return (logits[..., 0] - y).square()
        return cross_entropy(logits.transpose(1, 2), y, reduction="none")

    @property
    def repeats(self) -> bool:
        return not self.data.vary

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return *batch.x.shape[:2], batch.at.shape[1]

    def flops(self, model: Any, *shape: int) -> float:
        rows, steps, asked = shape
        unasked = 2 * rows * (steps - asked) * model.head.weight.numel()
        return model.cost(rows, steps).flops - unasked

    # Measuring

    def evaluate(self, model: Any, split: str) -> dict[str, Any]:
        """The metric with the dial where it stands; `points` has its other values too, those beyond training included.

        `by_place` is the share of right answers at each of the row's questions, in their order.
        """
        test = self.data
        found = {value: self.judge(model, split, value) for value in test.points()}
        own = found[test.value]
        points = [{test.dial: value} | self._figures(judged) for value, judged in found.items()]
        return self._figures(own) | {
            "by_place": own.right.double().mean(dim=0).tolist(),
            "points": points,
            "answers": own.right.numel(),
            "chance": test.chance,
            "baselines": self.baselines(split),
            "rule": self.rule(),
            "pieces": self._pieces(own),
        }

    @property
    def reported(self) -> str:
        return "test"

    def _pieces(self, judged: Judged) -> dict[str, list[float]]:
        found = {"accuracy": pieces.cut(judged.right.double().mean(dim=1))}
        return found if self.data.tokens else found | {"mse": pieces.cut(judged.losses.double().mean(dim=1))}

    def _figures(self, judged: Judged) -> dict[str, float]:
        loss, accuracy = float(judged.losses.double().mean()), float(judged.right.double().mean())
        last = float(judged.right[:, -1].double().mean())
        found = {"loss": loss, "accuracy": accuracy, "last": last, "error": 1 - accuracy}
        return found if self.data.tokens else found | {"mse": loss}

    @torch.no_grad()
    def judge(self, model: Any, split: str, value: int) -> Judged:
        """Every answer of a split with the dial at `value`."""
        asked = self.data.turned(value).judged
        losses, right = [], []
        for batch in self._cut(self._rows(split, value)):
            logits = answers(model, batch.x, batch.at)
            losses.append(self.losses(logits, batch.y).cpu())
            good = logits.argmax(dim=-1) == batch.y if self.data.tokens else losses[-1] < CLOSE**2
            right.append(good[:, -asked:].cpu())
        return Judged(torch.cat(losses), torch.cat(right))

    def rule(self) -> str:
        """How the figures came about, in words."""
        test = self.data
        rows = f"{self.config.eval_rows:,} generated rows with {test.dial} {test.value}"
        asked = f"{test.judged} questions" if test.judged > 1 else "one question"
        if not test.tokens:
            return f"squared error of {rows}, {asked} each; right is what is less than {CLOSE} off"
        scope = "" if test.metric == "error" else "nats over every answer, accuracy over the questions; "
        return f"{scope}{rows}, {asked} each, the likeliest answer taken"

    def baselines(self, split: str) -> dict[str, float]:
        return self.data.baselines()

    def figures(self, model: Any, split: str, **options: Any) -> dict[str, Any]:
        found = self.evaluate(model, split)
        if not options.get("pieces"):
            del found["pieces"]
        return {"metric": self.metric_row(found)} | found

    @classmethod
    def table(cls, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        dial, measure = cls.data_config.dial, "mse" if cls.metric == "mse" else "loss"
        rows = [
            [str(point[dial]), f"{point['accuracy']:.2%}", f"{point['last']:.2%}", f"{point[measure]:.5f}"]
            for point in found["points"]
        ]
        below = [f"without learning, accuracy {found['chance']:.2%}; {cls._guesses(found)}", found["rule"]]
        return (dial, "accuracy", "of the last question", measure), rows, below

    @classmethod
    def headline(cls, found: dict[str, Any]) -> str:
        return (
            f"validation {cls.metric} {found[cls.metric]:.5f}, accuracy {found['accuracy']:.2%} "
            f"(without learning {found['chance']:.2%}; {cls._guesses(found)}; {found['rule']})"
        )

    @classmethod
    def _guesses(cls, found: dict[str, Any]) -> str:
        guesses = ", ".join(f"{name} {value:.5f}" for name, value in found["baselines"].items())
        return f"{cls.metric} of guesses: {guesses}"

    # Inspection

    probe = staticmethod(probe.probe)


class CopyTask(MemoryTask):
    data_config = Copy


class AddingTask(MemoryTask):
    data_config = Adding


class RecallTask(MemoryTask):
    data_config = Recall


class ParityTask(MemoryTask):
    data_config = Parity


class GapTask(MemoryTask):
    data_config = Gap


class OrderTask(MemoryTask):
    data_config = Order


class CloudsTask(MemoryTask):
    data_config = Clouds


class AgreementTask(MemoryTask):
    data_config = Agreement


class NestedTask(MemoryTask):
    data_config = Nested


def answers(model: Any, x: Tensor, at: Tensor) -> Tensor:
    """The outputs of a classifier at the steps `at` (B A): B A C.

    It is asked only there, since with 8,192 words an answer at every step would cost more than all the rest.
    """
    hidden, _ = model.body(model.enter(x), model.initial_state(len(x)).body)  # B T W
    return model.head(hidden.gather(1, at[..., None].expand(-1, -1, hidden.shape[-1])))


TASKS = (
    CopyTask, AddingTask, RecallTask, ParityTask, GapTask, OrderTask, CloudsTask, AgreementTask, NestedTask
)  # fmt: skip
