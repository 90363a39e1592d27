"""A task: data, a loss, a metric and what the metric is worth without learning. One training loop serves all."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn


@dataclass(frozen=True)
class Loss:
    """What one batch gives: the scalar to minimise, how much it counts, and the state to carry on."""

    value: Tensor
    tokens: int  # what the batch adds to those of a run: read or predicted, as the task says
    carry: Any = None  # the next batch's first state, for tasks that stream


class Task(Protocol):
    """What the training loop, the race and the instruments need to know of a job."""

    name: str
    in_nats: bool  # whether the loss is −log p, so that its exponential is a perplexity
    metric: str  # the key of `evaluate` that chooses the best checkpoint; smaller is better

    @property
    def repeats(self) -> bool:
        """Whether every step runs the same operations, so that one can be captured for all."""
        ...

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Any]:
        """Batches of a split from the `start`-th on, in an order that depends on `seed` alone; endless for training.

        Since any batch can be reached by its number, a run goes on where it stopped without any state of the data.
        """
        ...

    def loss(self, model: nn.Module, batch: Any, carry: Any = None) -> Loss:
        """The loss of a batch; `carry` is what the batch before left, on tasks that stream."""
        ...

    def shape(self, batch: Any) -> tuple[int, ...]:
        """What the cost of a batch depends on: rows, steps, and the length of a source where there is one."""
        ...

    def flops(self, model: Any, *shape: int) -> float:
        """Matrix-product FLOPs of a forward pass over a batch of that shape."""
        ...

    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        """The metrics on a whole split, with the rule by which they were computed."""
        ...

    def baselines(self, split: str) -> dict[str, float]:
        """The same metric for guesses that need no learning."""
        ...
