"""Every task that can be trained, by name: the one registry of jobs."""

from pathlib import Path
from typing import Any

from ..core.settings import known
from . import captions, labels, memory, ratings, series, text, translation
from .folder import RunError, RunFolder
from .job import Job

JOBS: dict[str, Job[Any, Any]] = {
    job.name: job
    for job in (text.JOB, translation.JOB, series.JOB, captions.JOB, labels.JOB, ratings.JOB, *memory.JOBS)
}


def job_of(path: str | Path) -> Job[Any, Any]:
    """The job of a run folder."""
    folder = RunFolder.open(path)
    name = folder.config().get("task")
    if name not in JOBS:
        raise RunError(f"{folder.config_path}: expected a task out of {', '.join(JOBS)}, found {name!r}")
    return JOBS[name]


def named(task: str) -> Job[Any, Any]:
    """The job of that name, or a line that says which there are."""
    return JOBS[known("task", task, JOBS)]
