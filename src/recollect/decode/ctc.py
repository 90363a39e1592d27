"""Texts out of log-probabilities by CTC: the best path, prefix beam search, and where each label of a text stands.

A path has a label or the blank at each step. Its text joins repeats and leaves out blanks, so that between two equal
labels of a text a path has a blank. What is computed here is computed in float64 by numpy.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.contract import ContractError

Array = NDArray[Any]
NEVER = -np.inf


class Text(NamedTuple):
    """A text, and log of the probability that the search found for it."""

    tokens: list[int]
    logprob: float


class Span(NamedTuple):
    """The steps at which a label stands: from `first` to before `end`."""

    first: int
    end: int


class Listened(NamedTuple):
    """What a streaming transcript keeps between chunks: the label of the last step."""

    label: int


def collapse(path: Iterable[int], blank: int, last: int | None = None) -> list[int]:
    """The text of a path: repeats joined, blanks left out; `last` is the label of the step before it."""
    found: list[int] = []
    before = blank if last is None else last
    for label in path:
        if label != before and label != blank:
            found.append(label)
        before = label
    return found


def read_chunk(logp: Array, heard: Listened | None, *, banned: Sequence[int] = ()) -> tuple[list[int], Listened]:
    """The labels that a chunk (T C) adds to the text of the best path, and what the next chunk needs of it."""
    blank = logp.shape[1] - 1
    path = best_labels(logp, banned)
    last = blank if heard is None else heard.label
    return collapse(path, blank, last), Listened(path[-1] if path else last)


def best_labels(logp: Array, banned: Sequence[int] = ()) -> list[int]:
    """The likeliest label of each step; of equals the first."""
    check(logp)
    allowed = logp
    if banned:
        allowed = logp.copy()
        allowed[:, list(banned)] = NEVER
    return allowed.argmax(axis=1).tolist()


def best_path(logp: Array, *, banned: Sequence[int] = ()) -> Text:
    """The text of the likeliest path (greedy decoding), with the probability of that path alone."""
    path = best_labels(logp, banned)
    return Text(collapse(path, logp.shape[1] - 1), float(logp[np.arange(len(path)), path].sum()))


def search(logp: Array, *, beam: int, nbest: int = 1, banned: Sequence[int] = ()) -> list[Text]:
    """The likeliest texts by prefix beam search, best first: the sums over paths whose prefixes stay among `beam`.

    Of each prefix two sums are kept, of paths that end in a blank and of those that end in its last label: only the
    former can take the same label again. Where the beam holds every prefix, the sums are exact.
    """
    check(logp)
    logp = np.asarray(logp, np.float64)
    blank = logp.shape[1] - 1
    labels = np.array([label for label in range(blank) if label not in set(banned)], np.int64)
    tree: list[tuple[int, int]] = [(-1, -1)]  # of each prefix, the one before it and its last label
    numbers: dict[tuple[int, int], int] = {}
    nodes = np.zeros(1, np.int64)
    in_blank, in_label = np.zeros(1), np.full(1, NEVER)
    for step in logp:
        last = np.array([tree[node][1] for node in nodes], np.int64)
        above = np.array([tree[node][0] for node in nodes], np.int64)
        total = np.logaddexp(in_blank, in_label)
        # K L: what each prefix becomes with each label; the same label again only after a blank
        more = np.where(labels == last[:, None], in_blank[:, None], total[:, None]) + step[labels]
        own_blank = total + step[blank]
        own_label = np.where(last < 0, NEVER, in_label + step[last])
        child, parent = np.nonzero(above[:, None] == nodes)  # prefixes whose own beginning is in the beam as well
        place = np.searchsorted(labels, last[child])
        own_label[child] = np.logaddexp(own_label[child], more[parent, place])
        more[parent, place] = NEVER
        scores = np.concatenate([np.logaddexp(own_blank, own_label), more.ravel()])
        order = np.argsort(-scores, kind="stable")[:beam]
        order = order[scores[order] > NEVER]
        kept, new = order[order < len(nodes)], order[order >= len(nodes)] - len(nodes)
        added = []
        for at in new.tolist():
            key = int(nodes[at // len(labels)]), int(labels[at % len(labels)])
            if key not in numbers:
                numbers[key] = len(tree)
                tree.append(key)
            added.append(numbers[key])
        nodes = np.concatenate([nodes[kept], np.array(added, np.int64)])
        in_blank = np.concatenate([own_blank[kept], np.full(len(added), NEVER)])
        in_label = np.concatenate([own_label[kept], more.ravel()[new]])
    total = np.logaddexp(in_blank, in_label)
    order = np.argsort(-total, kind="stable")[:nbest]
    return [Text(_spell(tree, int(nodes[at])), float(total[at])) for at in order]


def _spell(tree: Sequence[tuple[int, int]], node: int) -> list[int]:
    found: list[int] = []
    while node > 0:
        node, label = tree[node]
        found.append(label)
    return found[::-1]


def lattice(logp: Array, tokens: Sequence[int]) -> tuple[Array, Array]:
    """The blank and the labels of a text by turns, as log-probabilities (T 2N+1), and where a path may skip a blank."""
    check(logp)
    blank = logp.shape[1] - 1
    states = np.full(2 * len(tokens) + 1, blank)
    states[1::2] = tokens
    skips = np.zeros(len(states), bool)
    skips[2:] = (states[2:] != blank) & (states[2:] != states[:-2])
    return np.asarray(logp, np.float64)[:, states], skips


def forward(steps: Array, skips: Array) -> Array:
    """log of the sum over all beginnings of paths that are in each state after each step: T S."""
    found = np.full(steps.shape, NEVER)
    found[0, :2] = steps[0, :2]
    for t in range(1, len(steps)):
        before = found[t - 1]
        sums = before.copy()
        sums[1:] = np.logaddexp(sums[1:], before[:-1])
        sums[2:] = np.where(skips[2:], np.logaddexp(sums[2:], before[:-2]), sums[2:])
        found[t] = sums + steps[t]
    return found


def log_likelihood(logp: Array, tokens: Sequence[int]) -> float:
    """log p(text): the sum over its paths."""
    return float(np.logaddexp.reduce(forward(*lattice(logp, tokens))[-1, -2:]))


def occupancy(logp: Array, tokens: Sequence[int]) -> Array:
    """N T: the probability, over the paths of a text, that step t is at its nth label."""
    steps, skips = lattice(logp, tokens)
    found = forward(steps, skips)
    # the same from the other end; a step's own probability is in both
    ends = np.zeros(len(skips), bool)
    ends[2:] = skips[2:][::-1]
    back = forward(steps[::-1, ::-1], ends)[::-1, ::-1]
    total = np.logaddexp.reduce(found[-1, -2:])
    if total == NEVER:
        raise ContractError(f"ctc: expected a text that {len(logp)} steps can hold, found one of {len(tokens)} labels")
    with np.errstate(invalid="ignore"):
        return np.exp(np.where(steps > NEVER, found + back - steps, NEVER) - total)[:, 1::2].T


def align(logp: Array, tokens: Sequence[int]) -> list[Span]:
    """The steps at which each label of a text stands, on the likeliest path of that text."""
    if not tokens:
        return []
    steps, skips = lattice(logp, tokens)
    best: Array = np.full(steps.shape, NEVER)
    came: Array = np.zeros(steps.shape, np.int64)
    best[0, :2] = steps[0, :2]
    for t in range(1, len(steps)):
        before = best[t - 1]
        ways = np.full((3, len(before)), NEVER)
        ways[0], ways[1, 1:], ways[2, 2:] = before, before[:-1], np.where(skips[2:], before[:-2], NEVER)
        came[t] = ways.argmax(axis=0)
        best[t] = ways.max(axis=0) + steps[t]
    state = int(best.shape[1] - 2 + best[-1, -2:].argmax())
    if best[-1, state] == NEVER:
        raise ContractError(f"ctc: expected a text that {len(logp)} steps can hold, found one of {len(tokens)} labels")
    first, last = [0] * len(tokens), [0] * len(tokens)
    seen = [False] * len(tokens)
    for t in range(len(steps) - 1, -1, -1):
        if state % 2:
            number = state // 2
            if not seen[number]:
                last[number], seen[number] = t + 1, True
            first[number] = t
        state -= int(came[t, state])
    return [Span(begin, end) for begin, end in zip(first, last, strict=True)]


def check(logp: Array) -> None:
    if logp.ndim != 2 or not len(logp) or logp.shape[1] < 2:
        raise ContractError(
            f"ctc: expected log-probabilities of steps and at least two labels, the blank last, found shape "
            f"{logp.shape}"
        )
    if np.isnan(logp).any():
        raise ContractError("ctc: expected log-probabilities, found NaN: the model's weights or its input hold one")
