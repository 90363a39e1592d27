"""How a translator's errors fall while it learns to copy.

Models that end without an error are equal there, whatever it took them; the mean over the way tells them apart.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ..tasks.translation.task import TranslationTask
from ._copying import Copying, train


class Course(NamedTuple):
    """The share of wrong symbols after each part of a training."""

    steps: Sequence[int]
    errors: Sequence[float]

    @property
    def mean(self) -> float:
        return float(np.mean(self.errors))

    @property
    def end(self) -> float:
        return self.errors[-1]


class Watched(TranslationTask):
    """A task whose evaluations count wrong symbols in the test sources of at least `shortest` symbols."""

    def __init__(self, task: TranslationTask, copying: Copying, shortest: int) -> None:
        super().__init__(task.config, task.data, task.device, task.seed)
        self.metric = "wrong"
        pairs = self.pairs("test")
        self.looked_at = self.batch(pairs, np.flatnonzero(np.asarray(pairs.source_lengths) >= shortest))
        words = [chr(ord("a") + i) for i in range(copying.symbols)]
        symbols = torch.tensor([int(task.data.target.encode(word)[0]) for word in words], device=task.device)
        self.judged = torch.isin(self.looked_at.y, symbols)  # neither the end nor the word that names a direction
        self.noted: list[float] = []

    @torch.no_grad()
    def evaluate(self, model: Any, split: str) -> dict[str, Any]:
        batch = self.looked_at
        said = model(batch.x, memory=model.encode(batch.source, batch.lengths))[0].argmax(dim=-1)
        self.noted.append(float((said != batch.y)[self.judged].double().mean()))
        return {self.metric: self.noted[-1]}


def follow(
    task: TranslationTask, copying: Copying, model: str, *, shortest: int, steps: int, every: int, **settings: Any
) -> Course:
    """Train a translator as `_copying.train` does, and look at it after `every` so many steps."""
    watched = Watched(task, copying, shortest)
    train(watched, model, steps=steps, every=every, **settings)
    at = range(every, steps + 1, every)
    return Course(list(at), watched.noted[: len(at)])
