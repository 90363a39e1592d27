"""Who won a heat, by how much, and whether that is more than luck, in words: for the page and for the terminal."""

from collections.abc import Callable, Sequence

from . import standing
from .metric import Metric
from .standing import Entry

Write = Callable[[str], str]


def verdict(ranked: Sequence[Entry], metric: Metric, *, text: Write = str, name: Write = str) -> str:
    """`text` writes what comes from outside and `name` who is in front: a page escapes the one and stresses the other.

    `ranked` holds those that finished, the best first.
    """
    if not ranked:
        return "No entry finished, so nobody won."
    best, *rest = ranked
    score = f"{text(metric.label)} {metric.value(best.mean)}"
    if not rest:
        return f"Only {name(best.name)} has a result: {score}. {_luck(best, None, metric, text)}"
    mark = f" It is marked: {text('; '.join(best.unfair))}." if best.unfair else ""
    behind = [entry for entry in rest if not metric.level(best.mean, entry.mean)]
    following = f"{text(behind[0].name)} ({metric.value(behind[0].mean)})" if behind else ""
    if len(behind) < len(rest):
        leaders = [entry for entry in ranked if entry not in behind]
        names, means = listed([name(entry.name) for entry in leaders]), [entry.mean for entry in leaders]
        if len({metric.value(mean) for mean in means}) > 1:
            score = f"{text(metric.label)} {metric.range(min(means), max(means))}"
        following = f"; next is {following}" if following else ""
        luck = _luck(best, behind[0] if behind else None, metric, text)
        return f"{names} are level: {score}{following}.{mark} {luck}"
    lead = metric.step(abs(best.mean - rest[0].mean))
    luck = _luck(best, rest[0], metric, text)
    return f"{name(best.name)} won: {score}, ahead of {following} by {lead}.{mark} {luck}"


def _luck(best: Entry, second: Entry | None, metric: Metric, text: Write) -> str:
    drawn = [len(entry.rows) for entry in (best, second) if entry is not None and not entry.counted]
    if not drawn:
        return "What is counted is the same with every seed."
    if drawn == [1] and second is None:
        return "One seed shows no spread: --seeds 3 tells."
    if min(drawn) == 1:
        return "One seed shows no spread, so a small lead may be luck: --seeds 3 tells."
    if second is None:
        return f"Over seeds, {text(best.name)} ranges from {metric.range(min(best.values), max(best.values))}."
    if standing.ahead(best.values, second.values, metric.better):
        return "That is more than the spread over seeds: its worst seed beats the best of the other."
    return "That is within the spread over seeds: their ranges overlap, so another seed may turn the order."


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
