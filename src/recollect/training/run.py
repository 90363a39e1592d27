"""A run of any task: from settings to a trained run folder, and from a folder to a model that can be used.

config = configure(task, {"steps": "100"}, model="lstm")
train(task, config, "runs/mine")
load("runs/mine").model
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import tasks
from ..core import typed
from ..core.settings import SettingError, distribute
from ..core.task import LoadedRun, RunConfig, RunError, Task
from ..models.size import parameters
from . import checkpoint
from .budget import Spent
from .config_file import from_json, to_json
from .costs import refuse_wrong_budget
from .events import EventFile, check_log
from .folder import SUMMARY, RunFolder
from .loop import Trainer
from .progress import Progress, peak_bytes
from .ranks import Ranks, joined, restarts
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
    model = task.check_model(model)
    own = {field.name for field in fields(task.data_config)}
    for name in given:
        if name not in own:
            raise SettingError(
                f"--{name}: expected a flag of the task {task.name}, found one of another task; its own settings "
                "are given by --set NAME=VALUE"
            )
    texts = {**task.usual, **texts}
    for name, instead in task.refused.items():
        if name in texts:
            raise SettingError(f"{name}: {instead}")
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
    log: str | None = None,
    shard: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train a new run into the folder `out`. Returns its evaluation. `log` is written beside its metrics.

    With `artifacts` the data are read as the run reads them that these come from. Among ranks every process calls this,
    and the main one writes the folder and has the evaluation; `shard` divides the weights among them.
    """
    log = check_log(log)
    with joined(device, shard=shard) as (ranks, device):
        if restarts() and ranks.send(RunFolder(out).config_path.exists()):  # torchrun started these ranks anew
            return _resume(
                out, ranks, task=task, device=device, data_dir=data_dir, log=log, begun=(config, params),
                progress=progress,
            )  # fmt: skip
        return _train(
            task, config, out, ranks, device=device, data_dir=data_dir, params=params, init=init, artifacts=artifacts,
            log=log, progress=progress,
        )  # fmt: skip


def _train(
    task: Kind,
    config: RunConfig,
    out: str,
    ranks: Ranks,
    *,
    device: str,
    data_dir: str | None,
    params: int | None,
    init: str | None,
    artifacts: Any,
    log: str | None,
    progress: Progress | None,
) -> dict[str, Any]:
    progress = progress if progress is not None and ranks.main else Progress(quiet=True)
    if ranks.main:
        RunFolder(out).check_new()  # known before data is read, which may take long
    with ranks.main_first():
        data = task.load_data(config.data, data_dir, artifacts)
    config = task.resolve(config, data, params)
    init = None if init is None else str(Path(init).resolve())
    artifacts = task.artifacts_of(data)
    model = initial_model(task, config, artifacts, init)
    bound = task(config.task, data, device, config.train.seed)
    if config.train.flops is not None:
        refuse_wrong_budget(bound, model, artifacts)
    content = to_json(task, config) | {
        "corpus": task.describe_data(data), "generated": task.generated_rows(config.data),
        "init": init, "data_dir": _remembered(data_dir), "metric": bound.metric,
    }  # fmt: skip
    _check_ranks(ranks, content)
    if not ranks.main:
        return _fit(bound, model, config, RunFolder(out), progress, ranks, again=False)
    with RunFolder.created(out, content) as folder:
        folder.events = EventFile(folder.path, bound.metric) if log else None
        task.save_artifacts(artifacts, folder.path)
        summary = task.data_summary(data)
        folder.write_json(SUMMARY, summary.to_json())
        for line in summary.lines():
            progress.say(line)
        progress.say(f"{config.model['name']}  {parameters(model):,} parameters  on {device}")
        return _compare(bound, _fit(bound, model, config, folder, progress, ranks, again=False), progress)


def _check_ranks(ranks: Ranks, content: Mapping[str, Any]) -> None:
    """Refuse ranks with other versions, settings or data."""
    from .. import __version__

    settings = json.dumps({name: part for name, part in content.items() if name != "corpus"}, sort_keys=True)
    ranks.check_equal({
        "version of recollect": __version__,
        "version of torch": torch.__version__,
        "data": str(content["corpus"].get("fingerprint")),
        "settings": hashlib.sha256(settings.encode()).hexdigest()[:12],
    })  # fmt: skip


