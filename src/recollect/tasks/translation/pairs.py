"""Sentence pairs as token arrays, and batches of similar length drawn from them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ...data.files import DataError

SideName = Literal["source", "target"]
SIDES: tuple[SideName, SideName] = ("source", "target")
SPLITS = ("train", "valid", "test")


class Texts:
    """Lines of text stored end to end as UTF-8 bytes."""

    def __init__(self, data: np.ndarray, offsets: np.ndarray) -> None:
        self._data, self._offsets = data, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> str:
        index = range(len(self))[index]
        return self._data[self._offsets[index] : self._offsets[index + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of one split: the tokens of each side end to end, where each sentence begins, and the raw lines."""

    source: np.ndarray  # int32
    source_offsets: np.ndarray  # int64, one more than there are pairs
    target: np.ndarray
    target_offsets: np.ndarray
    source_text: np.ndarray  # UTF-8
    source_text_offsets: np.ndarray
    target_text: np.ndarray
    target_text_offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.source_offsets) - 1

    def source_of(self, index: int) -> np.ndarray:
        index = range(len(self))[index]
        return self.source[self.source_offsets[index] : self.source_offsets[index + 1]]

    def target_of(self, index: int) -> np.ndarray:
        index = range(len(self))[index]
        return self.target[self.target_offsets[index] : self.target_offsets[index + 1]]

    def texts(self, side: SideName) -> Texts:
        """The lines as they were before any preparation; line i belongs to pair i."""
        if side == "source":
            return Texts(self.source_text, self.source_text_offsets)
        if side == "target":
            return Texts(self.target_text, self.target_text_offsets)
        raise DataError(f"expected source or target, found {side!r}")

    @cached_property
    def source_lengths(self) -> np.ndarray:
        return np.diff(self.source_offsets)

    @cached_property
    def target_lengths(self) -> np.ndarray:
        return np.diff(self.target_offsets)


def batches_by_tokens(
    pairs: Pairs, tokens: int, seed: int | None = None, epoch: int = 0, grain: int = 1
) -> list[np.ndarray]:
    """Every pair once, in batches of similar length: rows times the longest row is at most `tokens`.

    A row is as long as the longer side of its pair, with its `end`, up to the next multiple of `grain`. A pair longer
    than `tokens` is a batch of its own. Which of equally long pairs meet and the order of the batches depend on `seed`
    and `epoch`; without a seed the batches come from short to long. The number of batches is the same for every epoch
    and seed.
    """
    if tokens < 1:
        raise DataError(f"expected a batch of at least 1 token, found {tokens}")
    widths = -(-(np.maximum(pairs.source_lengths, pairs.target_lengths) + 1) // grain) * grain
    if seed is None:
        order, shuffled = np.argsort(widths, kind="stable"), None
    else:
        shuffled = np.random.default_rng([seed, epoch])
        order = shuffled.permutation(len(widths))
        order = order[np.argsort(widths[order], kind="stable")]
    widths = widths[order]
    batches: list[np.ndarray] = []
    start = 0
    while start < len(order):
        most = max(tokens // int(widths[start]), 1)
        window = widths[start : start + most]
        # what the first 1, 2, … rows would take grows with each row
        rows = int(np.searchsorted(window * np.arange(1, len(window) + 1), tokens, side="right"))
        stop = start + max(rows, 1)
        batches.append(order[start:stop])
        start = stop
    if shuffled is not None:
        batches = [batches[i] for i in shuffled.permutation(len(batches))]
    return batches


def batches_from(pairs: Pairs, tokens: int, seed: int, start: int = 0, grain: int = 1) -> Iterator[np.ndarray]:
    """Batches without end, epoch after epoch, from number `start` on: each a function of `seed` and its number."""
    count = len(batches_by_tokens(pairs, tokens, grain=grain))
    epoch, skip = divmod(start, count)
    while True:
        yield from batches_by_tokens(pairs, tokens, seed, epoch, grain)[skip:]
        epoch, skip = epoch + 1, 0
