"""Generated opinions: short sentences that praise or blame, so that texts can be labelled with nothing at hand.

A clause praises or blames a thing; `not`, `hardly` and the like turn it round. Of two clauses the one after `but`
decides, and the one that `although` does not introduce. So the words alone do not tell: which of them are near each
other, and in what order, does.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np

COUNT, SEED = 12_000, 0  # sentences, those that come twice among them; of their draw
TEST = 0.1  # share of the sentences, by hash
LABELS = ("negative", "positive")
THINGS = (
    "film", "story", "acting", "music", "ending", "plot", "cast", "dialogue", "picture", "book", "food", "service",
    "hotel", "room", "game", "concert", "play", "song", "lecture", "meal",
)  # fmt: skip
WORDS = {  # what is said of a thing, by label
    "positive": (
        "good", "great", "wonderful", "brilliant", "funny", "moving", "clever", "fresh", "charming", "gripping",
        "superb", "beautiful",
    ),
    "negative": (
        "bad", "awful", "boring", "dull", "clumsy", "stale", "slow", "silly", "tedious", "weak", "terrible", "ugly",
    ),
}  # fmt: skip
VERBS = {
    "positive": (("loved", "love"), ("enjoyed", "enjoy"), ("admired", "admire"), ("liked", "like")),
    "negative": (("hated", "hate"), ("disliked", "dislike"), ("regretted", "regret"), ("despised", "despise")),
}
DEGREES = ("", "", "very", "really", "rather", "quite", "so")
WHOSE = ("the", "the", "this", "their")


class Opinions:
    """The sentences as a table of texts and labels; of two files, one for training and validation, one for the test."""

    header = False  # no line of it may be one
    places: ClassVar[dict[str, list[Path]]] = {"train": [Path("opinions")], "test": [Path("opinions-test")]}

    def rows(self, path: Path) -> Iterator[tuple[int, str, str]]:
        """Number, text and label of every sentence."""
        wanted = path in self.places["test"]
        for number, (text, label) in enumerate(opinions(), start=1):
            if is_tested(text) == wanted:
                yield number, text, label


@cache
def opinions(count: int = COUNT, seed: int = SEED) -> tuple[tuple[str, str], ...]:
    """Different sentences with their labels: at most `count`, since some are drawn twice."""
    draw = np.random.default_rng([seed, 23])
    return tuple(dict(write_sentence(draw) for _ in range(count)).items())


def write_sentence(draw: np.random.Generator) -> tuple[str, str]:
    """A sentence and its label."""
    label = LABELS[int(draw.integers(2))]
    first, kind = _clause(draw, label), float(draw.random())
    if kind < 0.5:
        text = first
    elif kind < 0.65:
        text = f"{first} and {_clause(draw, label)}"
    else:
        other = _clause(draw, LABELS[1 - LABELS.index(label)])
        text = (f"{other} but {first}", f"although {other} {first}", f"{first} although {other}")[int(draw.integers(3))]
    return (text[0].upper() + text[1:] if draw.random() < 0.25 else text), label


def _clause(draw: np.random.Generator, label: str) -> str:
    """A clause of this label, said outright or by denying the contrary."""
    denied = draw.random() < 0.4
    said = LABELS[1 - LABELS.index(label)] if denied else label
    thing, whose = _any(draw, THINGS), _any(draw, WHOSE)
    if draw.random() < 0.3:
        past, plain = VERBS[said][int(draw.integers(len(VERBS[said])))]
        who = _any(draw, ("i", "we", "they"))
        return f"{who} {_any(draw, ('did not', 'never did'))} {plain} {whose} {thing}" if denied else (
            f"{who} {past} {whose} {thing}"
        )  # fmt: skip
    word, degree = _any(draw, WORDS[said]), _any(draw, DEGREES)
    verb = _any(draw, ("was", "is", "seemed"))
    turned = _any(draw, ("not", "hardly", "never", "not at all")) if denied else ""
    return " ".join(part for part in (whose, thing, verb, turned, degree, word) if part)


def _any(draw: np.random.Generator, some: tuple[str, ...]) -> str:
    return some[int(draw.integers(len(some)))]


def is_tested(text: str) -> bool:
    """Whether a sentence is of the test: by its hash, the same on every machine; case does not matter."""
    digest = hashlib.blake2b(text.lower().encode(), digest_size=8, person=b"test").digest()
    return int.from_bytes(digest) < TEST * 2**64
