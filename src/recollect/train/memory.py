"""The jobs of the tests of memory: copy, adding, recall, parity and gap, each for every model of the lineage."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..core.contract import ContractError, Memory
from ..core.settings import SettingError, distribute, split
from ..layers import LAYERS
from ..models import classifier
from ..models.body import KINDS, kind_of
from ..tasks.memory import task as memory
from ..tasks.memory.data import TESTS
from ..tasks.memory.generator import VERSION, Test
from .folder import RunError, RunFolder
from .job import Job, Run, told

FILE = "memory.json"
OWN = ("inputs", "outputs", "tokens", "pool")  # settings of the model that the test decides


class MemoryJob(Job[Test, Test]):
    """A test of memory."""

    models = tuple(KINDS)
    default = "lstm"
    stacks = True
    task_config = memory.Config
    # rows are never seen twice, so there is nothing for decay to guard against
    usual: ClassVar[Mapping[str, str]] = {"lr": "3e-3", "weight_decay": "0"}

    def __init__(self, test: type[Test]) -> None:
        self.name = test.kind
        self.data_config = test

    def homes(self, model: str) -> dict[str, type]:
        return {"model": classifier.Settings, "layer": LAYERS[kind_of(model).layer]}

    def read(self, config: Test, data_dir: str | None, kept: Test | None = None) -> Test:
        """The settings are the data. Another test than the run's own must have the same words."""
        if kept is not None and (config.inputs, config.outputs) != (kept.inputs, kept.outputs):
            raise ContractError(
                f"{self.name}: expected a test with {kept.inputs} inputs and {kept.outputs} answers as the run has, "
                f"found {config.inputs} and {config.outputs}"
            )
        return config

    def keep(self, data: Test) -> Test:
        return data

    def save(self, kept: Test, folder: Path) -> None:
        RunFolder(folder).write_json(FILE, kept.settings())

    def recall(self, folder: Path) -> Test:
        content = RunFolder(folder).read_json(FILE)
        try:
            found = {"kind": content.pop("kind"), "version": content.pop("version")}
            if found == {"kind": self.name, "version": VERSION}:
                return self.data_config(**content)
        except (AttributeError, KeyError, TypeError, ContractError) as error:
            found = error
        raise RunError(
            f"{folder / FILE}: expected the settings of a {self.name} test of version {VERSION}, found {found}"
        )

    def describe(self, data: Test) -> dict[str, Any]:
        counts = {"inputs": data.inputs, "outputs": data.outputs, "steps": data.steps, "questions": data.judged}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | {"notes": data.notes}

    def greet(self, data: Test) -> str:
        return f"{data.name}: rows of {data.steps:,} steps"

    def resolve(self, run: Run, data: Test, params: int | None) -> Run:
        config = self._model(run.model, data)
        if params is not None:
            config = config.sized(params, f"a {config.model} with {data.inputs:,} inputs and {data.outputs:,} answers")
        longest = max(data.turned(value).steps for value in data.points())
        config = replace(config, max_positions=max(config.max_positions, longest))
        full = {name: value for name, value in asdict(config).items() if name not in (*OWN, "model")}
        return replace(run, model={"name": config.model} | full)

    def build(self, settings: dict[str, Any], kept: Test, inside: tuple[Path, ...] = ()) -> nn.Module:
        try:
            return self._model(settings, kept).build()
        except (KeyError, TypeError, AttributeError, RuntimeError, MemoryError, OverflowError) as error:
            raise told(str(settings.get("name")), error) from error

    def _model(self, settings: dict[str, Any], test: Test) -> classifier.Config:
        own = {"inputs": test.inputs, "outputs": test.outputs, "tokens": test.tokens, "pool": "each"}
        rest = {name: value for name, value in settings.items() if name != "name"}
        return classifier.Config(model=self.takes(settings["name"]), **own, **rest)

    def task(self, run: Run, data: Test, device: str) -> memory.MemoryTask:
        return memory.MemoryTask(run.task, data, device)

    def figures(self, model: nn.Module, task: memory.MemoryTask, split: str, **options: Any) -> dict[str, Any]:
        found = task.evaluate(model, split)
        return {"metric": {"name": task.metric, "value": found[task.metric], "rule": found["rule"]}} | found

    def example(self, model: nn.Module, kept: Test) -> tuple[Tensor, Memory | None]:
        generator = torch.Generator().manual_seed(0)
        if kept.tokens:
            return torch.randint(kept.inputs, (3, 12), generator=generator), None
        return torch.rand(3, 12, kept.inputs, generator=generator, dtype=torch.float64), None

    def state_bytes(self, model: Any, run: Run) -> int:
        return model.cost(1, run.data.steps).state_bytes

    def table(self, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        dial, measure = self.data_config.dial, "mse" if self.data_config.metric == "mse" else "loss"
        rows = [
            [str(point[dial]), f"{point['accuracy']:.2%}", f"{point['last']:.2%}", f"{point[measure]:.5f}"]
            for point in found["points"]
        ]
        below = [f"without learning, accuracy {found['chance']:.2%}; {self._guesses(found)}", found["rule"]]
        return (dial, "accuracy", "of the last question", measure), rows, below

    def headline(self, found: dict[str, Any]) -> str:
        metric = self.data_config.metric
        return (
            f"validation {metric} {found[metric]:.5f}, accuracy {found['accuracy']:.2%} "
            f"(without learning {found['chance']:.2%}; {self._guesses(found)}; {found['rule']})"
        )

    def _guesses(self, found: dict[str, Any]) -> str:
        guesses = ", ".join(f"{name} {value:.5f}" for name, value in found["baselines"].items())
        return f"{self.data_config.metric} of guesses: {guesses}"

    def elsewhere(self, config: Test, data: Sequence[str], kept: Test) -> Test:
        """The same test with other dials, as `--data distance=200`."""
        try:
            return replace(config, **distribute(split(data), {"data": self.data_config})["data"])
        except SettingError as error:
            names = ", ".join(field.name for field in fields(self.data_config))
            raise SettingError(f"--data: expected a dial of {self.name} ({names}) as name=value; {error}") from error


JOBS = tuple(MemoryJob(test) for test in TESTS.values())
