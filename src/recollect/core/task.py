"""A task: data, a loss, a metric and what the metric is worth without learning. One training loop serves all."""

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

Batch = TypeVar("Batch")


class Task(Protocol[Batch]):
    """What the training loop, the race and the instruments need to know of a job."""

    name: str

    def batches(self, split: str, rng: torch.Generator) -> Iterator[Batch]:
        """Batches of a split, in an order that depends on `rng` alone; endless for training."""
        ...

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The scalar to minimise."""
        ...

    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        """The metric on a whole split, with the rule by which it was computed."""
        ...

    def baselines(self) -> dict[str, float]:
        """The same metric for guesses that need no learning."""
        ...
