"""The tests of memory as tasks: any of them, for any model, through the loop that trains everything.

Training never sees a row twice on purpose; validation and test are fixed sets of rows, the same for every run. The
tokens of a run are the steps that it has read, asked about or not; older rows in results/ count answers instead.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...core.contract import check_settings
from ...core.task import Loss
from ...data.files import DataError
from .data import CLOSE
from .generator import PARTS, Rows, Test

SEED = 0  # of validation and test, whatever the seed of the run


@dataclass(frozen=True, kw_only=True)
class Config:
    """`eval_rows` is how many rows validation and test have, at each value of the dial."""

    batch: int = 64
    eval_rows: int = 1000
    eval_batch: int = 250

    def __post_init__(self) -> None:
        check_settings(self)


class Batch(NamedTuple):
    x: Tensor  # B T tokens, or B T D numbers
    at: Tensor  # B A, the steps at which something is asked
    y: Tensor  # B A, the answers
    number: int


class Judged(NamedTuple):
    """What a model was worth on every answer of a set."""

    losses: Tensor  # N A: nats, or squared errors
    right: Tensor  # N J, of the answers that are the test's questions


class MemoryTask:
    """A test of memory to pass."""

    def __init__(self, config: Config, test: Test, device: torch.device | str = "cpu") -> None:
        self.config, self.test, self.device = config, test, torch.device(device)
        self.name, self.metric = test.kind, test.metric
        self.in_nats = test.metric != "mse"
        self.drawn: dict[tuple[str, int], Rows] = {}  # what evaluations look at again and again

    # Training

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        if split != "train":
            yield from self._cut(self._rows(split, self.test.value), start)
            return
        number = start
        while True:
            yield self._batch(self.test.batch(split, seed, number, self.config.batch), number)
            number += 1

    def _rows(self, split: str, value: int) -> Rows:
        """The fixed rows of a split with the dial at `value`."""
        if split not in PARTS:
            raise DataError(f"{self.name}: expected a split out of {', '.join(PARTS)}, found {split!r}")
        if (split, value) not in self.drawn:
            turned = self.test.turned(value)
            self.drawn[split, value] = turned.batch(split, SEED, 0, self.config.eval_rows)
        return self.drawn[split, value]

    def _cut(self, rows: Rows, start: int = 0) -> Iterator[Batch]:
        size = self.config.eval_batch
        for number in range(start, -(-len(rows.x) // size)):
            part = slice(number * size, (number + 1) * size)
            yield self._batch(Rows(*(array[part] for array in rows)), number)

    def _batch(self, rows: Rows, number: int) -> Batch:
        x, at, y = (self._tensor(array) for array in rows)
        return Batch(x, at, y, number)

    def _tensor(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor

    def loss(self, model: Any, batch: Batch, carry: Any = None) -> Loss:
        """Over the steps at which something is asked, and no others."""
        losses = self.losses(answers(model, batch.x, batch.at), batch.y)
        return Loss(losses.mean(), batch.y.shape[0] * batch.x.shape[1])

    def losses(self, said: Tensor, y: Tensor) -> Tensor:
        """Nats, or squared errors, of each answer: B A."""
        said = said.float()  # also where half of it would do for the model
        if not self.test.tokens:
            return (said[..., 0] - y).square()
        return cross_entropy(said.transpose(1, 2), y, reduction="none")

    @property
    def repeats(self) -> bool:
        return not self.test.vary

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return *batch.x.shape[:2], batch.at.shape[1]

    def flops(self, model: Any, *shape: int) -> float:
        rows, steps, asked = shape
        unasked = 2 * rows * (steps - asked) * model.head.weight.numel()
        return model.cost(rows, steps).flops - unasked

    # Measuring

    def evaluate(self, model: Any, split: str) -> dict[str, Any]:
        """The metric with the dial where it stands; `points` has its other values too, those beyond training included.

        `by_place` is the share of right answers at each of the row's questions, in their order.
        """
        test = self.test
        found = {value: self.judge(model, split, value) for value in test.points()}
        own = found[test.value]
        points = [{test.dial: value} | self._figures(judged) for value, judged in found.items()]
        return self._figures(own) | {
            "by_place": own.right.double().mean(dim=0).tolist(),
            "points": points,
            "answers": own.right.numel(),
            "chance": test.chance,
            "baselines": self.baselines(split),
            "rule": self.rule(),
        }

    def _figures(self, judged: Judged) -> dict[str, float]:
        loss, accuracy = float(judged.losses.double().mean()), float(judged.right.double().mean())
        last = float(judged.right[:, -1].double().mean())
        found = {"loss": loss, "accuracy": accuracy, "last": last, "error": 1 - accuracy}
        return found if self.test.tokens else found | {"mse": loss}

    @torch.no_grad()
    def judge(self, model: Any, split: str, value: int) -> Judged:
        """Every answer of a split with the dial at `value`."""
        asked = self.test.turned(value).judged
        losses, right = [], []
        for batch in self._cut(self._rows(split, value)):
            said = answers(model, batch.x, batch.at)
            losses.append(self.losses(said, batch.y).cpu())
            good = said.argmax(dim=-1) == batch.y if self.test.tokens else losses[-1] < CLOSE**2
            right.append(good[:, -asked:].cpu())
        return Judged(torch.cat(losses), torch.cat(right))

    def rule(self) -> str:
        """How the figures came about, in words."""
        test = self.test
        rows = f"{self.config.eval_rows:,} generated rows with {test.dial} {test.value}"
        asked = f"{test.judged} questions" if test.judged > 1 else "one question"
        if not test.tokens:
            return f"squared error of {rows}, {asked} each; right is what is less than {CLOSE} off"
        scope = "" if test.metric == "error" else "nats over every answer, accuracy over the questions; "
        return f"{scope}{rows}, {asked} each, the likeliest answer taken"

    def baselines(self, split: str) -> dict[str, float]:
        """The metric of those who guess."""
        return self.test.baselines()


def answers(model: Any, x: Tensor, at: Tensor) -> Tensor:
    """What a classifier says at the steps `at` (B A): B A C.

    It is asked only there, since with 8,192 words an answer at every step would cost more than all the rest.
    """
    hidden, _ = model.body(model.enter(x), model.initial_state(len(x)).body)  # B T W
    return model.head(hidden.gather(1, at[..., None].expand(-1, -1, hidden.shape[-1])))
