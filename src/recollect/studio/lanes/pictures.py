"""What can be seen of a model while it reads: found from its states and from what it explains, whatever its layers.

A tensor of the state that only ever gets a slot more is a cache; one that is moved on by a slot is a window; one of
three axes is a matrix of each head; all others are units. Of what a layer explains, what grows with the text is
attention, and what has a row for each head or unit is shown like units.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from ...core import state as states

Kind = Literal["units", "cache", "window", "matrix", "attention"]
MOST_ROWS = 128  # units of a picture that are shown
MOST_HEADS = 16
MOST_SIDE = 64  # rows and columns of a matrix that are shown
PROBE = 24  # tokens that are read to learn the ranges of all numbers


@dataclass(frozen=True)
class Picture:
    """One thing to look at: `source` is the name of a tensor, of the state or of what the model explains.

    `shape` is that of its numbers at one position, but for what grows; `low` and `high` are the ends of its colours.
    """

    key: str
    level: int
    name: str
    kind: Kind
    source: str
    explained: bool
    shape: tuple[int, ...]
    whole: int  # numbers that there are; more than those shown where the tensor is large
    low: float
    high: float

    @property
    def at_once(self) -> bool:
        """Whether it is a picture of one position, and not a column of one over the text."""
        return self.kind in ("window", "matrix", "attention")

    def describe(self) -> dict[str, Any]:
        return {
            "key": self.key, "level": self.level, "name": self.name, "kind": self.kind, "shape": self.shape,
            "whole": self.whole, "low": self.low, "high": self.high, "editable": not self.explained,
            "once": self.at_once,
        }  # fmt: skip

    def take(self, tensor: torch.Tensor) -> np.ndarray:
        """The numbers at one position, of the tensor of one row."""
        row = tensor[0]
        if self.kind == "cache":
            row = row[-1] if len(row) else row.new_zeros(self.whole)
        found = row.float().cpu().numpy()
        if self.kind == "matrix":
            heads, rows, columns = self.shape
            return found.reshape(-1, *found.shape[-2:])[:heads, :rows, :columns].astype(np.float16)
        if self.kind == "window":
            return found.reshape(len(found), -1)[:, : self.shape[1]].astype(np.float16)
        if self.kind == "attention":
            return found.reshape(-1, found.shape[-1])[: self.shape[0]].astype(np.float16)
        return found.reshape(-1)[: self.shape[0]].astype(np.float16)

    def place(self, tensor: torch.Tensor, index: int) -> int:
        """Where the number of a picture lies in its tensor, both counted through."""
        if self.kind == "cache":
            return (tensor.shape[1] - 1) * self.whole + index
        if self.kind == "matrix":
            head, row, column = np.unravel_index(index, self.shape)
            return int((head * tensor.shape[-2] + row) * tensor.shape[-1] + column)
        if self.kind == "window":
            slot, unit = divmod(index, self.shape[1])
            return int(slot * (tensor[0, 0].numel()) + unit)
        return index


def find_pictures(model: Any, tokens: Sequence[int]) -> list[Picture]:
    """All pictures of a model, most telling first, with the ranges that their numbers have over `tokens`."""
    with torch.inference_mode():
        history = read(model, tokens)
    found = []
    for explained in (False, True):
        for source in history[-1][explained]:
            tensors = [step[explained][source] for step in history if source in step[explained]]
            picture = make(source, explained, tensors)
            if picture is not None:
                found.append(picture)
    levels = sorted({picture.level for picture in found})
    found = [replace(picture, level=levels.index(picture.level) + 1) for picture in found]
    return sorted(found, key=lambda picture: (RANKS.get(picture.name, 9), -picture.level))


def read(model: Any, tokens: Sequence[int]) -> list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]]:
    """The tensors of the state and of what is explained after each token."""
    history, state = [], model.initial_state(1)
    for token in tokens:
        explained = explain(model, state, token)
        _, state = model(torch.tensor([[token]]), state)
        history.append((dict(states.named(state)), explained))
    return history


def explain(model: Any, state: Any, token: int) -> dict[str, torch.Tensor]:
    """What a model explains of a step; nothing where it explains nothing."""
    found = getattr(model, "explain", None)
    return {} if found is None else found(state, torch.tensor([token]))


def make(source: str, explained: bool, tensors: Sequence[torch.Tensor]) -> Picture | None:
    """The picture of a tensor from its values after some steps in a row; None where there is nothing to see."""
    last = tensors[-1]
    if not last.is_floating_point() or last.dim() < 2 or not last.numel():
        return None
    level, name = split_source(source)
    kind, shape, whole = describe_shape(tensors, explained)
    if kind is None:
        return None
    values = np.concatenate([tensor.float().numpy().reshape(-1) for tensor in tensors])
    low, high = find_range(values)
    key = f"{level}.{name}"
    return Picture(key, level, name, kind, source, explained, shape, whole, low, high)


def describe_shape(tensors: Sequence[torch.Tensor], explained: bool) -> tuple[Kind | None, tuple[int, ...], int]:
    """The kind of a picture, its shape, and how many numbers there are at a position."""
    before, last = tensors[-2], tensors[-1]
    sides = tuple(last.shape[1:])
    if explained and before.shape != last.shape:
        heads = int(np.prod(sides[:-1]))
        return "attention", (min(heads, MOST_HEADS),), heads
    if before.shape[1] != last.shape[1]:
        whole = int(np.prod(sides[1:]))
        return "cache", (min(whole, MOST_ROWS),), whole
    if not explained and len(sides) >= 2 and sides[0] > 1 and is_shifted(tensors):
        return "window", (sides[0], min(int(np.prod(sides[1:])), MOST_ROWS)), last.numel()
    if not explained and len(sides) >= 3:
        heads, rows, columns = int(np.prod(sides[:-2])), *sides[-2:]
        if rows > 1:
            return "matrix", (min(heads, MOST_HEADS), min(rows, MOST_SIDE), min(columns, MOST_SIDE)), last.numel()
    return "units", (min(last.numel(), MOST_ROWS),), last.numel()


def is_shifted(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether each step moves the slots on by one."""
    pairs = itertools.pairwise(tensors)
    return bool(tensors[-1].any()) and all(torch.equal(before[:, 1:], after[:, :-1]) for before, after in pairs)


