"""A run of any task: from settings to a trained run folder, and back from a folder to a model that can be used.

A `Job` says what is particular to a task: its data, its models, how it is measured. Everything else is here, once.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from ..config import SettingError, distribute
from ..core import laws
from ..core.contract import ContractError, Memory
from ..core.task import Task
from ..layers import LAYERS, known
from ..models.body import NAMED, kind_of
from ..models.size import parameters
from . import checkpoint
from .folder import RunError, RunFolder
from .loop import Trainer
from .progress import Progress
from .settings import Settings


class Data(Protocol):
    """The data of a job."""

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
K = TypeVar("K")  # what a run folder keeps of it: a tokenizer, a scaler


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that a run is made from: the resolved config.json."""

    data: Any  # the job's settings of its data
    task: Any  # and of the task
    model: dict[str, Any]  # {"name": …} and the settings of that model
    train: Settings


@dataclass
class Used(Generic[K]):
    """A trained run, ready to be used."""

    run: Run
    model: Any
    kept: K
    folder: RunFolder


class Job(ABC, Generic[D, K]):
    """What the commands need to know of a task."""

    name: str
    models: tuple[str, ...]
    default: str  # the model that is trained where none is named
    data_config: Any  # frozen dataclasses
    task_config: Any
    usual: ClassVar[Mapping[str, str]] = {}  # settings where the flags say nothing
    stacks: ClassVar[bool] = False  # whether any layer that can be stacked is a model here, by its name
    counted: ClassVar[Sequence[str]] = ()  # models that are counted, not trained
    unsized: ClassVar[Sequence[str]] = ()  # models without a width that could be solved for

    @abstractmethod
    def homes(self, model: str) -> dict[str, type]:
        """Where the settings of a model belong: `model`, and `layer` for those of its layers."""

    @abstractmethod
    def read(self, config: Any, data_dir: str | None, kept: K | None = None) -> D:
        """The data; with what a run has kept of it, so that it is read as that run reads it."""

    @abstractmethod
    def keep(self, data: D) -> K:
        """What the run folder must keep of the data."""

    @abstractmethod
    def save(self, kept: K, folder: Path) -> None: ...

    @abstractmethod
    def recall(self, folder: Path) -> K:
        """What `save` wrote; a missing or strange file is one clear line."""

    @abstractmethod
    def describe(self, data: D) -> dict[str, Any]:
        """What config.json says of the data: `name`, `fingerprint` and counts."""

    @abstractmethod
    def greet(self, data: D) -> str:
        """The data in half a line, for the start of a run."""

    @abstractmethod
    def resolve(self, run: Run, data: D, params: int | None) -> Run:
        """The settings in full, with the width that `params` asks for."""

    @abstractmethod
    def build(self, settings: dict[str, Any], kept: K, inside: tuple[Path, ...] = ()) -> nn.Module:
        """The model that config.json names; `inside` are the runs that it is part of."""

    @abstractmethod
    def task(self, run: Run, data: D, device: str) -> Task: ...

    @abstractmethod
    def figures(self, model: nn.Module, task: Any, split: str, **options: Any) -> dict[str, Any]:
        """What a model reaches: `metric` is {name, value, rule}, and whatever else a row should hold."""

    @abstractmethod
    def example(self, model: Any, kept: K) -> tuple[Tensor, Memory | None]:
        """An input for the laws (T ≥ 4), and the memory that the model reads."""

    @abstractmethod
    def state_bytes(self, model: Any, run: Run) -> int:
        """Bytes of state that one row has at the length this run works with."""

    @abstractmethod
    def table(self, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        """What `figures` found, to be printed: columns, rows, and lines below them."""

    @abstractmethod
    def headline(self, found: dict[str, Any]) -> str:
        """The evaluation that a training ends with, in a line."""

    def rules(self, name: str) -> list[str]:
        """The rules of measuring that `name` stands for, in tasks that have several."""
        raise SettingError(f"--rule: expected a task with several rules, found {self.name}, which has one")

    def idle(self, model: str) -> Sequence[str]:
        """Settings that other models of the same Config go by, and this one does not."""
        return ()

    def takes(self, model: str) -> str:
        """The name of a model that this task can train; any other is refused with one line."""
        if model in self.models or not (self.stacks and model in LAYERS):
            return known(NAMED if self.stacks else "model", model, self.models)
        kind_of(model)
        return model

    def elsewhere(self, config: Any, data: Sequence[str], kept: K) -> Any:
        """The settings for measuring a run on other data."""
        return replace(config, data=tuple(data))

    def fill(self, model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
        """Put a run's weights into its model."""
        checkpoint.load_weights(model, tensors, path)

    def fit(
        self, task: Any, model: nn.Module, run: Run, folder: RunFolder, device: str, progress: Progress, again: bool
    ) -> dict[str, Any]:
        """Train; with `again` from the last checkpoint on."""
        trainer = Trainer(task, model, run.train, folder, torch.device(device), progress)
        if again:
            trainer.resume()
        else:
            folder.cut_metrics(0)
        return trainer.run()

    def to_json(self, run: Run) -> dict[str, Any]:
        parts = {"data": asdict(run.data), self.name: asdict(run.task), "model": run.model, "train": asdict(run.train)}
        return {"task": self.name} | parts

    def from_json(self, content: dict[str, Any], path: Path) -> Run:
        if content.get("task") != self.name:
            raise RunError(f"{path}: expected the run of a {self.name} task, found one of {content.get('task')!r}")
        try:
            return Run(
                data=self.data_config(**_tuples(content["data"])),
                task=self.task_config(**content[self.name]),
                model=dict(content["model"]),
                train=Settings(**content["train"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise RunError(
                f"{path}: expected the config of a {self.name} run, found something else ({error})"
            ) from error

    def configure(self, texts: Mapping[str, str], *, model: str, **given: Any) -> Run:
        """A run from settings as they come from flags; each finds its own home, and misspelt ones a suggestion.

        `given` are settings of the data that have a flag of their own, already with their types.
        """
        self.takes(model)
        own = {field.name for field in fields(self.data_config)}
        for name in given:
            if name not in own:
                raise SettingError(
                    f"--{name}: expected a flag of the task {self.name}, found one of another task; its own settings "
                    "are given by --set NAME=VALUE"
                )
        texts = {**self.usual, **texts}
        homes = {"train": Settings, self.name: self.task_config, "data": self.data_config} | self.homes(model)
        for name in self.idle(model):
            if name in texts:
                others = ", ".join(other for other in self.models if name not in self.idle(other))
                raise SettingError(f"{name}: expected it with {others}, found it with {model}; leave it out")
        parts = distribute(texts, homes)
        if "model" in parts["model"]:
            raise SettingError("--set: expected the model's name as --model, found it among the settings")
        settings = {"name": model} | parts["model"]
        if parts.get("layer"):
            settings["layer"] = parts["layer"]
        return Run(
            data=self.data_config(**_tuples(given) | parts["data"]),
            task=self.task_config(**parts[self.name]),
            model=settings,
            train=Settings(**parts["train"]),
        )

    def train(
        self,
        run: Run,
        out: str,
        *,
        device: str = "cpu",
        data_dir: str | None = None,
        params: int | None = None,
        init: str | None = None,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Train a new run into the folder `out`. Returns its evaluation."""
        progress = progress or Progress(quiet=True)
        RunFolder(out).check_new()  # known before data is read, which may take long
        data = self.read(run.data, data_dir)
        for note in data.notes:
            progress.say(f"note: {note}")
        run = self.resolve(run, data, params)
        init = None if init is None else str(Path(init).resolve())
        kept = self.keep(data)
        model = self.begin(run, kept, init)
        task = self.task(run, data, device)
        folder = RunFolder.create(out, self.to_json(run) | {"corpus": self.describe(data), "init": init})
        with folder.locked():
            self.save(kept, folder.path)
            progress.say(f"{run.model['name']}  {parameters(model):,} parameters  {self.greet(data)}  on {device}")
            return self.fit(task, model, run, folder, device, progress, again=False)

    def resume(
        self,
        out: str,
        *,
        device: str = "cpu",
        data_dir: str | None = None,
        longer: int | None = None,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Go on with a stopped run where its last checkpoint stands."""
        folder = RunFolder.open(out)
        folder.check_own()
        with folder.locked():
            content = folder.config()
            run = self.from_json(content, folder.config_path)
            if longer is not None:
                run = replace(run, train=replace(run.train, steps=longer))
                _check_longer(folder, longer)
            try:
                kept = self.recall(folder.path)
            except RunError:
                kept = None  # killed before it was written
            data = self.read(run.data, data_dir, kept)
            if data.fingerprint != _fingerprint(content, folder.config_path):
                raise RunError(f"{out}: expected the data that the run began with, found other data; start a new run")
            folder.clear_up()
            if longer is not None:
                folder.write_json("config.json", content | self.to_json(run))
            folder.last.parent.mkdir(exist_ok=True)  # it may have been killed before it made this
            kept = self.keep(data)
            self.save(kept, folder.path)
            fresh = not folder.last.exists()  # killed before its first checkpoint: it begins again
            model = self.begin(run, kept, content.get("init") if fresh else None)
            task = self.task(run, data, device)
            return self.fit(task, model, run, folder, device, progress or Progress(quiet=True), again=not fresh)

    def begin(self, run: Run, kept: K, init: str | None) -> nn.Module:
        """The model as a run starts with it: by its seed, or with another run's weights."""
        torch.manual_seed(run.train.seed)
        model = self.build(run.model, kept)
        if init is not None:
            path = RunFolder.open(init).model_path
            self.fill(model, checkpoint.read_tensors(path)[0], path)
        return model

    def load(self, path: str | Path, device: str = "cpu", inside: tuple[Path, ...] = ()) -> Used[K]:
        """The model of a run folder, with its best weights (of a run that has not finished: the best so far)."""
        folder = RunFolder.open(path)
        own = folder.path.resolve()
        if own in inside:
            raise RunError(f"{path}: expected a mixture of other runs, found one of itself")
        run = self.from_json(folder.config(), folder.config_path)
        kept = self.recall(folder.path)
        model = self.build(run.model, kept, (*inside, own))
        found = next((p for p in (folder.model_path, folder.best) if p.exists()), None)
        if found is None:
            raise RunError(f"{path}: expected weights (model.safetensors), found none; the run was stopped too early")
        self.fill(model, checkpoint.read_tensors(found)[0], found)
        return Used(run, model.to(device).eval(), kept, folder)

    def measure(
        self,
        path: str,
        *,
        split: str,
        data: Sequence[str] = (),
        device: str = "cpu",
        data_dir: str | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """The figures of a run, on its own data or on other data."""
        used = self.load(path, device)
        source = self.elsewhere(used.run.data, data, used.kept) if data else used.run.data
        found = self.read(source, data_dir, used.kept)
        task = self.task(used.run, found, device)
        about = {"run": str(path), "data": found.name, "split": split, "params": parameters(used.model)}
        if _is_seen(source):
            about["baselines_seen"] = True
        if not data and (change := self.changed(used, found)):
            about["changed"] = change
        return about | self.figures(used.model, task, split, **options)

    def changed(self, used: Used[K], data: D) -> str | None:
        """What is other about a run's data than when it was trained, in a line; None where all is the same."""
        before, now = used.folder.config().get("corpus"), self.describe(data)
        if not isinstance(before, dict) or before.get("fingerprint") in (None, now["fingerprint"]):
            return None
        counts = [name for name in now if name not in ("fingerprint", "notes") and before.get(name) != now[name]]
        told = ", ".join(f"{name} was {before.get(name)} and is {now[name]}" for name in counts)
        return (
            f"the data of {used.folder.path} changed since training: {told or 'as much as before, but other content'}"
        )

    def result(
        self, path: str, *, split: str, device: str, data_dir: str | None = None, **options: Any
    ) -> dict[str, Any]:
        """The row of a finished run for results/."""
        found = self.measure(path, split=split, device=device, data_dir=data_dir, **options)
        del found["run"]
        folder = RunFolder.open(path)
        config, manifest, metrics = folder.config(), folder.read_json("manifest.json"), folder.metrics()
        used = self.load(path)
        last: dict[str, Any] = {}
        for logged in metrics:
            last |= logged
        return {
            "schema": 1,
            "task": self.name,
            "model": config["model"]["name"],
            "settings": {name: config[name] for name in (self.name, "model", "train")},
            "seed": config["train"]["seed"],
            **found,
            "entries": entries() if (entries := getattr(used.model, "entries", None)) else None,
            "tokens": last.get("tokens"),
            "flops": last.get("flops"),
            "seconds": last.get("seconds"),
            "peak_bytes": last.get("memory"),
            "state_bytes": self.state_bytes(used.model, used.run),
            "curve": [[row["step"], row["valid"]] for row in metrics if "valid" in row],
            "learning": [
                [row["step"], row["tokens"], row["seconds"], row["valid"]]
                for row in metrics
                if "valid" in row and "seconds" in row
            ],
            "end": {
                "train": fmean([row["loss"] for row in metrics if "loss" in row][-5:] or [nan]),
                "valid": next((row["valid"] for row in reversed(metrics) if "valid" in row), None),
            },
            "commit": manifest["commit"],
            "command": manifest["command"],
            "machine": manifest["machine"],
        }

    def verify(self, path: str) -> dict[str, float]:
        """The laws on trained weights and random tokens: in float64, and in each precision that decoding runs in."""
        used, model = self.load(path), self.load(path).model.double()
        x, memory = self.example(model, used.kept)
        return laws.check(model, x, memory) | self.check_decoding(model, used, x, memory)

    def check_decoding(self, definition: Any, used: "Used", x: Tensor, memory: Memory | None) -> dict[str, float]:
        """The Step law on all that decodes with the model of a run; `definition` is the model in float64."""
        return {}


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Lists, as files and callers have them, become the tuples of frozen settings."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def _is_seen(config: Any) -> bool:
    """Whether all that baselines can learn from is the very data that they are measured on."""
    valid = getattr(config, "valid", ())
    return getattr(config, "whole", False) or bool(valid and valid == config.data)


def _check_longer(folder: RunFolder, steps: int) -> None:
    """Refuse fewer steps than a run has made: its config would say what is not so."""
    if not folder.last.exists():
        return
    spent = checkpoint.read_tensors(folder.last)[1].get("spent")
    made = spent.get("step", 0) if isinstance(spent, dict) else 0
    if steps < made:
        raise RunError(f"{folder.path}: expected at least the {made:,} steps that the run has made, found {steps:,}")


def _fingerprint(content: dict[str, Any], path: Path) -> str:
    try:
        return content["corpus"]["fingerprint"]
    except (KeyError, TypeError) as error:
        raise RunError(f"{path}: expected the fingerprint of the data in the config, found none") from error


def check_names(config: Any) -> None:
    """Refuse settings whose `data`, `valid` and `test` are anything but names of files."""
    for name in ("data", "valid", "test"):
        value = getattr(config, name)
        if not isinstance(value, tuple) or not all(isinstance(part, str) for part in value):
            raise ContractError(f"data: expected {name} to be names of files, found {value!r}")


def told(name: str, error: Exception) -> ContractError:
    """What a model cannot be built from, in one line."""
    reason = " ".join(str(error).split())
    return ContractError(f"model: expected settings of {name!r}, found others ({reason})")
