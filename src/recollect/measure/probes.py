"""Probes of runs: the model with rows of its data, made by the task of the run."""

from dataclasses import replace
from typing import Any

from .. import tasks
from ..core.contract import ContractError
from ..core.errors import MissingData
from ..core.inspection import Probe, Request
from ..core.task import LoadedRun


def probe_of(run: LoadedRun[Any, Any], request: Request, *, rows: int = 1, steps: int | None = None) -> Probe:
    """The run's model beside rows of its data; `rows` and `steps` where the request names none."""
    for flag, value in (("rows", request.rows), ("steps", request.steps)):
        if value is not None and value < 1:
            raise ContractError(f"--{flag}: expected at least 1, found {value}")
    for flag in ("text", "image", "sound"):
        if getattr(request, flag) is not None and flag not in run.kind.request_options:
            takers = ", ".join(task.name for task in tasks.every() if flag in task.request_options)
            raise ContractError(f"--{flag}: expected a run of {takers}, found one of {run.kind.name}")
    try:
        found = run.kind.probe(run, replace(request, rows=request.rows or rows, steps=request.steps or steps))
    except MissingData as error:
        if not (others := run.kind.request_options):
            raise
        flags = " or ".join(f"--{flag}" for flag in others)
        raise type(error)(f"{error}; or give {flags} in place of the data") from None
    if found.missing is not None:
        run.notes.append(f"a text of the model's own is read, since its data are not at hand: {found.missing}")
    return found
