"""A run of any task: from settings to a trained run folder, and from a folder to a model that can be used.

config = configure(task, {"steps": "100"}, model="lstm")
train(task, config, "runs/mine")
load("runs/mine").model
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import nn

from .. import tasks
from ..core import laws
from ..core.settings import SettingError, distribute
from ..core.task import LoadedRun, RunConfig, RunError, Task
from ..models.size import parameters
from . import checkpoint
from .budget import Spent
from .folder import RunFolder
from .loop import Trainer
from .progress import Progress, peak_bytes
from .settings import Settings

Kind = type[Task[Any, Any]]


# Settings


def setting_homes(task: Kind, model: str) -> dict[str, type]:
    """The dataclasses that declare the settings of a run; where two have one of the same name, the first counts."""
    return {"train": Settings, task.name: task.task_config, "data": task.data_config} | task.model_settings(model)


def configure(task: Kind, texts: Mapping[str, Any], *, model: str, **given: Any) -> RunConfig:
    """The settings of a run from flags and recipes: each finds its dataclass, and misspelt ones a suggestion.

    Values of `texts` that are strings are parsed. `given` are settings of the data that have a flag of their own,
    already with their types.
    """
    task.check_model(model)
    own = {field.name for field in fields(task.data_config)}
    for name in given:
        if name not in own:
            raise SettingError(
                f"--{name}: expected a flag of the task {task.name}, found one of another task; its own settings "
                "are given by --set NAME=VALUE"
            )
    texts = {**task.usual, **texts}
    for name in task.unused_settings(model):
        if name in texts:
            others = ", ".join(other for other in task.models if name not in task.unused_settings(other))
            raise SettingError(f"{name}: expected it with {others}, found it with {model}; leave it out")
    parts = distribute(texts, setting_homes(task, model))
    if "model" in parts["model"]:
        raise SettingError("--set: expected the model's name as --model, found it among the settings")
    settings = {"name": model} | parts["model"]
    if parts.get("layer"):
        settings["layer"] = parts["layer"]
    return RunConfig(
        data=task.data_config(**_tuples(given) | parts["data"]),
        task=task.task_config(**parts[task.name]),
        model=settings,
        train=Settings(**parts["train"]),
    )


def to_json(task: Kind, config: RunConfig) -> dict[str, Any]:
    """The settings of a run for config.json."""
    data, own, train = (asdict(part) for part in (config.data, config.task, config.train))
    return {"task": task.name, "data": data, task.name: own, "model": config.model, "train": train}


def from_json(task: Kind, content: dict[str, Any], path: Path) -> RunConfig:
    """The settings of a run from config.json."""
    if content.get("task") != task.name:
        raise RunError(f"{path}: expected the run of a {task.name} task, found one of {content.get('task')!r}")
    try:
        return RunConfig(
            data=task.data_config(**_tuples(content["data"])),
            task=task.task_config(**content[task.name]),
            model=dict(content["model"]),
            train=Settings(**content["train"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RunError(f"{path}: expected the config of a {task.name} run, found something else ({error})") from error


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Lists, as files and callers have them, become the tuples of frozen settings."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


# Training


def train(
    task: Kind,
    config: RunConfig,
    out: str,
    *,
    device: str = "cpu",
    data_dir: str | None = None,
    params: int | None = None,
    init: str | None = None,
    artifacts: Any = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train a new run into the folder `out`. Returns its evaluation.

    With `artifacts` the data are read as the run reads them that these come from.
    """
    progress = progress or Progress(quiet=True)
    RunFolder(out).check_new()  # known before data is read, which may take long
    data = task.load_data(config.data, data_dir, artifacts)
    for note in data.notes:
        progress.say(f"note: {note}")
    config = task.resolve(config, data, params)
    init = None if init is None else str(Path(init).resolve())
    artifacts = task.artifacts_of(data)
    model = initial_model(task, config, artifacts, init)
    bound = task(config.task, data, device, config.train.seed)
    content = to_json(task, config) | {"corpus": task.describe_data(data), "init": init}
    folder = RunFolder.create(out, content)
    with folder.locked():
        task.save_artifacts(artifacts, folder.path)
        size = f"{config.model['name']}  {parameters(model):,} parameters"
        progress.say(f"{size}  {task.summarize_data(data)}  on {device}")
        return _fit(bound, model, config, folder, progress, again=False)