def find_range(values: np.ndarray) -> tuple[float, float]:
    """The ends of the colours: 0 to a round number, or one and its opposite where numbers are negative."""
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    most = float(np.quantile(np.abs(values), 0.995))
    if values.min() >= 0 and values.max() <= 1:
        return 0.0, 1.0 if most > 0.3 else round_up(most)
    return (0.0 if values.min() >= 0 else -round_up(most)), round_up(most)


def round_up(value: float) -> float:
    """The next of 1, 2, 5, 10 … that is not below a value."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** np.floor(np.log10(value))
    return float(next(step * unit for step in (1, 2, 5, 10) if step * unit >= value * (1 - 1e-9)))


def split_source(source: str) -> tuple[int, str]:
    """The number of the layer in the stack and the name within it, of a path such as 2.model.weights.0."""
    head, _, rest = source.partition(".")
    return (int(head), rest) if head.isdigit() and rest else (0, source)


def replace_value(state: Any, source: str, index: int, value: float) -> Any:
    """The state with one number of one tensor replaced; the state that was given stays as it is."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor is not wanted:
            return tensor
        made = tensor.clone()
        made.view(-1)[index] = value
        return made

    wanted = dict(states.named(state))[source]
    return states.map(change, state)


RANKS: Mapping[str, int] = {  # what is shown first of a layer
    "h": 0, "c": 1, "weights": 0, "sums": 0, "model.weights.0": 0, "window": 0, "first.window": 1,
    "second.window": 0, "continuations": 0, "loss": 1, "keys": 2, "values": 3, "forget": 2, "written": 3,
}  # fmt: skip
