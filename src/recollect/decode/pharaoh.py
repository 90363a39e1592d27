"""Word alignments in the Pharaoh format: for each target word the source word with most attention, `source-target`."""

import re
from collections.abc import Sequence
from typing import Any

from torch import Tensor

UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")  # Thai, Lao, kana, Han


def words(side: Any, ids: Sequence[int]) -> list[int]:
    """The number of the word that each token belongs to: blanks separate words, a token with an unspaced script is one.

    A blank belongs to the word before it; tokens that only together make a character belong to that character's word.
    """
    stream = side.tokenizer.streamer()
    numbers: list[int] = []
    word, parted, held = -1, True, 0
    for token in ids:
        text = stream.push(int(token))
        held += 1
        if not text:
            continue
        alone = UNSPACED.search(text) is not None
        if text.strip() and (alone or parted or text[0].isspace()):
            word += 1
        parted = alone or text[-1].isspace()
        numbers += [max(word, 0)] * held
        held = 0
    return numbers + [max(word, 0)] * held


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
    """The pairs as one line of a Pharaoh file."""
    return " ".join(f"{source}-{target}" for source, target in found)
