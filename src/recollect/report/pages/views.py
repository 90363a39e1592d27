"""What can be seen of why a heat went as it did: one chart an aspect, with a sentence on how to read it."""

from collections.abc import Sequence
from typing import Any, Protocol

from ...core import numbers
from ..drawing.colour import Keys
from . import explain, standing
from .metric import Metric
from .page import Once, figure, pair, say, section
from .standing import Entry

POSITIONS = 32  # points of a curve over positions
FEW_POSITIONS = 40  # that stand evenly; more are shown by their logarithm
BANDS = 5  # curves that can show their range and still be told apart


class Told(Protocol):
    """What is needed of a heat."""

    heat: dict[str, Any]
    metric: Metric
    keys: Keys
    once: Once
    entries: list[Entry]
    ranked: list[Entry]


def against_state(heat: Told) -> str:
    """A ladder of states is about what is kept for how many bytes."""
    if heat.heat.get("ladder") != "state":
        return ""
    lines = [
        {
            "name": entry.name,
            "x": [entry.average("state_bytes")],
            "y": [heat.metric.factor * entry.mean],
            "low": [heat.metric.factor * min(entry.values)],
            "high": [heat.metric.factor * max(entry.values)],
        }
        for entry in heat.entries
        if entry.rows
    ]
    y = heat.metric.axis
    return _chart(heat, "What a byte of state is worth", "bytes of state", y, lines, log_x=True)


def written(heat: Told) -> str:
    """Where it was measured: what each is worth with the text before it, and one token at a time, as it writes."""
    done = [entry for entry in heat.entries if entry.average("step_by_step") is not None]
    names = [entry.name for entry in done]
    kinds = (("all_at_once", "shown the text at once"), ("step_by_step", "one token at a time"))
    lines = [{"name": name, "x": names, "y": [entry.average(key) for entry in done]} for key, name in kinds]
    note = (
        "One at a time is how it writes. The two agree for whoever sees only the past; where they part, the model has "
        "looked at what it was to say."
    )
    return _chart(heat, "Seen and written", "", "nats per token", lines, note, kind="bars")


def _line(
    heat: Told, entry: Entry, x: Sequence[Any], points: Sequence[Sequence[float]], factor: float = 1.0
) -> dict[str, Any]:
    """A curve out of (mean, least, greatest); many curves go without their bands, which would hide them."""
    mean, low, high = ([factor * point[i] for point in points] for i in range(3))
    bands = {"low": low, "high": high} if len(heat.ranked) <= BANDS else {}
    return {"name": entry.name, "x": list(x), "y": mean, **bands}


def _band_note(heat: Told) -> str:
    several = any(len(entry.rows) > 1 for entry in heat.ranked)
    if not several:
        return ""
    return "Bands: least to greatest over seeds." if len(heat.ranked) <= BANDS else "Means over seeds."


def _chart(
    heat: Told, title: str, x: str, y: str, lines: list[dict[str, Any]], note: str = "", half: bool = False, **more: Any
) -> str:
    """A figure, or nothing where nothing was measured."""
    lines = [line for line in lines if any(numbers.known(value) for value in line["y"])]
    if not lines:
        return ""
    return figure({"title": title, "x": x, "y": y, "lines": lines, **more}, heat.keys, note, half=half)


def learning(heat: Told) -> str:
    watched = Metric(heat.heat.get("learning") or heat.heat.get("metric") or {})
    by_tokens, by_seconds = [], []
    for entry in heat.ranked:
        points = standing.learning(entry)
        values = [value for *_, value in points]
        by_tokens.append(_line(heat, entry, [tokens[0] for tokens, *_ in points], values, watched.factor))
        by_seconds.append(_line(heat, entry, [seconds[0] for _, seconds, _ in points], values, watched.factor))
    charts = pair(
        _chart(heat, "Against tokens", "tokens learned from", watched.axis, by_tokens, half=True),
        _chart(heat, "Against time", "seconds of training", watched.axis, by_seconds, half=True),
    )
    told = "The same runs twice: how much each makes of what it is shown, and how much of the time it takes."
    words = say(told, heat.once(explain.VALIDATION), _band_note(heat))
    return section("How they learned", words, charts, level=3) if charts else ""


def positions(heat: Told) -> str:
    lines = []
    for entry in heat.ranked:
        points = standing.curve(entry, "by_position")
        places = standing.binned(points, POSITIONS) if len(points) > FEW_POSITIONS else standing.numbered(points)
        lines.append(_line(heat, entry, [place[0] for place in places], [place[1:] for place in places]))
    most = max((line["x"][-1] for line in lines if line["x"]), default=0)
    chart = _chart(
        heat,
        "Loss by position",
        "position in the context",
        "loss",
        lines,
        _band_note(heat),
        log_x=most > FEW_POSITIONS,
    )
    words = say(explain.POSITIONS, heat.once(explain.CONTEXT), heat.once(explain.LOSS))
    return section("Where in the context they err", words, chart, level=3) if chart else ""


def costs(heat: Told) -> str:
    work, state = [], []
    for entry in heat.ranked:
        costs = next((row["costs"] for row in entry.rows if row.get("costs")), [])
        x = [cost.get("length") for cost in costs]
        work.append({"name": entry.name, "x": x, "y": [cost.get("flops") for cost in costs]})
        state.append({"name": entry.name, "x": x, "y": [cost.get("state_bytes") for cost in costs]})
    charts = pair(
        _chart(heat, "Work to read a sequence", "tokens read", "FLOPs", work, half=True, log_x=True, log_y=True),
        _chart(heat, "State after reading it", "tokens read", "bytes", state, half=True, log_x=True, log_y=True),
    )
    source = explain.SOURCE if heat.heat.get("task") == "translation" else ""
    words = say(explain.COSTS, source, heat.once(explain.DECLARED), heat.once(explain.LOG))
    return section("What length costs", words, charts, level=3) if charts else ""


def gradients(heat: Told) -> str:
    lines = []
    for entry in heat.ranked:
        flows = [row["gradient"] for row in entry.rows if row.get("gradient")]
        if flows:
            points = [standing.spread(place) for place in zip(*(flow["norm"] for flow in flows), strict=False)]
            lines.append(_line(heat, entry, flows[0]["distance"][: len(points)], points))
    chart = _chart(
        heat,
        "Influence of an input on the last output",
        "steps between the input and the output",
        "size of the gradient",
        lines,
        _band_note(heat),
        log_y=True,
    )
    words = say(
        "How fast the influence of an input fades with distance.",
        heat.once(explain.GRADIENT),
        heat.once(explain.LOG),
    )
    return section("How far back an input is felt", words, chart, level=3) if chart else ""
