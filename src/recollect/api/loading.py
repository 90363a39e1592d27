"""Trained models by their folder: a run, one of the small runs that ship with the package, or an exported folder."""

# what a program gives is checked whatever its type says
# pyright: reportUnnecessaryIsInstance=false

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from .. import tasks
from ..core import typed
from ..core.errors import RunError
from ..core.trained import Source, TrainedModel
from ..runtime import manifest as manifests
from ..runtime.folder import ExportedFolder
from ..training.folder import RunFolder
from . import steps

ENGINES = ("auto", "torch", "onnxruntime")


def load(
    run: str | os.PathLike[str], *, device: str = "cpu", engine: str = "auto", data_dir: str | None = None
) -> TrainedModel:
    """A trained model, ready for use: of a run folder, of a run that ships with the package, or of an exported folder.

    What it can do depends on its task: `generate` and `score` (text), `translate`, `caption`, `forecast`, `classify`,
    `rate`; and `step`, `explain`, `evaluate`, `verify`. On a CPU its steps are run by onnxruntime where the exported
    step is there, and torch is then not imported; `engine` "torch" or "onnxruntime" asks for one of them.

        >>> model = recollect.load("demo-text")
        >>> "".join(model.generate("KING:", length=40)).startswith("KING:")
        True
    """
    if engine not in ENGINES:
        raise RunError(f"engine: expected one of {', '.join(ENGINES)}, found {engine!r}")
    if engine == "onnxruntime" and device != "cpu":
        raise RunError(f"engine: expected onnxruntime with device='cpu', found it with {device!r}; leave one out")
    if not isinstance(run, str | os.PathLike):
        raise RunError(f"load: expected a folder or the name of a run, found {type(run).__name__}")
    place = Path(run)
    if (place / manifests.FILE).is_file() and not (place / "config.json").is_file():
        source: Source = ExportSource(place)
    else:
        source = RunSource(RunFolder.open(run), device=device, engine=engine, data_dir=data_dir)
    return tasks.find_use(source.task)(source)


def load_task(run: str | os.PathLike[str], *wanted: str, **options: Any) -> Any:
    """A trained model of one of these tasks; one of another task is refused."""
    model = load(run, **options)
    if model.task not in wanted:
        named = " or ".join(wanted)
        raise RunError(f"{run}: expected the run of a {named} task, found one of {typed.show(model.task)}")
    return model


class RunSource(Source):
    """A run folder. torch is imported when something needs the model itself."""

    def __init__(self, folder: RunFolder, *, device: str, engine: str, data_dir: str | None) -> None:
        content = folder.config()
        self.folder, self.device, self.engine, self.data_dir = folder, check_device(device), engine, data_dir
        self.path, self._settings = folder.path, content
        self.task = content.get("task", "")
        if self.task not in tasks.names():
            raise RunError(
                f"{folder.config_path}: expected a task out of {', '.join(tasks.names())}, found {self.task!r:.80}"
            )
        named = content.get("model")
        self.model = str(cast(Mapping[str, Any], named).get("name", "")) if isinstance(named, dict) else ""
        self._steps: dict[tuple[str, int | None], Any] = {}
        self._run: Any = None

    @property
    def notes(self) -> Sequence[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.folder.weights()[1]

    @property
    def run(self) -> Any:
        if self._run is None:
            from ..training.run import load as load_run

            self._run = load_run(self.path, self.device, data_dir=self.data_dir)
        return self._run

    @property
    def settings(self) -> Mapping[str, Any]:
        return self._settings

    @property
    def artifacts(self) -> Path:
        return self.path

    def open_step(self, steps: int = 0, precision: str | None = None, threads: int | None = None) -> Any | None:
        if self.device != "cpu" or self.engine == "torch":
            return None
        key = precision or "float32", threads
        if self._steps.get(key) is None:
            asked = precision is not None or self.engine == "onnxruntime"
            self._steps[key] = self._find_step(steps, *key, asked=asked)
        return self._steps[key]

    def _find_step(self, count: int, precision: str, threads: int | None, *, asked: bool) -> Any | None:
        found = steps.open_step(self.folder, precision, threads)
        if found is None and (asked or steps.is_worth_making(count)):
            found = steps.make_step(self.run, precision, threads)
            if found is None and asked:
                raise RunError(
                    f"{self.path}: expected a model whose step can be exported, found {self.model}; use engine='auto' "
                    "and no precision"
                )
        return found

    def plain_step(self) -> Any:
        from ..decode.plain_step import PlainStep

        return PlainStep(self.run)

    def measure(self, **options: Any) -> dict[str, Any]:
        from . import training

        return training.evaluate(self.path, device=self.device, data_dir=self.data_dir, **options)

    def verify(self) -> dict[str, Any]:
        from . import training

        return training.verify(self.path)


class ExportSource(Source):
    """An exported folder: graphs for onnxruntime, without weights for torch."""

    device = "cpu"

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.exported = ExportedFolder(folder)
        self.manifest = self.exported.manifest
        self.task, self.model = self.manifest.task, self.manifest.model
        if self.task not in tasks.names():
            raise RunError(f"{folder}: expected a task out of {', '.join(tasks.names())}, found {self.task!r:.80}")

    @property
    def run(self) -> Any:
        raise RunError(
            f"{self.path}: expected a run folder, since this needs the model itself, found an exported one; "
            "load the run that it was exported from"
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"task": self.task, "model": {"name": self.model}, **self.manifest.settings}

    @property
    def artifacts(self) -> Path:
        return self.exported.artifacts

    def open_step(self, steps: int = 0, precision: str | None = None, threads: int | None = None) -> Any | None:
        if precision not in (None, self.manifest.precision):
            raise RunError(
                f"{self.path}: expected {self.manifest.precision}, the precision of the export, found {precision!r}; "
                "leave it out"
            )
        return self.exported.open_step(threads)

    def plain_step(self) -> Any:
        return self.run

    def measure(self, **options: Any) -> dict[str, Any]:
        return self.run

    def verify(self) -> dict[str, Any]:
        return self.run


def check_device(name: str) -> str:
    """A device of this machine, by torch's name, or `auto`."""
    if name == "cpu":
        return name
    import torch

    count = torch.cuda.device_count()
    if name == "auto":
        return "cuda" if count else "cpu"
    there = ["cuda", *(f"cuda:{number}" for number in range(count))] if count else []
    if name not in there:
        use = ", ".join([*there, "cpu"])
        raise RunError(f"--device: expected a device of this machine, found {name!r}; use {use} or auto")
    return name
