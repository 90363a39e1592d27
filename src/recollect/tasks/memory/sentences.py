"""Tests of memory whose rows are English sentences with one thing to remember, besides the gap test.

    clouds      "… The clouds are in the" → "sky": a long text, and all that is asked for stands near
    agreement   "the key near the doors behind the windows" → "is": the verb agrees with the first noun, not the last
    nested      "the dog the cats the boy" → "sings sing sings": one verb for each noun, the last noun's first

The first is the easy partner of `gap`, whose answer lies far back. The second is that of Linzen 2016, with sentences
made by rule; the third asks for a stack.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np

from ...core.settings import at_least
from . import gap_text
from .generator import Rows, Test
from .random_choices import pick, uniform

WORDS = 100_000  # of a row
DEEPEST = 10_000  # clauses
PLACES = {
    "books": "library", "camels": "desert", "cars": "street", "clouds": "sky", "coins": "purse", "cows": "meadow",
    "fish": "sea", "lions": "zoo", "pupils": "school", "ships": "harbour", "trains": "station", "trees": "forest",
}  # fmt: skip
ASKED = ("The", None, "are", "in", "the")  # with the thing in its place, then the place
NOUNS = {  # one, several
    "boy": "boys", "cabinet": "cabinets", "cat": "cats", "dog": "dogs", "door": "doors", "girl": "girls",
    "key": "keys", "letter": "letters", "picture": "pictures", "window": "windows",
}  # fmt: skip
BETWEEN = ("near", "behind", "under", "above")
NUMBERS = 2  # one or several


def numbered(*words: Iterable[str]) -> dict[str, int]:
    """A vocabulary: every word once, in alphabetical order."""
    return {word: number for number, word in enumerate(sorted({*chain(*words)}))}


class Sentences(Test):
    """A test whose tokens are words of its `vocabulary`."""

    vocabulary: ClassVar[dict[str, int]]

    @property
    def inputs(self) -> int:
        return len(self.vocabulary)

    @property
    def outputs(self) -> int:
        return len(self.vocabulary)

    def word(self, token: int) -> str:
        return list(self.vocabulary)[token]


@dataclass(frozen=True, kw_only=True)
class Clouds(Sentences):
    """`distance` words of sentences that say nothing, then "The clouds are in the", which "sky" follows.

    There are twelve things, each in a place of its own. The answer needs the second word of the last sentence alone,
    however long the text before it: a memory that is disturbed by the length of what it has read shows it here.
    """

    kind: ClassVar[str] = "clouds"
    dial: ClassVar[str] = "distance"
    vocabulary: ClassVar[dict[str, int]] = numbered(
        *gap_text.FILLERS, PLACES, PLACES.values(), [word for word in ASKED if word]
    )

    distance: int = at_least(0, default=20, most=WORDS)

    def problem(self) -> str | None:
        if not gap_text.fits(self.distance, 0):
            return f"distance of 0 or at least {gap_text.SHORTEST_FILLER}, for whole sentences, found {self.distance}"
        return None

    @property
    def steps(self) -> int:
        return self.distance + len(ASKED)

    @property
    def least(self) -> int:
        return 0

    def nearest(self, value: int) -> int:
        return value if gap_text.fits(value, 0) else gap_text.SHORTEST_FILLER

    @property
    def chance(self) -> float:
        return 1 / len(PLACES)

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        numbers = uniform(rng)
        x, y = np.zeros((rows, self.steps), dtype=np.int64), np.zeros((rows, 1), dtype=np.int64)
        for row in range(rows):
            thing = pick(numbers, list(PLACES))
            text = [*chain(*gap_text.fill_up(numbers, self.distance)), *(word or thing for word in ASKED)]
            x[row], y[row] = [self.vocabulary[word] for word in text], self.vocabulary[PLACES[thing]]
        return Rows(x, np.full((rows, 1), self.steps - 1), y)


@dataclass(frozen=True, kw_only=True)
class Agreement(Sentences):
    """A noun, `distance` phrases with a noun of their own, and the verb, which agrees with the first noun.

    "the key near the doors behind the windows" → "is". All numbers are drawn alike, so that the nearest noun, which a
    short memory would follow, is right half the time.
    """

    kind: ClassVar[str] = "agreement"
    dial: ClassVar[str] = "distance"
    verbs: ClassVar[tuple[str, str]] = "is", "are"
    vocabulary: ClassVar[dict[str, int]] = numbered(NOUNS, NOUNS.values(), BETWEEN, ["the"], verbs)

    distance: int = at_least(0, default=5, most=WORDS)

    @property
    def steps(self) -> int:
        return 2 + 3 * self.distance

    @property
    def least(self) -> int:
        return 0

    @property
    def chance(self) -> float:
        return 1 / NUMBERS

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        nouns, several = draw_nouns(rng, (rows, 1 + self.distance), self.vocabulary)
        x = np.full((rows, self.steps), self.vocabulary["the"])
        x[:, 1::3] = nouns
        x[:, 2::3] = rng.choice([self.vocabulary[word] for word in BETWEEN], size=(rows, self.distance))
        y = np.array([self.vocabulary[verb] for verb in self.verbs])[several[:, :1]]
        return Rows(x, np.full((rows, 1), self.steps - 1), y)


@dataclass(frozen=True, kw_only=True)
class Nested(Sentences):
    """Clauses inside clauses: 1 + `depth` nouns, then as many verbs, the last noun's first.

    "the dog the cats the boy" → "sings", then "sing", then "sings". Each verb agrees with its own noun and stands in
    the text where the next is asked for, so that a memory must give back in reverse what it was given.
    """

    kind: ClassVar[str] = "nested"
    dial: ClassVar[str] = "depth"
    verbs: ClassVar[tuple[str, str]] = "sings", "sing"
    vocabulary: ClassVar[dict[str, int]] = numbered(NOUNS, NOUNS.values(), ["the"], verbs)

    depth: int = at_least(0, default=3, most=DEEPEST)

    @property
    def steps(self) -> int:
        return 3 * self.depth + 2

    @property
    def judged(self) -> int:
        return self.depth + 1

    @property
    def least(self) -> int:
        return 0

    @property
    def chance(self) -> float:
        return 1 / NUMBERS

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        count = self.depth + 1
        nouns, several = draw_nouns(rng, (rows, count), self.vocabulary)
        verbs = np.array([self.vocabulary[verb] for verb in self.verbs])[several[:, ::-1]]
        x = np.full((rows, self.steps), self.vocabulary["the"])
        x[:, 1 : 2 * count : 2] = nouns
        x[:, 2 * count :] = verbs[:, :-1]
        return Rows(x, np.tile(np.arange(2 * count - 1, self.steps), (rows, 1)), verbs)


def draw_nouns(
    rng: np.random.Generator, shape: tuple[int, int], vocabulary: dict[str, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Nouns as tokens, and whether each stands for several."""
    tokens = np.array([[vocabulary[one], vocabulary[many]] for one, many in NOUNS.items()])
    several = rng.integers(0, NUMBERS, size=shape)
    return tokens[rng.integers(0, len(tokens), size=shape), several], several
