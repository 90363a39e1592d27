"""How figures over seeds are gathered, said and drawn."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from ..core.chart import Line
from .claim import interval


def gather(runs: Iterable[Mapping[Any, float]]) -> dict[Any, list[float]]:
    """One mapping for each seed becomes one list for each place: {x: [value of each seed]}."""
    found: dict[Any, list[float]] = {}
    for run in runs:
        for x, value in run.items():
            found.setdefault(x, []).append(value)
    return found


def said(values: Sequence[float], digits: int = 3) -> str:
    """Mean and range over seeds: `0.120 (0.100 to 0.140)`."""
    mean, low, high = interval(values)
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def sentence(text: str) -> str:
    """The same with a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def curve(name: str, found: Mapping[Any, Sequence[float]]) -> Line:
    """A line (or bars) of means with their range over seeds."""
    spread = [interval(values) for values in found.values()]
    mean, low, high = ([triple[i] for triple in spread] for i in range(3))
    return Line(name=name, x=list(found), y=mean, low=low, high=high)


def share(found: Mapping[Any, Sequence[float]]) -> float:
    """The share of runs in which something happened (1 or True), over all places and seeds."""
    happened = [value for values in found.values() for value in values]
    return fmean(happened)


def shares(name: str, found: Mapping[Any, Sequence[float]]) -> Line:
    """Bars of the share of seeds in which something happened, at each place."""
    return Line(name=name, x=[f"{x:g}" for x in found], y=[fmean(values) for values in found.values()])
