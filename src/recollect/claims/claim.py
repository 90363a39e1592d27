"""A claim: a sentence out of the books, the smallest clean experiment on it, and how the verdict is reached.

The thresholds stand in the claim's file beside the experiment and were committed before its first result was seen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ..core.chart import Chart, Map

CHAPTERS = (  # of the course, which group the claims
    "Sequences and autoregression",
    "The RNN and perplexity",
    "Backpropagation through time",
    "Vanishing gradients, LSTM and GRU",
    "Encoder and decoder",
    "Soft alignment",
    "Pictures to words, and gaze",
    "From the dot product to self-attention",
    "Heads, masks, positions",
    "The Transformer block",
    "Three methods compared",
    "KV cache, linear attention, test-time training",
    "One matrix, three dials",
)


class Verdict(StrEnum):
    HOLDS = "holds"
    LIMITS = "holds within limits"
    FAILS = "does not hold here"
    UNDECIDED = "undecided at this size"
    NOT_LEARNT = "not learnt"  # a model failed at the easy end of the claim's own axis, so that nothing was compared


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is spent on an experiment: its quick form is for two cores and a minute, its full form for a GPU."""

    full: bool = False
    device: str = "cpu"
    seeds: int | None = None  # instead of the claim's own number

    def pick(self, quick: Any, full: Any) -> Any:
        return full if self.full else quick

    def seed_range(self, quick: int, full: int) -> range:
        """The seeds of a claim's runs."""
        return range(self.seeds or self.pick(quick, full))


@dataclass(frozen=True, kw_only=True)
class Found:
    """What an experiment showed."""

    verdict: Verdict
    summary: str  # the effect in words and numbers, with its interval over seeds; within limits: which
    figures: dict[str, Any] = field(default_factory=dict)  # every number that was measured, for results/
    charts: Sequence[Chart | Map] = ()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim as its file declares it; the file's name is its id. Line breaks in the texts are read as spaces."""

    statement: str  # one sentence
    sources: Sequence[str]  # where it is made: papers, and notes by their names with a short quotation
    experiment: str  # what is done, in a sentence or two
    decided: str  # the thresholds, sizes, seeds and margin, in words
    run: Callable[[Effort], Found]
    chapter: int | None = None  # of the course, from 1
    deterministic: bool = False  # asserted in the tests
    note: str = ""  # where a source errs, said kindly

    def __post_init__(self) -> None:
        for name in ("statement", "experiment", "decided", "note"):
            object.__setattr__(self, name, " ".join(getattr(self, name).split()))