def combine(
    task: Kind, model: str, paths: Sequence[str], out: str, *, device: str = "cpu", **given: Any
) -> dict[str, Any]:
    """Train a model that is made of trained runs; the data are read as the first of them reads them."""
    parts = [load(path, device, task=task) for path in paths]
    return train(task, task.combine(model, parts), out, device=device, artifacts=parts[0].artifacts, **given)


def resume(
    out: str,
    *,
    task: Kind | None = None,
    device: str = "cpu",
    data_dir: str | None = None,
    longer: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Go on with a stopped run where its last checkpoint stands; `longer` is a new budget in steps."""
    folder = RunFolder.open(out)
    folder.check_own()
    task = task or task_of(out)
    with folder.locked():
        content = folder.config()
        config = from_json(task, content, folder.config_path)
        if config.model.get("name") in task.combined:
            name = config.model["name"]
            raise RunError(
                f"{folder.path}: expected a run that can go on, found a {name}, which is fitted at once; make another "
                f"one with --model {name}"
            )
        if longer is not None:
            config = replace(config, train=replace(config.train, steps=longer))
            _check_longer(folder, longer)
        try:
            artifacts = task.load_artifacts(folder.path)
        except RunError:
            artifacts = None  # killed before it was written
        data = task.load_data(config.data, data_dir, artifacts)
        if data.fingerprint != _fingerprint(content, folder.config_path):
            raise RunError(f"{out}: expected the data that the run began with, found other data; start a new run")
        folder.clear_up()
        if longer is not None:
            folder.write_json("config.json", content | to_json(task, config))
        folder.last.parent.mkdir(exist_ok=True)  # it may have been killed before it made this
        artifacts = task.artifacts_of(data)
        task.save_artifacts(artifacts, folder.path)
        fresh = not folder.last.exists()  # killed before its first checkpoint: it begins again
        model = initial_model(task, config, artifacts, content.get("init") if fresh else None)
        bound = task(config.task, data, device, config.train.seed)
        return _fit(bound, model, config, folder, progress or Progress(quiet=True), again=not fresh)


def initial_model(task: Kind, config: RunConfig, artifacts: Any, init: str | None) -> nn.Module:
    """The model as a run starts with it: by its seed, or with another run's weights."""
    torch.manual_seed(config.train.seed)
    model = task.build_model(config.model, artifacts, load)
    if init is not None:
        path = RunFolder.open(init).model_path
        checkpoint.load_weights(model, checkpoint.read_tensors(path)[0], path)
    return model


def _fit(
    task: Task[Any, Any],
    model: nn.Module,
    config: RunConfig,
    folder: RunFolder,
    progress: Progress,
    *,
    again: bool,
) -> dict[str, Any]:
    """Fit a model in closed form where its task has one; else train it, with `again` from the last checkpoint on."""
    spent = Spent()
    solution = task.solve(model, config.train.tokens)
    if solution is None:
        trainer = Trainer(task, model, config.train, folder, task.device, progress)
        if again:
            trainer.resume()
        else:
            folder.cut_metrics(0)
        found = trainer.run()
        if task.calibrate(model):
            _, note = checkpoint.read_tensors(folder.model_path)
            checkpoint.write_tensors(folder.model_path, checkpoint.weights(model), note)
            found = task.evaluate(model, "valid")
        return found
    folder.cut_metrics(0)
    used = spent.at_once(solution.tokens) | {"memory": peak_bytes(task.device)}
    task.calibrate(model)
    found = task.evaluate(model, "valid", **solution.evaluation)
    checkpoint.write_tensors(folder.model_path, checkpoint.weights(model), dict(solution.note))
    folder.log(used | {"valid": found[task.metric]})
    progress.say(solution.message)
    return found | dict(solution.figures)


def _check_longer(folder: RunFolder, steps: int) -> None:
    """Refuse a budget below the steps that a run has made."""
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


# Using


def task_of(path: str | Path) -> Kind:
    """The task of a run folder."""
    folder = RunFolder.open(path)
    name = folder.config().get("task")
    if name not in tasks.names():
        raise RunError(f"{folder.config_path}: expected a task out of {', '.join(tasks.names())}, found {name!r}")
    return tasks.find(name)


def load(
    path: str | Path,
    device: str = "cpu",
    *,
    task: Kind | None = None,
    data_dir: str | None = None,
    inside: tuple[Path, ...] = (),
) -> LoadedRun[Any, Any]:
    """The model of a run folder, with its best weights (of a run that has not finished: the best so far).

    `task` refuses a run of any other; `inside` are the runs that this one is part of.
    """
    folder = RunFolder.open(path)
    own = folder.path.resolve()
    if own in inside:
        raise RunError(f"{path}: expected a mixture of other runs, found one of itself")
    task = task or task_of(path)
    config = from_json(task, folder.config(), folder.config_path)
    artifacts = task.load_artifacts(folder.path)
    model = task.build_model(config.model, artifacts, lambda part: load(part, inside=(*inside, own)))
    found = next((p for p in (folder.model_path, folder.best) if p.exists()), None)
    if found is None:
        raise RunError(f"{path}: expected weights (model.safetensors), found none; the run was stopped too early")
    checkpoint.load_weights(model, checkpoint.read_tensors(found)[0], found)
    return LoadedRun(folder.path, task, config, model.to(device).eval(), artifacts, device, data_dir)


def evaluate(
    path: str | Path,
    *,
    split: str,
    data: Sequence[str] = (),
    device: str = "cpu",
    data_dir: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The figures of a run, on its own data or on other data."""
    run = load(path, device, data_dir=data_dir)
    source = run.config.data
    if data:
        source = run.kind.other_data(source, data, run.artifacts)
        run.config = replace(run.config, data=source)
    about = {"run": str(path), "data": run.data.name, "split": split, "params": parameters(run.model)}
    if _is_seen(source):
        about["baselines_seen"] = True
    if not data and (change := data_change(run)):
        about["changed"] = change
    return about | run.task.figures(run.model, split, **options)


def _is_seen(config: Any) -> bool:
    """Whether all that baselines can learn from is the very data that they are measured on."""
    valid = getattr(config, "valid", ())
    return getattr(config, "whole", False) or bool(valid and valid == config.data)


def data_change(run: LoadedRun[Any, Any]) -> str | None:
    """How a run's data differ from those that it was trained on, in a line; None where they do not."""
    before, now = RunFolder(run.path).config().get("corpus"), run.kind.describe_data(run.data)
    if not isinstance(before, dict) or before.get("fingerprint") in (None, now["fingerprint"]):
        return None
    counts = [name for name in now if name not in ("fingerprint", "notes") and before.get(name) != now[name]]
    words = ", ".join(f"{name} was {before.get(name)} and is {now[name]}" for name in counts)
    return f"the data of {run.path} changed since training: {words or 'as much as before, but other content'}"


def result(path: str | Path, *, split: str, device: str, data_dir: str | None = None, **options: Any) -> dict[str, Any]:
    """The row of a finished run for results/."""
    found = evaluate(path, split=split, device=device, data_dir=data_dir, **options)
    del found["run"]
    folder = RunFolder.open(path)
    config, manifest, metrics = folder.config(), folder.read_json("manifest.json"), folder.metrics()
    run = load(path)
    last: dict[str, Any] = {}
    for logged in metrics:
        last |= logged
    name = run.kind.name
    return {
        "schema": 1,
        "task": name,
        "model": config["model"]["name"],
        "settings": {part: config[part] for part in (name, "model", "train")},
        "seed": config["train"]["seed"],
        **found,
        "entries": entries() if (entries := getattr(run.model, "entries", None)) else None,
        "tokens": last.get("tokens"),
        "flops": last.get("flops"),
        "seconds": last.get("seconds"),
        "peak_bytes": last.get("memory"),
        "state_bytes": run.kind.state_bytes(run.model, run.config),
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


def verify(path: str | Path) -> dict[str, float]:
    """The laws on trained weights and random inputs: in float64, and in each precision that decoding runs in."""
    run, exact = load(path), load(path).model.double()
    try:
        module, x, source = run.kind.law_example(exact, run.artifacts)
    except RunError as error:
        raise RunError(f"{path}: {error}") from None
    return laws.check(module, x, source) | run.kind.check_decoding(exact, run, x, source)
