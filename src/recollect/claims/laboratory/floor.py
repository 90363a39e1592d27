"""The floor of a claim: what its models must have learnt at the easy end of its axis before anything is compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .figures import show


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The figure that a model must reach, with every seed, where a claim is easiest. Below it the claim is not learnt.

    A share of right answers has a `least`; a loss or an error has a `most`.
    """

    easy: str  # the easy end of the axis: "at a gap of 0 words"
    figure: str  # what is measured there: "right answers"
    least: float | None = None
    most: float | None = None
    models: str = "every model"  # whom it is asked of, in words

    def __post_init__(self) -> None:
        if (self.least is None) == (self.most is None):
            raise ValueError(f"floor: expected either least or most, found {self.least} and {self.most}")

    def reached(self, values: Sequence[float]) -> bool:
        """Whether a model with these figures, one of each seed, has learnt the easy end."""
        if self.least is not None:
            return min(values) >= self.least
        assert self.most is not None
        return max(values) <= self.most

    def missing(self, found: Mapping[str, Sequence[float]]) -> str:
        """From {model: [figure of each seed]}: which have not learnt the easy end, and their figures; else nothing."""
        short = ", ".join(f"{name} {show(values)}" for name, values in found.items() if not self.reached(values))
        return f"not learnt {self.easy} ({self.figure}, {self.bound} with every seed): {short}" if short else ""

    @property
    def bound(self) -> str:
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"

    def __str__(self) -> str:
        return f"Not learnt unless {self.models} reaches {self.bound} {self.figure} {self.easy} with every seed."
