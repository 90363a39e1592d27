"""How figures over seeds are gathered, compared, worded and drawn."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from ...core.chart import Chart, Line
from ..claim import Verdict


def gather(runs: Iterable[Mapping[Any, float]]) -> dict[Any, list[float]]:
    """One mapping for each seed becomes one list for each place: {x: [value of each seed]}."""
    found: dict[Any, list[float]] = {}
    for run in runs:
        for x, value in run.items():
            found.setdefault(x, []).append(value)
    return found


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


def share(found: Mapping[Any, Sequence[float]]) -> float:
    """The share of runs in which something happened (1 or True), over all places and seeds."""
    happened = [value for values in found.values() for value in values]
    return fmean(happened)


def judge_settings(found: Mapping[Any, Sequence[float]], above: float) -> Verdict:
    """From {setting: [figure of each seed]}: holds where all are above, within limits where those of some settings."""
    good = [min(values) > above for values in found.values()]
    if any(good):
        return Verdict.HOLDS if all(good) else Verdict.LIMITS
    never = all(max(values) <= above for values in found.values())
    return Verdict.FAILS if never else Verdict.UNDECIDED


# Words


def show(values: Sequence[float], digits: int = 3) -> str:
    """Mean and range over seeds: `0.120 (0.100 to 0.140)`."""
    mean, low, high = interval(values)
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def said_each(found: Mapping[str, Sequence[float]], digits: int = 3) -> str:
    """`said` of each name, in a list."""
    return ", ".join(f"{name} {show(values, digits)}" for name, values in found.items())


def sentence(text: str) -> str:
    """The same with a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def limits(verdict: Verdict, which: str) -> str:
    """The end of a summary where a claim holds within limits, else nothing."""
    return which if verdict is Verdict.LIMITS else ""


def decimal(value: float) -> str:
    """A number without a zero before its point: `.05`."""
    return f"{value:g}".removeprefix("0")


def scientific(value: float) -> str:
    """A number as `5e-3`."""
    digits, power = f"{value:e}".split("e")
    return f"{float(digits):g}e{int(power)}"


def in_words(value: float) -> str:
    """A share or a multiple as it is spoken: `half`, `twice`."""
    return {1 / 6: "a sixth", 1 / 3: "a third", 1 / 2: "half", 2: "twice"}[value]


# Pictures


def curve(name: str, found: Mapping[Any, Sequence[float]], middle: Callable[[Sequence[float]], float] = fmean) -> Line:
    """A line (or bars) of means, or of another `middle`, with the range over seeds."""
    each = found.values()
    return Line(name, list(found), [middle(v) for v in each], [min(v) for v in each], [max(v) for v in each])


def curves(found: Mapping[str, Mapping[Any, Sequence[float]]]) -> list[Line]:
    """A curve for each name."""
    return [curve(name, each) for name, each in found.items()]


def rows(x: Sequence[float | str], found: Mapping[str, Sequence[float]]) -> list[Line]:
    """A line for each name, which has one value for each x."""
    return [Line(name, list(x), list(row)) for name, row in found.items()]


def shares(name: str, found: Mapping[Any, Sequence[float]]) -> Line:
    """Bars of the share of seeds in which something happened, at each place."""
    return Line(name, [f"{x:g}" for x in found], [fmean(values) for values in found.values()])


def bars(title: str, x: str, y: str, lines: Sequence[Line], **options: Any) -> Chart:
    """A chart of bars, one group for each line."""
    return Chart(title, x, y, lines, kind="bars", **options)


def growth(title: str, x: str, y: str, lines: Sequence[Line]) -> Chart:
    """A chart in which a power of x is a straight line."""
    return Chart(title, x, y, lines, log_x=True, log_y=True)


def gap_chart(title: str, found: Mapping[str, Mapping[int, Sequence[float]]]) -> Chart:
    """Right answers to a question about one of 12 facts, by the words between: {name: {words: [of each seed]}}."""
    return Chart(title, "words between", "right answers", curves(found), level=1 / 12, level_name="chance")


def store_chart(title: str, found: Mapping[str, Mapping[int, Sequence[float]]], sizes: Mapping[str, int]) -> Chart:
    """Right answers by the number of pairs to be recalled, of stores with so many bytes of state."""
    return Chart(
        title, "pairs", "right answers", curves({f"{name}, {sizes[name]:,} bytes": found[name] for name in found})
    )
