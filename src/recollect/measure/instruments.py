"""Every instrument by name, for any run: what `recollect inspect` calls.

An instrument is a file of this folder that declares `INSTRUMENT`, or one of a task's own, in its `instruments.py`.
"""

import pkgutil
from dataclasses import fields, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import tasks
from ..core.contract import ContractError
from ..core.inspection import Instrument, Reading
from ..core.settings import highest, known
from ..core.task import LoadedRun, RunError
from ..training import evaluation
from ..training import run as runs


@cache
def instruments() -> dict[str, Instrument]:
    """All instruments: those of every run, then those of single tasks."""
    files = [import_module(f"{__package__}.{file.name}") for file in pkgutil.iter_modules([str(Path(__file__).parent)])]
    everywhere = [file.INSTRUMENT for file in files if hasattr(file, "INSTRUMENT")]
    return {own.name: own for own in (*everywhere, *(own for _, group in _of_tasks() for own in group))}


def _of_tasks() -> list[tuple[str, tuple[Instrument, ...]]]:
    return list(tasks.declared("instruments", "INSTRUMENTS"))


def inspect(path: str | Path, what: str, *, device: str = "cpu", data_dir: str | None = None, **given: Any) -> Reading:
    """What an instrument finds in a run."""
    every = instruments()
    instrument = every[known("instrument", what, every)]
    own = {field.name for field in fields(instrument.options)}
    for name, value in given.items():
        if value is not None and name not in own:
            takers = [other.name for other in every.values() if name in {f.name for f in fields(other.options)}]
            raise ContractError(f"--{name}: expected with {', '.join(takers)}, found with {what}")
        if type(value) is int and value < 1:
            raise ContractError(f"--{name}: expected at least 1, found {value}")
        if type(value) is int and value > (
            most := highest(next(f for f in fields(instrument.options) if f.name == name))
        ):
            raise ContractError(
                f"--{name}: expected at most {most:,}, found {value:,}; each takes at least a pass of the model"
            )
    run = runs.load(path, device, data_dir=data_dir)
    instrument = _of_task(run, what, instrument)
    options = instrument.options(**{name: value for name, value in given.items() if name in own})
    found = instrument.read(run, options)
    changed = evaluation.data_change(run) if "data" in vars(run) else None
    notes = [*([changed] if changed else ()), *run.notes]
    return replace(found, notes=notes, model=str(run.config.model.get("name", "")))


def _of_task(run: LoadedRun[Any, Any], what: str, instrument: Instrument) -> Instrument:
    """The instrument of that name that the run's task has; one of other tasks alone is refused."""
    owners = {folder: own for folder, group in _of_tasks() for own in group if own.name == what}
    folder = tasks.folder_of(run.kind.name)
    if owners and folder not in owners:
        takers = " or ".join(owners)
        raise RunError(f"{run.path}: expected a run of {takers} for {what}, found one of {run.kind.name}")
    return owners.get(folder, instrument)