def _remembered(data_dir: str | None) -> str | None:
    """The full name of the folder of known sets, as a run stores it."""
    own = data_dir if data_dir is not None else os.environ.get("RECOLLECT_DATA") or None
    return None if own is None else str(Path(own).expanduser().absolute())


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
    log: str | None = None,
    shard: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Go on with a stopped run where its last checkpoint stands; `longer` is a new budget in steps.

    The number of ranks, and whether they `shard` the weights, may be others than before.
    """
    log = check_log(log)
    with joined(device, shard=shard) as (ranks, device):
        return _resume(out, ranks, task=task, device=device, data_dir=data_dir, longer=longer, log=log,
                       progress=progress)  # fmt: skip


def _resume(
    out: str,
    ranks: Ranks,
    *,
    task: Kind | None,
    device: str,
    data_dir: str | None,
    longer: int | None = None,
    log: str | None,
    begun: tuple[RunConfig, int | None] | None = None,
    progress: Progress | None,
) -> dict[str, Any]:
    """Go on; with `begun` only with the run of these settings and parameters, which an earlier life has begun."""
    folder = RunFolder.open(out)
    folder.check_own()
    task = task or task_of(out)
    progress = progress if progress is not None and ranks.main else Progress(quiet=True)
    with folder.locked() if ranks.main else nullcontext():
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
        fresh = not folder.last.exists()  # killed before its first checkpoint: it begins again
        try:
            artifacts = task.load_artifacts(folder.path)
        except RunError:
            artifacts = None  # killed before it was written
        with ranks.main_first():
            data = task.load_data(config.data, folder.data_dir(data_dir), artifacts)
        if begun is not None:
            wanted, there = (to_json(task, each) for each in (task.resolve(begun[0], data, begun[1]), config))
            if json.dumps(wanted, sort_keys=True) != json.dumps(there, sort_keys=True):
                folder.check_new()  # the first life was refused here, and a second must not write over another run
        if data.fingerprint != _fingerprint(content, folder.config_path):
            raise RunError(f"{out}: expected the data that the run began with, found other data; start a new run")
        _check_ranks(ranks, content | to_json(task, config))
        artifacts = task.artifacts_of(data)
        if ranks.main:
            folder.clear_up()
            if longer is not None:
                folder.write_json("config.json", content | to_json(task, config))
            folder.last_file.parent.mkdir(exist_ok=True)  # it may have been killed before it made this
            task.save_artifacts(artifacts, folder.path)
        model = initial_model(task, config, artifacts, content.get("init") if fresh else None)
        bound = task(config.task, data, device, config.train.seed)
        folder.events = EventFile(folder.path, bound.metric) if log and ranks.main else None
        return _compare(bound, _fit(bound, model, config, folder, progress, ranks, again=not fresh), progress)


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
    ranks: Ranks,
    *,
    again: bool,
) -> dict[str, Any]:
    """Fit a model in closed form where its task has one; else train it, with `again` from the last checkpoint on."""
    spent = Spent()
    solution = task.solve(model, config.train.tokens) if ranks.main else None  # one rank is enough for it
    if not ranks.send(solution is not None):
        trainer = Trainer(task, model, config.train, folder, task.device, progress, ranks)
        if again:
            trainer.resume()
        elif ranks.main:
            folder.cut_metrics(0)
        found = trainer.run()
        if not ranks.main:
            return {}
        if task.calibrate(model):
            _, note = checkpoint.read_tensors(folder.model_path)
            checkpoint.write_tensors(folder.model_path, checkpoint.weights(model), note)
            found = task.evaluate(model, "valid")
        return found
    if solution is None:
        return {}
    folder.cut_metrics(0)
    used = spent.at_once(solution.tokens) | {"memory": peak_bytes(task.device)}
    task.calibrate(model)
    found = task.evaluate(model, "valid", **solution.evaluation)
    checkpoint.write_tensors(folder.model_path, checkpoint.weights(model), dict(solution.note))
    folder.log(used | {"valid": found[task.metric]})
    progress.say(solution.message)
    return found | dict(solution.figures)


def _compare(task: Task[Any, Any], found: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """An evaluation with where it stands beside its baselines, for whoever follows the training."""
    return found if progress.quiet or not found else found | task.compare_to_baselines(found)


def _check_longer(folder: RunFolder, steps: int) -> None:
    """Refuse a budget below the steps that a run has made."""
    if not folder.last.exists():
        return
    made = checkpoint.read_note(folder.last, checkpoint.read_tensors(folder.last)[1]).spent.step
    if steps < made:
        raise RunError(f"{folder.path}: expected at least the {made:,} steps that the run has made, found {steps:,}")


def _fingerprint(content: dict[str, Any], path: Path) -> str:
    found = content.get("corpus", {}).get("fingerprint")
    if not isinstance(found, str):
        raise RunError(f"{path}: expected the fingerprint of the data in the config, found {typed.show(found)}")
    return found


# Using


def task_of(path: str | Path) -> Kind:
    """The task of a run folder."""
    folder = RunFolder.open(path)
    name = folder.config().get("task")
    if name not in tasks.names():
        raise RunError(
            f"{folder.config_path}: expected a task out of {', '.join(tasks.names())}, found {typed.show(name)}"
        )
    return tasks.find(name)


def load(
    path: str | Path,
    device: str = "cpu",
    *,
    task: Kind | None = None,
    data_dir: str | None = None,
    inside: tuple[Path, ...] = (),
) -> LoadedRun[Any, Any]:
    """The model of a run folder, with the weights that stand for it (`RunFolder.weights`).

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
    found, notes = folder.weights()
    tensors = checkpoint.read_weights(found) if found == folder.last else checkpoint.read_tensors(found)[0]
    checkpoint.load_weights(model, tensors, found)
    known = folder.data_dir(data_dir)

    def draw_initial() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            return initial_model(task, config, artifacts, folder.config().get("init")).to(device).eval()

    return LoadedRun(
        folder.path, task, config, model.to(device).eval(), artifacts, device, known, notes=notes,
        draw_initial=draw_initial,
    )  # fmt: skip
