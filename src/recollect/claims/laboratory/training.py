"""Trainings for claims: as `recollect train` runs them, or of data that a claim makes itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from ... import tasks
from ...core.task import Task
from ...data.tokenizers.chars_and_bytes import Chars
from ...models.size import parameters
from ...tasks.text import data as corpus
from ...tasks.text.settings import Config as TextConfig
from ...tasks.text.task import TextTask
from ...training import run as runs
from ...training.folder import RunFolder
from ...training.loop import Trainer, TrainingStopped
from ...training.settings import Settings
from ..claim import Effort
from .figures import gather
from .watch import next_training

Kind = type[Task[Any, Any]]
CELLS = {"layers": 1, "lr": 1e-2}
BLOCKS = {"layers": 2, "heads": 2, "lr": 3e-3}
GAP_MODELS: dict[str, dict[str, Any]] = {  # that answer a question about a fact long before
    "ar": CELLS,
    "mlp": CELLS,
    "rnn": CELLS,
    "lstm": CELLS | {"forget_bias": 1.0},
    "gru": CELLS,
    "tcn": {"layers": 5, "kernel": 5, "lr": 3e-3},  # sees 249 words
    "transformer": BLOCKS,
    "linear-transformer": BLOCKS,
    "ttt-linear": BLOCKS,
    "ttt-mlp": BLOCKS,
}


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a training left."""

    figures: dict[str, Any]  # the task's figures, and `params`, `state_bytes`, `seconds`
    curve: list[dict[str, Any]]  # metrics.jsonl: loss and gradient norm as logged, `valid` where it was evaluated
    model: Any  # with its best weights; with one evaluation, at the end, those are the last
    task: Any
    artifacts: Any  # what a run folder stores of the data: a tokenizer, a scaler

    @property
    def metric(self) -> float:
        return self.figures["metric"]["value"]

    @property
    def valid(self) -> float:
        """The metric on the validation part, by which a setting may be chosen."""
        return next(row["valid"] for row in reversed(self.curve) if "valid" in row)

    def points(self, key: str = "accuracy") -> dict[int, float]:
        """Of a test of memory: a figure at each value of its dial."""
        dial = self.task.data.dial
        return {point[dial]: point[key] for point in self.figures["points"]}


def train(
    task: str | Kind,
    model: str,
    *,
    steps: int,
    seed: int,
    device: str = "cpu",
    params: int | None = None,
    split: str = "valid",
    **settings: Any,
) -> Trained:
    """Train `model` on `task` for so many steps and measure it on `split`.

    A task is named, or is one of the claim's own. `settings` are those of --set. Where they say nothing, a tenth of
    the steps warm up, and the model is evaluated once, at the end. With `params` the width is solved for. A run that
    diverges raises `TrainingStopped`.
    """
    kind = tasks.find(task) if isinstance(task, str) else task
    usual = {"warmup": steps // 10, "eval_every": steps, "save_every": steps}
    texts = {name: _text(value) for name, value in (usual | settings | {"steps": steps, "seed": seed}).items()}
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        config, progress = runs.configure(kind, texts, model=model), next_training()
        runs.train(kind, config, str(out), device=device, params=params, progress=progress)
        run = runs.load(out, device, task=kind)
        curve = RunFolder(out).metrics()
    cost = {
        "params": parameters(run.model),
        "state_bytes": kind.state_bytes(run.model, run.config),
        "seconds": max(row.get("seconds", 0.0) for row in curve),
    }
    figures = run.task.figures(run.model, split) | cost
    return Trained(figures=figures, curve=curve, model=run.model, task=run.task, artifacts=run.artifacts)


def try_train(task: str | Kind, model: str, **settings: Any) -> Trained | None:
    """`train`, or None where the run diverges."""
    try:
        return train(task, model, **settings)
    except TrainingStopped:
        return None


def train_seeds(task: str | Kind, model: str, effort: Effort, seeds: tuple[int, int], **settings: Any) -> list[Trained]:
    """The same training once for each seed, of which the quick and the full form have so many."""
    return [train(task, model, seed=seed, device=effort.device, **settings) for seed in effort.seed_range(*seeds)]


def train_models(
    task: str | Kind, models: Mapping[Any, dict[str, Any]], effort: Effort, seeds: tuple[int, int], **settings: Any
) -> dict[Any, list[Trained]]:
    """{model: [training of each seed]}; a name that is no model's has `model` among its settings."""
    found = {}
    for name, own in models.items():
        chosen = {"model": name} | settings | own
        found[name] = train_seeds(task, effort=effort, seeds=seeds, **chosen)
    return found


def by_dial(runs: Mapping[str, Sequence[Trained]], key: str = "accuracy") -> dict[str, dict[int, list[float]]]:
    """{model: {value of the dial: [figure of each seed]}} of a test of memory."""
    return {model: gather(run.points(key) for run in each) for model, each in runs.items()}


def _text(value: Any) -> str:
    """A setting as a flag would spell it."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def fit(
    task: Task[Any, Any],
    build: Callable[[], Any],
    *,
    steps: int,
    rate: float,
    seed: int,
    device: str = "cpu",
    **settings: Any,
) -> Any:
    """A model with the weights it has after so many steps, ready to be measured.

    It is evaluated once, at the end, and its weights do not decay, where `settings` do not say otherwise.
    """
    torch.manual_seed(seed)
    model = build()
    usual = {"warmup": steps // 20, "weight_decay": 0.0, "eval_every": steps, "save_every": steps}
    chosen = Settings(steps=steps, lr=rate, seed=seed, **usual | settings)
    Trainer(task, model, chosen, None, torch.device(device), next_training()).run()
    return model.eval()


def text_task(
    texts: Mapping[str, str], device: str, seed: int, *, tokenizer: str = "chars", **settings: Any
) -> TextTask:
    """Texts of a claim's own making, `train` and `test`, as a task; the test is for validation."""
    with TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.txt" for name in texts}
        for name, path in paths.items():
            path.write_text(texts[name], encoding="utf-8")
        data = corpus.load([paths["train"]], valid=[paths["test"]], tokenizer=tokenizer, cache=Path(folder) / "cache")
    return TextTask(TextConfig(**settings), data, device, seed)


def token_task(
    name: str, letters: str, train: Any, valid: Any, device: str = "cpu", seed: int = 0, **settings: Any
) -> TextTask:
    """Tokens of a claim's own making, each a letter, as a task."""
    data = corpus.Corpus(
        name=name,
        tokenizer=Chars(list(letters)),
        train=train,
        valid=valid,
        test=None,
        text_bytes={"train": len(train), "valid": len(valid)},
        unknown_share={},
        fingerprint=name,
        notes=[],
    )
    return TextTask(TextConfig(**settings), data, device, seed)
