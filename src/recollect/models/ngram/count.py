"""From a text to the probabilities of its n-grams: counts, discounts and modified Kneser–Ney (see `ngram`)."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

FALLBACK = (0.5, 1.0, 1.5)  # discounts for a length whose counts of counts give none


class Counted(NamedTuple):
    """The n-grams of one length in a text."""

    keys: Tensor  # E, as in `ngram_table.Length`
    suffix: Tensor  # E, the index of the n-gram without its oldest word in the length below
    counts: Tensor  # E, occurrences at the longest length, different words before it at the others


class Estimated(NamedTuple):
    """The n-grams of one length with their probabilities, and what their contexts pass on."""

    keys: Tensor  # E
    probability: Tensor  # E
    backoff: Tensor  # γ of each n-gram one word shorter, as a context


def estimate(text: Tensor, order: int, vocab: int) -> Iterator[Estimated]:
    """The n-grams of length 1, 2, … `order` in a text (T)."""
    shorter = torch.tensor([1 / vocab], dtype=torch.float64)  # p of each n-gram one word shorter
    for counted in count(text, order, vocab):
        probability, backoff = _share(counted.counts, counted.keys // vocab, len(shorter), shorter[counted.suffix])
        yield Estimated(counted.keys, probability, backoff)
        shorter = probability


def count(text: Tensor, order: int, vocab: int) -> list[Counted]:
    """The n-grams of each length in a text (T)."""
    at = text  # the index of the n-gram that begins at each position
    found = [Counted(torch.arange(vocab), text.new_zeros(vocab), text.bincount(minlength=vocab))]
    for k in range(2, order + 1):
        keys, longer = _rank(at[:-1] * vocab + text[k - 1 :])
        suffix = torch.empty_like(keys).scatter_(0, longer, at[1:])  # all occurrences say the same
        # No longer the longest: counted by what came before, of which the beginning of the text is one kind.
        before = suffix.bincount(minlength=len(found[-1].keys))
        before[at[:1]] += 1
        found[-1] = found[-1]._replace(counts=before)
        found.append(Counted(keys, suffix, longer.bincount(minlength=len(keys))))
        at = longer
    return found


def _rank(values: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct values in order, and where each of the given values stands among them."""
    ascending, order = values.sort()
    is_new = torch.ones_like(ascending, dtype=torch.bool)
    torch.ne(ascending[1:], ascending[:-1], out=is_new[1:])
    rank = torch.empty_like(order).scatter_(0, order, is_new.cumsum(0) - 1)
    return ascending[is_new], rank


def discounts(counts: Tensor) -> Tensor:
    """What is taken from counts of 0, 1, 2, and 3 or more, of n-grams of one length (Chen and Goodman 1999).

    A text too small to say (no n-gram with one of the counts 1 to 4, or a discount that leaves its range) gets
    `FALLBACK`. Discounts are above zero, so every context passes something on to the shorter one.
    """
    ones, twos, threes, fours = torch.bincount(counts.clamp(max=5), minlength=6)[1:5].tolist()
    found = FALLBACK
    if ones and twos and threes and fours:
        share = ones / (ones + 2 * twos)
        found = (1 - 2 * share * twos / ones, 2 - 3 * share * threes / twos, 3 - 4 * share * fours / threes)
        if not all(0 < taken <= c for c, taken in enumerate(found, start=1)):
            found = FALLBACK
    return torch.tensor((0.0, *found), dtype=torch.float64)


def _share(counts: Tensor, context: Tensor, contexts: int, lower: Tensor) -> tuple[Tensor, Tensor]:
    """p of each n-gram (E), and γ of each of the `contexts`; `lower` is p without the oldest word (E)."""
    taken = discounts(counts)[counts.clamp(max=3)]
    total = torch.bincount(context, weights=counts, minlength=contexts)
    backoff = torch.bincount(context, weights=taken, minlength=contexts) / total
    # The last words of the text were not seen as a context.
    backoff = torch.where(total > 0, backoff, 1.0)
    return (counts - taken) / total.clamp(min=1)[context] + backoff[context] * lower, backoff
