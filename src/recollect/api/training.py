"""Training and evaluation from Python: settings with their own types, data as files or in memory."""

# what a program gives is checked whatever its type says
# pyright: reportUnnecessaryIsInstance=false

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from .. import tasks
from ..core.errors import RecollectError, RunError
from ..core.files import write_aside
from ..core.settings import SettingError
from ..core.trained import TrainedModel
from ..data import tables
from ..training.folder import RunFolder
from .loading import check_device, load
from .numbers import read_count

DataNames = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def train(
    task: str,
    data: Any = (),
    *,
    model: str | None = None,
    params: int | str | None = None,
    out: str | os.PathLike[str] | None = None,
    recipe: str | os.PathLike[str] | None = None,
    init: str | os.PathLike[str] | None = None,
    of: Sequence[str | os.PathLike[str]] = (),
    device: str = "auto",
    data_dir: str | None = None,
    log: str | None = None,
    shard: bool = False,
    progress: bool = True,
    **settings: Any,
) -> TrainedModel:
    """Train one model into a new run folder, and load it.

    `task` and `model` are names, such as "text" and "lstm"; `data` are files, a known set, or for tables (series,
    labels, ratings) an array, a dictionary of columns, or a data frame, which is written beside the run as CSV.
    `params` solves the width for so many parameters; `log="tensorboard"` writes an event file beside the metrics.
    Every other setting has the name that docs/settings.md gives it: `steps`, `width`, `lr`, `seed`, `dropout`, …; in a
    program that torchrun starts, all ranks call this, and `shard` divides the weights among them.

        >>> model = recollect.train("recall", model="lstm", width=8, steps=2, eval_rows=8, out=folder, progress=False)
        >>> model.task, model.model
        ('recall', 'lstm')
    """
    if isinstance(data, list) and not data:
        raise SettingError("data: expected files, a known set or a table, found an empty list; leave it out for none")
    folder, _ = run_training(
        task, data, model=model, params=params, out=out, recipe=recipe, init=init, of=of, device=device,
        data_dir=data_dir, log=log, shard=shard, progress=progress, settings=settings,
    )  # fmt: skip
    return load(folder, device=device if device != "auto" else "cpu", data_dir=data_dir)


def run_training(
    task: str,
    data: Any,
    *,
    sources: Mapping[str, Any] | None = None,
    model: str | None,
    params: int | str | None,
    out: str | os.PathLike[str] | None,
    recipe: str | os.PathLike[str] | None,
    init: str | os.PathLike[str] | None,
    of: Sequence[str | os.PathLike[str]],
    device: str,
    data_dir: str | None,
    log: str | None = None,
    shard: bool = False,
    progress: bool,
    settings: Mapping[str, Any],
) -> tuple[Path, dict[str, Any]]:
    """Train a new run: its folder and its evaluation.

    `settings` that are strings are parsed, others have their types; `sources` are settings of the data that have flags.
    """
    from ..training import run as runs
    from ..training.progress import Progress
    from ..training.recipe import Recipe, read_recipe

    kind, where = tasks.find(task), check_device(device)
    base = read_recipe(Path(recipe), task) if recipe is not None else Recipe(task=task)
    model = model or base.model or kind.default
    model = model if model in kind.combined else kind.check_model(model)
    place = Path(out) if out is not None else Path(f"runs/{task}-{model}-{settings.get('seed', 0)}")
    given: dict[str, Any] = {
        "device": where,
        "data_dir": data_dir,
        "log": log,
        "progress": Progress(quiet=not progress),
    }
    if model in kind.combined:
        if len(of) != 2:
            raise SettingError(f"--model {model}: expected --of twice, once for each run")
        return place, runs.combine(kind, model, [str(part) for part in of], str(place), **given)
    if of:
        others = ", ".join(name for other in tasks.every() for name in other.combined)
        raise SettingError(f"--of: expected it with --model {others}, found it with --model {model}")
    config = _configure(kind, base, settings, name_data(data, place) | dict(sources or {}), model)
    wanted = read_count(base.params if params is None else params, "params")
    first = None if init is None else str(init)
    found = runs.train(kind, config, str(place), params=wanted, init=first, shard=shard, **given)
    return place, found


def _configure(kind: Any, base: Any, settings: Mapping[str, Any], data: Mapping[str, Any], model: str) -> Any:
    """The settings of a run, from its recipe and those that are given."""
    from ..training import run as runs

    own: dict[str, Any] = {
        name: tuple(cast(list[Any], value)) if isinstance(value, list) else value for name, value in settings.items()
    }
    return runs.configure(kind, base.settings | own, model=model, **base.data_settings() | dict(data))


