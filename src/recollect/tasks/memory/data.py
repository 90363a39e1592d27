"""Tests of memory: generated sequences with questions about earlier steps.

    copy     a few symbols, a long silence, then the same symbols (Hochreiter 1997, Arjovsky 2016)
    adding   numbers, two of them marked: their sum (Hochreiter 1997)
    recall   pairs of a key and a value, then keys: their values (MQAR; Arora 2023)
    parity   bits: after each, whether the number of ones so far is odd
    gap      "Anna grew up in Italy . … She speaks fluent" → "Italian"
    order    numbers that rise, or the same numbers shuffled: which of the two
    clouds, agreement, nested    see `sentences`

A test is its settings; it draws its own rows from a generator of numpy's. Its dial is the setting that makes it hard.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ...core.settings import at_least
from ...data.limits import VOCABULARY
from . import gap_text
from .generator import Rows, Test, everywhere
from .random_choices import distinct, uniform
from .sentences import Agreement, Clouds, Nested

STEPS = 10_000_000  # of a row
WORDS = 100_000  # of a row that is written word by word
LOAD = 10_000  # symbols or pairs to keep
CLOSE = 0.04  # a sum that is this near counts as right (Hochreiter & Schmidhuber 1997)


@dataclass(frozen=True, kw_only=True)
class Copy(Test):
    """Repeat the first symbols of a row, in their order.

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

    distance: int = at_least(0, default=20, most=STEPS)
    load: int = at_least(1, default=10, most=LOAD)
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

    length: int = at_least(1, default=30, most=STEPS)

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

    With `rounds` over 1 each key stands in so many pairs, in any order and each time with another value; the answer is
    the value that came last.
    """

    kind: ClassVar[str] = "recall"
    dial: ClassVar[str] = "load"
    later: ClassVar[frozenset[str]] = frozenset({"rounds"})

    length: int = at_least(1, default=64, most=STEPS)
    load: int = at_least(1, default=4, most=LOAD)
    vocab: int = at_least(1, default=8192, most=VOCABULARY)
    power: float = 0.01
    filler: Literal["zero", "random"] = "zero"
    rounds: int = at_least(1, default=1, most=LOAD)

    def problem(self) -> str | None:
        least = 2 * self.load * (self.rounds + 1)
        if self.length % 2 or self.length < least:
            steps = "four steps a pair" if self.rounds == 1 else f"two for each of {self.rounds} rounds and a question"
            return f"an even length of at least {least}, {steps}, found {self.length}"
        if self.vocab // 2 - 1 < self.load:
            return f"vocab of at least {2 * self.load + 2}, a key for each pair, found {self.vocab}"
        if self.vocab - self.vocab // 2 < self.rounds * self.load:
            return f"vocab of at least {2 * self.rounds * self.load}, a value for each pair, found {self.vocab}"
        if not 0 < self.power <= 100:
            return f"power above 0 and at most 100, found {self.power}"
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
        found = {"chance": 1 - self.chance, "one of the values seen": 1 - 1 / (self.rounds * self.load)}
        return found if self.rounds == 1 else found | {"one of the values of the key": 1 - 1 / self.rounds}

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        half, seen = self.vocab // 2, 2 * self.rounds * self.load
        keys = 1 + distinct(rng, rows, self.load, half - 1)
        given = half + distinct(rng, rows, self.rounds * self.load, self.vocab - half)
        which = np.tile(np.arange(self.load), (rows, self.rounds))  # of the keys, in each pair
        which = which if self.rounds == 1 else rng.permuted(which, axis=1)
        last = which.argsort(axis=1, kind="stable")[:, self.rounds - 1 :: self.rounds]  # of the pairs with each key
        values = np.take_along_axis(given, last, axis=1)
        slots = np.arange(1, (self.length - seen) // 2 + 1)
        weights = slots ** (self.power - 1)
        # The order in which exponential clocks ring is that of drawing by weight without repetition.
        rings = rng.exponential(size=(rows, len(slots))) / weights
        at = seen + 2 * rings.argsort(axis=1)[:, : self.load]
        x = np.zeros((rows, self.length), dtype=np.int64)
        x[:, 0:seen:2], x[:, 1:seen:2] = np.take_along_axis(keys, which, axis=1), given
        np.put_along_axis(x, at, keys, axis=1)
        if self.filler == "random":
            x = np.where(x == 0, rng.integers(0, self.vocab, size=x.shape), x)
        return Rows(x, at, values)


@dataclass(frozen=True, kw_only=True)
class Parity(Test):
    """Bits; after each of them, whether the number of ones so far is odd.

    Trained at lengths up to `length`, and measured at lengths beyond.
    """

    kind: ClassVar[str] = "parity"
    dial: ClassVar[str] = "length"

    length: int = at_least(1, default=40, most=STEPS)
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

    distance: int = at_least(0, default=20, most=WORDS)
    load: int = 1
    distractors: int = at_least(0, default=1)

    def problem(self) -> str | None:
        if self.load > len(gap_text.NAMES):
            return f"load of at most {len(gap_text.NAMES)}, a name for each, found {self.load}"
        if self.load + self.distractors > len(gap_text.LANGUAGES):
            together = f"load and distractors of at most {len(gap_text.LANGUAGES)} together, a country for each"
            return f"{together}, found {self.load} and {self.distractors}"
        if not gap_text.fits(self.distance, self.distractors):
            least = f"at least {self.least}" if self.distractors else f"0 or at least {gap_text.SHORTEST_FILLER}"
            return f"distance of {least}, for whole sentences ({self.distractors} distractors), found {self.distance}"
        return None

    @property
    def inputs(self) -> int:
        return len(gap_text.WORDS)

    @property
    def outputs(self) -> int:
        return len(gap_text.WORDS)

    @property
    def steps(self) -> int:
        ask = 1 + len(gap_text.QUESTION)
        return self.load * len(gap_text.FACTS[0]) + self.distance + self.load * (ask + 2) - 2

    @property
    def judged(self) -> int:
        return self.load

    @property
    def least(self) -> int:
        return self.distractors * gap_text.SHORTEST_VISIT

    def nearest(self, value: int) -> int:
        return value if gap_text.fits(value, self.distractors) else gap_text.SHORTEST_FILLER

    @property
    def chance(self) -> float:
        return 1 / len(gap_text.LANGUAGES)

    def baselines(self) -> dict[str, float]:
        others = len(gap_text.LANGUAGES) - self.distractors
        return {"chance": 1 - self.chance, "all but the distractors": 1 - 1 / others}

    def word(self, token: int) -> str:
        return gap_text.WORDS[token]

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        numbers = uniform(rng)
        texts = (
            gap_text.write(numbers, distance=self.distance, load=self.load, distractors=self.distractors)
            for _ in range(rows)
        )
        x = np.array([[gap_text.NUMBER[word] for word in text] for text in texts])
        first = self.load * len(gap_text.FACTS[0]) + self.distance + len(gap_text.QUESTION)
        at = first + np.arange(self.load) * (len(gap_text.QUESTION) + 3)
        return Rows(x[:, :-1], np.tile(at, (rows, 1)), x[:, at + 1])


@dataclass(frozen=True, kw_only=True)
class Order(Test):
    """Different numbers that rise, or the same in another order; asked for at the last step: which of the two.

    With `shuffle=all` any order is as likely as any other, with `pair` two neighbours have changed places. Half of the
    rows rise. Who sees what stands in a row but not in which order is right half the time.
    """

    kind: ClassVar[str] = "order"
    dial: ClassVar[str] = "length"

    length: int = at_least(1, default=20, most=STEPS)
    vocab: int = at_least(1, default=100, most=VOCABULARY)
    shuffle: Literal["all", "pair"] = "all"

    def problem(self) -> str | None:
        if self.length < 2:
            return f"length of at least 2, a number before another, found {self.length}"
        if self.vocab < self.length:
            return f"vocab of at least {self.length}, a number for each step, found {self.vocab}"
        return None

    @property
    def inputs(self) -> int:
        return self.vocab

    @property
    def outputs(self) -> int:
        return 2

    @property
    def steps(self) -> int:
        return self.length

    @property
    def least(self) -> int:
        return 2

    @property
    def chance(self) -> float:
        return 1 / 2

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        rising = np.sort(distinct(rng, rows, self.length, self.vocab), axis=1)
        x, ordered = rising.copy(), rng.integers(0, 2, size=rows)
        first = rng.integers(0, self.length - 1, size=rows)  # of two neighbours
        if self.shuffle == "all":
            x = rng.permuted(x, axis=1)
        swapped = (x == rising).all(axis=1)  # whatever is still in order
        rest, place = np.flatnonzero(swapped), first[swapped]
        x[rest, place], x[rest, place + 1] = x[rest, place + 1], x[rest, place]
        x = np.where(ordered[:, None] == 1, rising, x)
        return Rows(x, np.full((rows, 1), self.length - 1), ordered[:, None])


TESTS: dict[str, type[Test]] = {
    test.kind: test for test in (Copy, Adding, Recall, Parity, Gap, Order, Clouds, Agreement, Nested)
}
