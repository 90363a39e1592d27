"""Choices drawn from numbers of numpy's: without repetition in every row, or one by one where rows are texts."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


def distinct(rng: np.random.Generator, rows: int, count: int, size: int) -> np.ndarray:
    """In each row `count` different numbers below `size`, every choice as likely as any other: B count."""
    found = rng.integers(0, size, size=(rows, count))
    for i in range(1, count):
        again = np.flatnonzero((found[:, :i] == found[:, i : i + 1]).any(axis=1))
        while len(again):
            found[again, i] = rng.integers(0, size, size=len(again))
            again = again[(found[again, :i] == found[again, i : i + 1]).any(axis=1)]
    return found


def uniform(rng: np.random.Generator) -> Iterator[float]:
    """Numbers from [0, 1) one by one, drawn many at a time: a call of numpy's for each is slow."""
    while True:
        yield from rng.random(1024).tolist()


def pick(numbers: Iterator[float], options: Sequence[Any]) -> Any:
    return options[int(next(numbers) * len(options))]


def some(numbers: Iterator[float], options: Sequence[Any], count: int) -> list[Any]:
    """`count` of the options, none twice, in any order."""
    rest = list(options)
    return [rest.pop(int(next(numbers) * len(rest))) for _ in range(count)]
