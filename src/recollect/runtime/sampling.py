"""Choice of the next token on a CPU: greedy, or sampled with temperature, top-k, top-p and a repetition penalty."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.settings import ContractError, at_least, check_settings

TEMPERATURES = 1e-20, 1e20  # the least and the highest
SORT_SHARE = 8  # with top_k above 1/8 of the vocabulary all logits are sorted

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of generation: `length` tokens, each the likeliest (`greedy`) or sampled at `temperature`.

    Sampling is from the `top_k` likeliest tokens, or the fewest that hold `top_p` of the probability. `penalty` above 1
    makes tokens that are in the text already less likely.
    """

    length: int = at_least(0, default=200)
    greedy: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    penalty: float = 1.0
    seed: int = at_least(0, default=0, most=2**63 - 1)

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.temperature > 0:
            raise ContractError(f"generate: expected temperature above 0, found {self.temperature}; 0 is --greedy")
        if not TEMPERATURES[0] <= self.temperature <= TEMPERATURES[1]:  # beyond, logits are no numbers in 32 bits
            raise ContractError(
                f"generate: expected temperature from {TEMPERATURES[0]:g} to {TEMPERATURES[1]:g}, "
                f"found {self.temperature:g}"
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ContractError(f"generate: expected top_p in (0, 1], found {self.top_p}")
        if not 0 < self.penalty <= TEMPERATURES[1]:
            raise ContractError(f"generate: expected penalty above 0, found {self.penalty}")


class Draws:
    """Uniform numbers from 0 to below 1 in 24 bits, the same as torch.rand's of a generator with that seed."""

    def __init__(self, seed: int, skip: int = 0) -> None:
        self.bits = np.random.MT19937()
        self.bits._legacy_seeding(seed & 0xFFFFFFFF)  # type: ignore[attr-defined]
        if skip:
            self.bits.random_raw(skip, output=False)

    def next(self) -> float:
        return float(self.bits.random_raw() & 0xFFFFFF) / 0x1000000


def mask_written(written: Sequence[Sequence[int]], vocab: int) -> NDArray[np.bool_]:
    """B V: which tokens are in the text of each row."""
    seen = np.zeros((len(written), vocab), np.bool_)
    for row, tokens in zip(seen, written, strict=True):
        row[np.asarray(tokens, np.int64)] = True
    return seen


def pick_tokens(
    logits: Array, config: Config, seen: NDArray[np.bool_] | None, threshold: float | Sequence[float] | None
) -> Array:
    """The next token of each row (B), from logits (B V).

    `seen` (B V) marks the tokens that the penalty applies to. `threshold` is a uniform number from 0 to below 1, for
    all rows or for each, None for greedy: sampling takes the token at which the cumulative distribution, likeliest
    token first, reaches it.
    """
    logits = logits.astype(np.float32, copy=False)
    if seen is not None:
        logits = logits - logsumexp(logits)  # log-probabilities: all ≤ 0
        logits = np.where(seen, logits * np.float32(config.penalty), logits)
    if threshold is None:
        return logits.argmax(axis=-1)
    logits = logits / np.float32(config.temperature)
    count = min(config.top_k or logits.shape[1], logits.shape[1])
    if count * SORT_SHARE > logits.shape[1]:
        order = np.argsort(-logits, axis=-1, kind="stable")[:, :count]
    else:
        order = stable_topk(logits, count)
    shares = np.exp(np.take_along_axis(logits, order, axis=-1) - logsumexp(logits))
    if config.top_p is not None:
        shares = shares * (np.cumsum(shares, axis=-1) - shares < np.float32(config.top_p))  # the likeliest always stays
    sums = np.cumsum(shares, axis=-1)
    picked = (sums < np.reshape(np.asarray(threshold, np.float32), (-1, 1)) * sums[:, -1:]).sum(axis=-1)
    # the threshold may exceed the sum by rounding: then the last token with a share is taken
    picked = np.minimum(picked, np.maximum((shares > 0).sum(axis=-1) - 1, 0))
    return np.take_along_axis(order, picked[:, None], axis=-1)[:, 0]


def logsumexp(logits: Array) -> Array:
    """log Σ exp of each row, B 1."""
    top = logits.max(axis=-1, keepdims=True)
    return top + np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))


def stable_topk(logits: Array, count: int) -> Array:
    """The indices of the `count` highest entries of each row, highest first; of equal ones the first."""
    found = []
    for row in logits:
        least = np.partition(row, len(row) - count)[len(row) - count]
        above = np.flatnonzero(row > least)
        level = np.flatnonzero(row == least)[: count - len(above)]
        places = np.sort(np.concatenate([above, level]))
        found.append(places[np.argsort(-row[places], kind="stable")])
    return np.stack(found)
