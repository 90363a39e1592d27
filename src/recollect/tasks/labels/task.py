"""Labels: say what a whole sequence is, a text or an image read pixel by pixel, after its last step.

The figures, by these rules:

    accuracy      the share of rows whose likeliest label is the right one
    F1            of a label: 2·hits / (2·hits + misses + false alarms); the mean over labels that are there or said
    calibration   rows go into 15 bins by the probability of the answer; the mean distance between that and the share
                  of right answers in a bin, weighted by its rows (expected calibration error)

The tokens of a run are those that it has read, of images their steps, padding left out; older rows in results/ count
the texts and images instead.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...core.contract import ContractError, check_settings
from ...core.task import Loss
from ...data.files import DataError
from . import bag
from .labelled import Labelled, Part

BINS = 15


@dataclass(frozen=True, kw_only=True)
class Config:
    """Rows of like length go together: `bucket` batches' worth of rows are sorted by length before they are cut.

    `choose` is the figure by which validation picks the best weights. `eval_rows` looks only at so many rows from the
    beginning of a split, and the rule then says so. `length` is that of a training row (the median; filled in).
    """

    batch: int = 64
    bucket: int = 16
    smoothing: float = 0.0
    choose: Literal["error", "nats"] = "error"
    eval_batch: int = 256
    eval_rows: int | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 <= self.smoothing < 1:
            raise ContractError(f"labels: expected smoothing in [0, 1), found {self.smoothing}")


class Batch(NamedTuple):
    x: Tensor  # B T tokens, or B T D numbers
    lengths: Tensor | None  # B; None: every row has T steps
    y: Tensor  # B
    tokens: int  # or steps, padding left out
    number: int = 0


class Rows:
    """A split on the device, from which any rows are taken at once."""

    def __init__(self, part: Part, device: torch.device) -> None:
        self.device = device
        self.sizes = np.asarray(part.lengths)
        self.images = part.values.ndim == 3
        values = part.values if self.images or part.values.dtype == np.uint8 else part.values.astype(np.int32)
        self.values = torch.from_numpy(np.ascontiguousarray(values)).to(device)
        self.labels = torch.from_numpy(part.labels.astype(np.int64)).to(device)
        if not self.images:
            self.lengths = torch.from_numpy(self.sizes.astype(np.int64)).to(device)
            self.starts = self.lengths.cumsum(0) - self.lengths

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, numbers: np.ndarray, rows: Tensor | None = None, number: int = 0) -> Batch:
        """The rows with these numbers; `rows` are the same on the device, where they are there already."""
        sizes = self.sizes[numbers]
        rows = torch.from_numpy(numbers).to(self.device) if rows is None else rows
        if self.images:
            return Batch(self.values[rows].float() / 255, None, self.labels[rows], int(sizes.sum()), number)
        lengths = self.lengths[rows]
        steps = torch.arange(int(sizes.max()), device=self.device)
        # beyond a row's end stands its last token again: whatever is there, nothing reads it
        places = self.starts[rows, None] + torch.minimum(steps, lengths[:, None] - 1)
        return Batch(self.values[places].long(), lengths, self.labels[rows], int(sizes.sum()), number)


class LabelsTask:
    """Labelled rows to tell apart."""

    name = "labels"
    in_nats = True

    def __init__(self, config: Config, data: Labelled, device: torch.device | str = "cpu") -> None:
        self.config, self.data, self.device = config, data, torch.device(device)
        self.metric: str = config.choose
        self.parts: dict[str, Rows] = {}
        self.counted: bag.Bag | None = None

    def rows(self, split: str) -> Rows:
        if split not in self.parts:
            self.parts[split] = Rows(self.part(split), self.device)
        return self.parts[split]

    def part(self, split: str) -> Part:
        if split not in ("train", "valid", "test"):
            raise DataError(f"{self.data.name}: expected a split out of train, valid, test, found {split!r}")
        found = getattr(self.data, split)
        if found is None:
            raise DataError(
                f"{self.data.name}: expected a {split} part, found none; measure a file with --data, or train with one "
                "(--set test=FILE)"
            )
        return found

    # Training

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        """Every row once an epoch, but for a last batch that would be too small; in another order each time."""
        rows = self.rows(split)
        each = min(self.config.batch, len(rows))
        count = len(rows) // each
        number, epoch, plan, order = start, -1, np.zeros(0), torch.zeros(0)
        while True:
            if number // count != epoch:
                epoch = number // count
                plan = self.plan(rows.sizes, each, np.random.default_rng([seed, epoch]))
                order = torch.from_numpy(plan).to(self.device)
            place = number % count
            yield rows.take(plan[place], order[place], number)
            number += 1

    def plan(self, sizes: np.ndarray, each: int, draw: np.random.Generator) -> np.ndarray:
        """The row numbers of an epoch's batches: batches, rows."""
        order = draw.permutation(len(sizes))[: len(sizes) // each * each]
        if sizes.min() == sizes.max():
            return order.reshape(-1, each)
        group = np.arange(len(order)) // (each * self.config.bucket)
        order = order[np.lexsort((sizes[order], group))]
        return draw.permutation(order.reshape(-1, each))

    def loss(self, model: nn.Module, batch: Batch, carry: Any = None) -> Loss:
        value = cross_entropy(answers(model, batch), batch.y, label_smoothing=self.config.smoothing)
        return Loss(value, batch.tokens)

    @property
    def repeats(self) -> bool:
        return self.rows("train").images

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return tuple(batch.x.shape[:2])

    def flops(self, model: Any, *shape: int) -> float:
        return model.cost(*shape).flops

    # Measuring

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        """Accuracy, F1, calibration, nats and the confusion matrix (a row for each true label) over a split."""
        rows = self.rows(split)
        count = min(len(rows), self.config.eval_rows or len(rows))
        by_length = np.argsort(-rows.sizes[:count], kind="stable")
        losses, said, sure = [], [], []
        for at in range(0, count, self.config.eval_batch):
            batch = rows.take(by_length[at : at + self.config.eval_batch])
            likely = answers(model, batch).float().log_softmax(dim=-1)
            losses.append(-likely.gather(1, batch.y[:, None])[:, 0])
            best = likely.max(dim=1)
            said.append(best.indices)
            sure.append(best.values.exp())
        nats = torch.cat(losses).double().cpu().numpy()
        predicted = torch.cat(said).cpu().numpy()
        true = self.part(split).labels[by_length]
        table = confusion(true, predicted, len(self.data.kept.classes))
        right = float((true == predicted).mean())
        return {
            "error": 1 - right,
            "nats": float(nats.mean()),
            "accuracy": right,
            "macro_f1": macro_f1(table),
            "calibration_error": calibration_error(true == predicted, torch.cat(sure).cpu().numpy()),
            "confusion": table.tolist(),
            "rows": count,
            "rule": self.describe(count, len(rows)),
        }

    def describe(self, count: int, total: int) -> str:
        limit = f"the first {count:,} of {total:,} rows" if count < total else f"all {total:,} rows"
        return f"{limit}, each judged by the answer after its last step; F1 is the mean over labels; {BINS} bins"

    def baselines(self, split: str) -> dict[str, float]:
        """The commonest label for all, and for texts naive Bayes over the bag of words."""
        return {name: found[self.metric] for name, found in self.guesses(split).items()}

    def guesses(self, split: str) -> dict[str, dict[str, float]]:
        """What the baselines reach, by each figure."""
        train, count = self.part("train"), len(self.data.kept.classes)
        shares = np.bincount(train.labels, minlength=count) + 1.0
        true = self.part(split).labels[: self.config.eval_rows]
        right = float((true == shares.argmax()).mean())
        nats = float(-np.log(shares / shares.sum())[true].mean())
        found = {"majority": {"error": 1 - right, "accuracy": right, "nats": nats}}
        if self.data.kept.tokenizer is not None:
            if self.counted is None:
                config = bag.Config(inputs=self.data.kept.inputs, outputs=count)
                self.counted = config.build().train_on(train.values, train.lengths, train.labels).to(self.device)
            full = self.evaluate(self.counted, split)
            found["bag of words"] = {name: full[name] for name in ("error", "accuracy", "nats")}
        return found


def answers(model: Any, batch: Batch) -> Tensor:
    """What a model says of each row after its last step: B C."""
    if batch.lengths is None:
        return model(batch.x)[0][:, -1]
    return model.last(batch.x, batch.lengths)


def confusion(true: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """How often each label (row) was taken for each (column)."""
    return np.bincount(true.astype(np.int64) * classes + predicted, minlength=classes**2).reshape(classes, classes)


def macro_f1(table: np.ndarray) -> float:
    """The mean F1 of the labels that are there or were said."""
    hits = np.diag(table).astype(float)
    both = table.sum(axis=0) + table.sum(axis=1)  # 2·hits + misses + false alarms
    return float((2 * hits[both > 0] / both[both > 0]).mean()) if both.any() else math.nan


def calibration_error(right: np.ndarray, sure: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error: how far probabilities of answers are from shares of right ones, bin by bin."""
    place = np.clip(np.ceil(sure.astype(np.float64) * bins).astype(int) - 1, 0, bins - 1)  # (0, 1/bins], …
    gap = np.bincount(place, weights=right.astype(np.float64) - sure, minlength=bins)
    return float(np.abs(gap).sum() / len(sure))
