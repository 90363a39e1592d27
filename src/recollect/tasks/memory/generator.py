"""What every test of memory has: settings, a dial that makes it hard, and rows drawn by part, seed and number."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ...core.contract import ContractError, check_settings
from ...core.limits import check_fits
from ...core.settings import at_least
from ...data.cache import hash_json

VERSION = 1  # of what is drawn: a change here is a change of every fingerprint
BYTES = 40  # of memory for each step of a row while it is drawn
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
    later: ClassVar[frozenset[str]] = frozenset()  # settings that older rows lack: named where they are not as usual

    vary: bool = False
    reach: int = at_least(1, default=1, most=1_024)

    def __post_init__(self) -> None:
        check_settings(self)
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
        """The share of right answers without any memory."""

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

    def nearest(self, value: int) -> int:
        """The value itself, or the next above it that the dial can have."""
        return value

    def points(self) -> list[int]:
        """The values of the dial at which the test is measured; 0 too, where there is nothing easier."""
        value = self.value
        within = {self.nearest(max(self.least, -(-value * part // 4))) for part in (1, 2, 3)} if self.vary else set()
        within |= {0} if self.vary and self.least == 0 else set()
        beyond = {value * 2**k for k in range(1, self.reach.bit_length())}
        return sorted(within | {value} | beyond)

    def batch(self, part: str, seed: int, number: int, rows: int) -> Rows:
        """The batch of that number: a function of the part, the seed and the number alone."""
        self.check_rows(rows)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(PARTS[part], number)))
        if self.vary and part == "train":
            value = self.nearest(int(rng.integers(self.least, self.value, endpoint=True)))
            return self.turned(value).draw(rng, rows)
        return self.draw(rng, rows)

    def check_rows(self, rows: int) -> None:
        """Refuse so many rows where they do not fit into memory."""
        size = f"{rows:,} rows of {self.steps:,} steps"
        remedy = f"lower the batch, eval_rows, reach or {self.dial}"
        check_fits(BYTES * rows * self.steps, f"{self.kind}: {size}", remedy)

    def settings(self) -> dict[str, Any]:
        """Everything that decides what is drawn."""
        usual = {field.name: field.default for field in fields(self)}
        own = {name: value for name, value in asdict(self).items() if name not in self.later or value != usual[name]}
        return {"kind": self.kind, "version": VERSION} | own

    @property
    def name(self) -> str:
        """The test with its dials and whatever is not as usual, as a reader of results sees it."""
        usual = {field.name: field.default for field in fields(self)}
        shown = {
            name: value
            for name, value in asdict(self).items()
            if value != usual[name] or (type(value) is int and name != "reach" and name not in self.later)
        }
        return ", ".join([self.kind, *(f"{name} {value}" for name, value in shown.items())])

    @property
    def notes(self) -> list[str]:
        return []

    @property
    def fingerprint(self) -> str:
        return hash_json(self.settings())


def everywhere(rows: int, steps: int, first: int = 0) -> np.ndarray:
    """The steps from `first` on, for each row: B A."""
    return np.tile(np.arange(first, steps), (rows, 1))
