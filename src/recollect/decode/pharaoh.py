"""Alignments as text: for each word of the target the word of the source that it looked at most, as `source-target`."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor


def words(side: Any, ids: Sequence[int]) -> list[int]:
    """The number of the word that each token belongs to; where nothing parts words, each token is one."""
    stream = side.tokenizer.streamer()
    texts = [stream.push(int(token)) for token in ids]
    if not any(character.isspace() for character in "".join(texts).strip()):
        return list(range(len(ids)))
    numbers: list[int] = []
    word, parted = 0, False
    for text in texts:
        if numbers and (parted or text[:1].isspace()) and text.strip():
            word += 1
        numbers.append(word)
        parted = text[-1:].isspace()
    return numbers


def pairs(weights: Tensor, source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
    """(source word, target word), one for each word of the target.

    weights: T S; `source` and `target` are the words of the tokens. Rows and columns beyond them are ends.
    """
    if not source or not target:
        return []
    found = weights.new_zeros(max(target) + 1, max(source) + 1)
    for t, word in enumerate(target):
        for s, other in enumerate(source):
            found[word, other] += weights[t, s]
    return [(int(row.argmax()), word) for word, row in enumerate(found)]


def line(found: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{source}-{target}" for source, target in found)
