"""A claim: a sentence out of the books, the smallest clean experiment on it, and how the verdict is reached.

The thresholds stand in the claim's file beside the experiment and were committed before its first result was looked at.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ..core.chart import Chart, Map


class Verdict(StrEnum):
    HOLDS = "holds"
    LIMITS = "holds within limits"
    FAILS = "does not hold here"
    UNDECIDED = "undecided at this size"


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is spent on an experiment: its quick form is for two cores and a minute, its full form for a GPU."""

    full: bool = False
    device: str = "cpu"
    seeds: int | None = None  # instead of the claim's own number

    def pick(self, quick: Any, full: Any) -> Any:
        return full if self.full else quick


@dataclass(frozen=True, kw_only=True)
class Found:
    """What an experiment showed."""

    verdict: Verdict
    summary: str  # the effect in words and numbers, with its interval over seeds; within limits: which
    figures: dict[str, Any] = field(default_factory=dict)  # every number that was measured, for results/
    charts: Sequence[Chart | Map] = ()


@dataclass(frozen=True, kw_only=True)
class Claim:
    id: str
    statement: str  # one sentence
    sources: Sequence[str]  # where it is made: papers, and seed notes by file name
    experiment: str  # what is done, in a sentence or two
    decided: str  # the thresholds, sizes, seeds and margin, in words
    run: Callable[[Effort], Found]
    deterministic: bool = False  # asserted in the tests
    note: str = ""  # where a source errs, said kindly


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and range over seeds: (mean, least, greatest)."""
    return statistics.fmean(values), min(values), max(values)


def apart(better: Sequence[float], worse: Sequence[float], margin: float = 0.0) -> bool | None:
    """Whether `better` lies under `worse` by more than `margin` for every pair of seeds; None where they overlap."""
    if max(better) + margin < min(worse):
        return True
    if min(better) + margin >= max(worse):
        return False
    return None
