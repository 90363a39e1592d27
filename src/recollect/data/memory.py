"""Tests of memory: generated sequences that ask, late, for what was said early.

    copy     a few symbols, a long silence, then the same symbols (Hochreiter 1997, Arjovsky 2016)
    adding   numbers, two of them marked: their sum (Hochreiter 1997)
    recall   pairs of a key and a value, then keys: their values (MQAR; Arora 2023)
    parity   bits: after each, whether the number of ones so far is odd
    gap      "Anna grew up in Italy . … She speaks fluent" → "Italian"

A test is its settings; it draws its own rows from a generator of numpy's. Its dial is the setting that makes it hard.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from ..core.contract import ContractError, check_settings
from .fingerprints import sha256_of

VERSION = 1  # of what is drawn: a change here is a change of every fingerprint
CLOSE = 0.04  # a sum that is this near counts as right (Hochreiter & Schmidhuber 1997)
PARTS = {"train": 0, "valid": 1, "test": 2}


class Rows(NamedTuple):
    x: np.ndarray  # B T tokens, or B T D numbers
    at: np.ndarray  # B A, the steps at which something is asked
    y: np.ndarray  # B A, the answers: tokens or numbers


@dataclass(frozen=True, kw_only=True)
class Test(ABC):
    """What all tests have. `vary`: every batch of training has a dial of its own, from the least up to the test's.

    `reach` is how far beyond its dial a test is measured: 4 means at twice and four times its value too.
    """

    kind: ClassVar[str]
    dial: ClassVar[str]
    metric: ClassVar[str] = "error"
    tokens: ClassVar[bool] = True  # whether x holds tokens, or numbers

    vary: bool = False
    reach: int = 1

    def __post_init__(self) -> None:
        check_settings(self, least={"distance": 0, "distractors": 0})
        if problem := self.problem():
            raise ContractError(f"{self.kind}: expected {problem}")
        if self.vary and self.value < self.least:
            raise ContractError(
                f"{self.kind}: expected {self.dial} of at least {self.least} for vary=True, found {self.value}"
            )
        if self.vary or self.reach > 1:
            for value in self.points():
                self.turned(value)  # which refuses what cannot be

    def problem(self) -> str | None:
        """What was expected of settings that do not go together, and what was found."""
        return None

    @property
    @abstractmethod
    def inputs(self) -> int:
        """The size of the vocabulary, or how many numbers a step has."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many answers there are to choose from, or how many numbers an answer has."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """The length of a row."""

    @property
    def judged(self) -> int:
        """How many answers of a row, counted from the last, are the test's questions."""
        return 1

    @property
    def least(self) -> int:
        """The smallest value of the dial."""
        return 1

    @property
    @abstractmethod
    def chance(self) -> float:
        """The share of right answers of whoever remembers nothing."""

    def baselines(self) -> dict[str, float]:
        """The metric of guesses that need no learning."""
        return {"chance": 1 - self.chance}

    @abstractmethod
    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        """So many rows at the test's own dial."""

    def word(self, token: int) -> str:
        """A token, or an answer, as a reader sees it."""
        return str(token)

    @property
    def value(self) -> int:
        """Where the dial stands."""
        return getattr(self, self.dial)

    def turned(self, value: int) -> Self:
        """The same test with its dial elsewhere, and nowhere but there."""
        return replace(self, vary=False, reach=1, **{self.dial: value})

    def points(self) -> list[int]:
        """The values of the dial at which the test is measured."""
        value = self.value
        within = {max(self.least, -(-value * part // 4)) for part in (1, 2, 3)} if self.vary else set()
        beyond = {value * 2**k for k in range(1, self.reach.bit_length())}
        return sorted(within | {value} | beyond)

    def batch(self, part: str, seed: int, number: int, rows: int) -> Rows:
        """The batch of that number: a function of the part, the seed and the number alone."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(PARTS[part], number)))
        if self.vary and part == "train":
            return self.turned(int(rng.integers(self.least, self.value, endpoint=True))).draw(rng, rows)
        return self.draw(rng, rows)

    def settings(self) -> dict[str, Any]:
        """Everything that decides what is drawn."""
        return {"kind": self.kind, "version": VERSION} | asdict(self)

    @property
    def name(self) -> str:
        """The test with its dials and whatever is not as usual, as a reader of results sees it."""
        usual = {field.name: field.default for field in fields(self)}
        shown = {
            name: value
            for name, value in asdict(self).items()
            if value != usual[name] or (type(value) is int and name != "reach")
        }
        return ", ".join([self.kind, *(f"{name} {value}" for name, value in shown.items())])

    @property
    def notes(self) -> list[str]:
        return []

    @property
    def fingerprint(self) -> str:
        return sha256_of(self.settings())


def everywhere(rows: int, steps: int, first: int = 0) -> np.ndarray:
    """The steps from `first` on, for each row: B A."""
    return np.tile(np.arange(first, steps), (rows, 1))


@dataclass(frozen=True, kw_only=True)
class Copy(Test):
    """Say again what was said first, in its order.

    A row of T + 2n steps, T the `distance` and n the `load`: n symbols out of 8, T − 1 blanks, the delimiter, n blanks.
    The answers are T + n blanks and then the n symbols. As in the papers the loss is over all steps, so that knowing
    when but not what costs n·ln 8 / (T + 2n); with `all_steps` off it is over the n answers alone. Accuracy is always
    over those.
    """

    kind: ClassVar[str] = "copy"
    dial: ClassVar[str] = "distance"
    metric: ClassVar[str] = "loss"
    symbols: ClassVar[int] = 8
    blank: ClassVar[int] = 8
    delimiter: ClassVar[int] = 9

    distance: int = 20
    load: int = 10
    all_steps: bool = True

    def problem(self) -> str | None:
        if self.distance < 1:
            return f"distance of at least 1, for the delimiter, found {self.distance}"
        return None

    @property
    def inputs(self) -> int:
        return self.symbols + 2

    @property
    def outputs(self) -> int:
        return self.symbols + 2

    @property
    def steps(self) -> int:
        return self.distance + 2 * self.load

    @property
    def judged(self) -> int:
        return self.load

    @property
    def chance(self) -> float:
        return 1 / self.symbols

    def baselines(self) -> dict[str, float]:
        asked = self.steps if self.all_steps else self.load
        return {"chance": self.load * float(np.log(self.symbols)) / asked}

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        symbols = rng.integers(0, self.symbols, size=(rows, self.load))
        x = np.full((rows, self.steps), self.blank)
        x[:, : self.load] = symbols
        x[:, self.steps - self.load - 1] = self.delimiter
        y = np.full_like(x, self.blank)
        y[:, -self.load :] = symbols
        first = 0 if self.all_steps else self.steps - self.load
        return Rows(x, everywhere(rows, self.steps, first), y[:, first:])


@dataclass(frozen=True, kw_only=True)
class Adding(Test):
    """The sum of the two numbers that are marked, one in each half; each step is a number from [0, 1) and a mark.

    It is asked for at the last step. Always saying 1 has a squared error of 1/6, the variance of the sum.
    """

    kind: ClassVar[str] = "adding"
    dial: ClassVar[str] = "length"
    metric: ClassVar[str] = "mse"
    tokens: ClassVar[bool] = False

    length: int = 30

    def problem(self) -> str | None:
        if self.length < 2:
            return f"length of at least 2, a number in each half, found {self.length}"
        return None

    @property
    def inputs(self) -> int:
        return 2

    @property
    def outputs(self) -> int:
        return 1

    @property
    def steps(self) -> int:
        return self.length

    @property
    def least(self) -> int:
        return 2

    @property
    def chance(self) -> float:
        return 1 - (1 - CLOSE) ** 2

    def baselines(self) -> dict[str, float]:
        return {"always 1": 1 / 6}

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        x = np.zeros((rows, self.length, 2), dtype=np.float32)
        x[:, :, 0] = rng.random((rows, self.length), dtype=np.float32)
        half, every = self.length // 2, np.arange(rows)
        x[every, rng.integers(0, half, size=rows), 1] = 1
        x[every, rng.integers(half, self.length, size=rows), 1] = 1
        y = (x[:, :, 0] * x[:, :, 1]).sum(axis=1, keepdims=True)
        return Rows(x, np.full((rows, 1), self.length - 1), y)


@dataclass(frozen=True, kw_only=True)
class Recall(Test):
    """Multi-query associative recall, as zoology draws it (Arora 2023; `multiquery_ar`).

    A row begins with `load` pairs, key value key value …: keys without repetition from 1 to vocab/2 − 1, values without
    repetition from vocab/2 to vocab − 1. Of the (length − 2·load)/2 slots of two steps that follow, the i-th key takes
    the i-th of `load` slots drawn without repetition, slot s = 0, 1, … with weight (s + 1)^(power − 1), and stands at
    the slot's first step; its value is the answer at that very step, the next token of a text that went on. All else is
    token 0 (`filler=zero`, as in the paper's Figure 2), or any token at all (`filler=random`, the code's own default).
    """

    kind: ClassVar[str] = "recall"
    dial: ClassVar[str] = "load"

    length: int = 64
    load: int = 4
    vocab: int = 8192
    power: float = 0.01
    filler: Literal["zero", "random"] = "zero"

    def problem(self) -> str | None:
        if self.length % 2 or self.length < 4 * self.load:
            return f"an even length of at least {4 * self.load}, four steps a pair, found {self.length}"
        if self.vocab // 2 - 1 < self.load:
            return f"vocab of at least {2 * self.load + 2}, a key for each pair, found {self.vocab}"
        if not self.power > 0:
            return f"power above 0, found {self.power}"
        return None

    @property
    def inputs(self) -> int:
        return self.vocab

    @property
    def outputs(self) -> int:
        return self.vocab

    @property
    def steps(self) -> int:
        return self.length

    @property
    def judged(self) -> int:
        return self.load

    @property
    def chance(self) -> float:
        return 1 / (self.vocab - self.vocab // 2)

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 - self.chance, "one of the values seen": 1 - 1 / self.load}

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        half, seen = self.vocab // 2, 2 * self.load
        keys = 1 + distinct(rng, rows, self.load, half - 1)
        values = half + distinct(rng, rows, self.load, self.vocab - half)
        slots = np.arange(1, (self.length - seen) // 2 + 1)
        weights = slots ** (self.power - 1)
        # The order in which exponential clocks ring is that of drawing by weight without repetition.
        rings = rng.exponential(size=(rows, len(slots))) / weights
        at = seen + 2 * rings.argsort(axis=1)[:, : self.load]
        x = np.zeros((rows, self.length), dtype=np.int64)
        x[:, 0:seen:2], x[:, 1:seen:2] = keys, values
        np.put_along_axis(x, at, keys, axis=1)
        if self.filler == "random":
            x = np.where(x == 0, rng.integers(0, self.vocab, size=x.shape), x)
        return Rows(x, at, values)


def distinct(rng: np.random.Generator, rows: int, count: int, size: int) -> np.ndarray:
    """In each row `count` different numbers below `size`, every choice as likely as any other: B count."""
    found = rng.integers(0, size, size=(rows, count))
    for i in range(1, count):
        again = np.flatnonzero((found[:, :i] == found[:, i : i + 1]).any(axis=1))
        while len(again):
            found[again, i] = rng.integers(0, size, size=len(again))
            again = again[(found[again, :i] == found[again, i : i + 1]).any(axis=1)]
    return found


@dataclass(frozen=True, kw_only=True)
class Parity(Test):
    """Bits; after each of them, whether the number of ones so far is odd.

    Trained at lengths up to `length`, and measured at lengths beyond.
    """

    kind: ClassVar[str] = "parity"
    dial: ClassVar[str] = "length"

    length: int = 40
    vary: bool = True
    reach: int = 4

    @property
    def inputs(self) -> int:
        return 2

    @property
    def outputs(self) -> int:
        return 2

    @property
    def steps(self) -> int:
        return self.length

    @property
    def judged(self) -> int:
        return self.length

    @property
    def chance(self) -> float:
        return 1 / 2

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        bits = rng.integers(0, 2, size=(rows, self.length))
        return Rows(bits, everywhere(rows, self.length), bits.cumsum(axis=1) % 2)


LANGUAGES = {
    "China": "Chinese", "France": "French", "Germany": "German", "Greece": "Greek", "Hungary": "Hungarian",
    "Italy": "Italian", "Japan": "Japanese", "Poland": "Polish", "Russia": "Russian", "Spain": "Spanish",
    "Sweden": "Swedish", "Turkey": "Turkish",
}  # fmt: skip
NAMES = {
    "Anna": "She", "Clara": "She", "Emma": "She", "Maria": "She",
    "David": "He", "Paul": "He", "Tom": "He", "Victor": "He",
}  # fmt: skip
WHO, WHERE = "{who}", "{where}"
FACTS = [text.split() for text in ("{who} grew up in {where} .", "{who} was raised in {where} .")]
VISITS = [
    text.split()
    for text in (
        "{who} once visited {where} .",
        "{who} has friends in {where} .",
        "{who} likes the food of {where} .",
    )
]
FILLERS = [
    text.split()
    for text in (
        "It rained .",
        "Time passed .",
        "Nobody knew why .",
        "Winter came early .",
        "The days were long .",
        "The train was late .",
        "The garden was green .",
        "Children played in the street .",
        "A cat slept near the window .",
        "Many people walked in the park .",
        "The river was cold and deep .",
        "The old house had a red door .",
    )
]
SHORTEST_VISIT, SHORTEST_FILLER = (min(map(len, texts)) for texts in (VISITS, FILLERS))
QUESTION = ["speaks", "fluent"]
WORDS = sorted(
    {*chain(*FACTS, *VISITS, *FILLERS, QUESTION, *LANGUAGES.items(), *NAMES.items())} - {WHO, WHERE},
)
NUMBER = {word: i for i, word in enumerate(WORDS)}


@dataclass(frozen=True, kw_only=True)
class Gap(Test):
    """English in which a country named early decides a language named late.

    A row: `load` facts ("Anna grew up in Italy ."), `distance` words of sentences that say nothing of them, then
    a question about each person: "She speaks fluent", or "Anna speaks fluent" where there are several, asked in any
    order; what follows "fluent" is the answer, which stands in the text where a further question comes. `distractors`
    of the sentences between name a country too, each another one, and none where somebody grew up. Who does not
    remember the facts, but sees all else, is right once in 12 − `distractors`.
    """

    kind: ClassVar[str] = "gap"
    dial: ClassVar[str] = "distance"

    distance: int = 20
    load: int = 1
    distractors: int = 1

    def problem(self) -> str | None:
        if self.load > len(NAMES):
            return f"load of at most {len(NAMES)}, a name for each, found {self.load}"
        if self.load + self.distractors > len(LANGUAGES):
            together = f"load and distractors of at most {len(LANGUAGES)} together, a country for each"
            return f"{together}, found {self.load} and {self.distractors}"
        if not fits(self.distance, self.distractors):
            least = f"{'' if self.distractors else '0 or '}at least {self.least}"
            return f"distance of {least}, for whole sentences ({self.distractors} distractors), found {self.distance}"
        return None

    @property
    def inputs(self) -> int:
        return len(WORDS)

    @property
    def outputs(self) -> int:
        return len(WORDS)

    @property
    def steps(self) -> int:
        ask = 1 + len(QUESTION)
        return self.load * len(FACTS[0]) + self.distance + self.load * (ask + 2) - 2

    @property
    def judged(self) -> int:
        return self.load

    @property
    def least(self) -> int:
        return self.distractors * SHORTEST_VISIT if self.distractors else SHORTEST_FILLER

    @property
    def chance(self) -> float:
        return 1 / len(LANGUAGES)

    def baselines(self) -> dict[str, float]:
        others = len(LANGUAGES) - self.distractors
        return {"chance": 1 - self.chance, "all but the distractors": 1 - 1 / others}

    def word(self, token: int) -> str:
        return WORDS[token]

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        numbers = uniform(rng)
        x = np.array([[NUMBER[word] for word in self.write(numbers)] for _ in range(rows)])
        first = self.load * len(FACTS[0]) + self.distance + len(QUESTION)
        at = first + np.arange(self.load) * (len(QUESTION) + 3)
        return Rows(x[:, :-1], np.tile(at, (rows, 1)), x[:, at + 1])

    def write(self, numbers: Iterator[float]) -> list[str]:
        """One text, to its last answer."""
        names = some(numbers, list(NAMES), self.load)
        homes = {name: pick(numbers, list(LANGUAGES)) for name in names}
        others = some(numbers, [place for place in LANGUAGES if place not in homes.values()], self.distractors)
        called = {name: NAMES[name] if self.load == 1 else name for name in names}
        words = [word for name in names for word in fill(pick(numbers, FACTS), name, homes[name])]
        sentences, left = [], self.distance
        for done, place in enumerate(others):
            rest = len(others) - done - 1
            visit = pick(numbers, [v for v in VISITS if fits(left - len(v), rest)])
            left -= len(visit)
            sentences.append(fill(visit, called[pick(numbers, names)], place))
        while left:
            filler = pick(numbers, [f for f in FILLERS if fits(left - len(f), 0)])
            left -= len(filler)
            sentences.append(filler)
        words += chain(*some(numbers, sentences, len(sentences)))
        for name in some(numbers, names, self.load):
            words += [called[name], *QUESTION, LANGUAGES[homes[name]], "."]
        return words[:-1]


def fits(words: int, visits: int) -> bool:
    """Whether so many words are made of whole sentences, `visits` of which are visits of 5, 6 or 7 words."""
    return words >= visits * SHORTEST_VISIT if visits else words == 0 or words >= SHORTEST_FILLER


def fill(text: Sequence[str], who: str, where: str) -> list[str]:
    return [{WHO: who, WHERE: where}.get(word, word) for word in text]


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


TESTS: dict[str, type[Test]] = {test.kind: test for test in (Copy, Adding, Recall, Parity, Gap)}
