"""A small training for a claim: by the job that `recollect train` runs, into a folder that is gone afterwards."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..models.size import parameters
from ..train.folder import RunFolder
from ..train.job import Job
from ..train.jobs import named
from .claim import Effort


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a training left."""

    figures: dict[str, Any]  # the job's figures, and `params`, `state_bytes`, `seconds`
    curve: list[dict[str, Any]]  # metrics.jsonl: loss and gradient norm as logged, `valid` where it was evaluated
    model: Any  # with its best weights; with one evaluation, at the end, those are the last
    task: Any
    kept: Any  # what a run folder keeps of the data: a tokenizer, a scaler

    @property
    def metric(self) -> float:
        return self.figures["metric"]["value"]

    @property
    def valid(self) -> float:
        """The metric on the validation part, by which a setting may be chosen."""
        return next(row["valid"] for row in reversed(self.curve) if "valid" in row)

    def points(self, key: str = "accuracy") -> dict[int, float]:
        """Of a test of memory: a figure at each value of its dial."""
        dial = self.task.test.dial
        return {point[dial]: point[key] for point in self.figures["points"]}


def train(
    task: str | Job[Any, Any],
    model: str,
    *,
    steps: int,
    seed: int,
    device: str = "cpu",
    params: int | None = None,
    split: str = "valid",
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> Trained:
    """Train `model` on `task` for so many steps and measure it on `split`, with `options` for the measure.

    A task is named, or is a job of the claim's own. `settings` are those of --set. Where they say nothing, a tenth of
    the steps warm up, and the model is evaluated once, at the end. With `params` the width is solved for. A run that
    diverges raises `TrainingStopped`.
    """
    job = named(task) if isinstance(task, str) else task
    usual = {"warmup": steps // 10, "eval_every": steps, "save_every": steps}
    texts = {name: _text(value) for name, value in (usual | settings | {"steps": steps, "seed": seed}).items()}
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        job.train(job.configure(texts, model=model), str(out), device=device, params=params)
        used = job.load(out, device)
        curve = RunFolder(out).metrics()
    data = job.read(used.run.data, None, used.kept)
    measured = job.task(used.run, data, device)
    cost = {
        "params": parameters(used.model),
        "state_bytes": job.state_bytes(used.model, used.run),
        "seconds": max(row.get("seconds", 0.0) for row in curve),
    }
    figures = job.figures(used.model, measured, split, **(options or {})) | cost
    return Trained(figures=figures, curve=curve, model=used.model, task=measured, kept=used.kept)


def seeds(effort: Effort, quick: int, full: int) -> range:
    """The seeds of a claim's runs."""
    return range(effort.seeds or effort.pick(quick, full))


def _text(value: Any) -> str:
    """A setting as a flag would spell it."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