def plan(
    task: str,
    data: DataNames = (),
    *,
    sources: Mapping[str, Any] | None = None,
    model: str | None = None,
    params: int | str | None = None,
    recipe: str | os.PathLike[str] | None = None,
    device: str = "auto",
    data_dir: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """What a training will need, measured for two seconds: a `recollect.training.planning.Plan`."""
    from ..training.planning import plan as make_plan
    from ..training.recipe import Recipe, read_recipe

    kind, where = tasks.find(task), check_device(device)
    base = read_recipe(Path(recipe), task) if recipe is not None else Recipe(task=task)
    chosen = kind.check_model(model or base.model or kind.default)
    names = list_names(data or ())
    config = _configure(kind, base, settings or {}, ({"data": names} if names else {}) | dict(sources or {}), chosen)
    wanted = read_count(base.params if params is None else params, "params")
    return make_plan(kind, config, kind.load_data(config.data, data_dir, None), where, wanted)


def name_data(data: Any, place: Path) -> dict[str, Any]:
    """The setting `data` of a run: names of files, or of the file that a table in memory is written to."""
    if tables.is_table(data):
        path = place.with_name(f"{place.name}.data.csv")
        if place.exists():
            raise RunError(f"{place}: expected a new folder, found something there; use another out")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_aside(path, tables.to_csv(data, "data").encode())
        return {"data": (str(path),)}
    found = list_names(data or ())
    return {"data": found} if found else {}


def list_names(data: DataNames) -> tuple[str, ...]:
    """Names of files or known sets, given as one or several."""
    each = (data,) if isinstance(data, str | os.PathLike) else data
    if not are_names(each):
        raise SettingError(f"--data: expected names of files or of a known set, found {type(data).__name__}")
    return tuple(os.fspath(name) for name in each)


def are_names(found: Any) -> bool:
    """Whether it is a sequence of names, which a program without types may not have given."""
    return isinstance(found, Sequence) and all(
        isinstance(name, str | os.PathLike) for name in cast(Sequence[Any], found)
    )


def resume(
    run: str | os.PathLike[str],
    *,
    steps: int | None = None,
    device: str = "auto",
    data_dir: str | None = None,
    log: str | None = None,
    progress: bool = True,
) -> TrainedModel:
    """Go on with a stopped run where its last checkpoint stands; `steps` is a new, longer budget."""
    run_resume(str(run), task=None, steps=steps, device=device, data_dir=data_dir, log=log, progress=progress)
    return load(run, device=device if device != "auto" else "cpu", data_dir=data_dir)


def run_resume(
    run: str,
    *,
    task: str | None,
    steps: int | None,
    device: str,
    data_dir: str | None,
    log: str | None = None,
    shard: bool = False,
    progress: bool,
) -> dict[str, Any]:
    """Go on with a stopped run (of `task`, where one is named): its evaluation."""
    from ..training import run as runs
    from ..training.progress import Progress

    kind, where = None if task is None else tasks.find(task), check_device(device)
    return runs.resume(
        run, task=kind, device=where, data_dir=data_dir, longer=steps, log=log, shard=shard,
        progress=Progress(quiet=not progress),
    )  # fmt: skip


def verify(run: str | os.PathLike[str]) -> dict[str, Any]:
    """The laws on the trained weights and on the exported steps beside them: the largest error, or how one broke."""
    from ..training import evaluation
    from . import steps

    folder = RunFolder.open(run)
    found = {precision: steps.open_step(folder, precision) for precision in steps.PRECISIONS}
    return evaluation.verify(folder.path, {name: step for name, step in found.items() if step is not None})


def evaluate(
    run: str | os.PathLike[str] | TrainedModel,
    *,
    split: str = "valid",
    data: DataNames = (),
    rule: str | None = None,
    device: str = "auto",
    data_dir: str | None = None,
) -> dict[str, Any]:
    """The figures of a run on a split of its own data, or on other `data`: `metric` is {name, value, rule}.

    `rule` is for tasks with several rules of measuring, such as "stateful" of text.
    """
    from ..training import evaluation
    from ..training import run as runs

    if not isinstance(run, TrainedModel | str | os.PathLike):
        raise RecollectError(f"evaluate: expected a run or its folder, found {type(run).__name__}")
    path = Path(run.path if isinstance(run, TrainedModel) else run)
    options = {} if rule is None else {"rules": runs.task_of(path).evaluation_rules(rule)}
    return evaluation.evaluate(
        path, split=split, data=list_names(data), device=check_device(device), data_dir=data_dir, **options
    )
