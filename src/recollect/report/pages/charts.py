"""Charts of a heat, one an aspect, as plain data; each function returns those that have something to show."""

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

from ...core import numbers
from ...core.metric import Metric
from ...racing.summary import Standing, Summary

Chart = dict[str, Any]
Spread = tuple[float, float, float]  # mean, least and greatest over seeds
POSITIONS = 32  # points of a curve over positions
FEW_POSITIONS = 40  # that stand evenly; more are shown by their logarithm
TOKENS, WORK = "tokens learned from", "FLOPs"  # titles of axes
BANDS = 5  # curves that can show their range and still be told apart


def draw_results(heat: Summary, levels: Sequence[tuple[str, float]]) -> Chart:
    """The main picture: a dot and a range for each entrant, with baselines as lines across."""
    metric = heat.metric
    unfinished = [standing for standing in heat.standings if not standing.rows]
    lines = [
        {
            "name": standing.name,
            "x": [standing.name],
            "y": [metric.factor * standing.mean if standing.rows else None],
            "low": [metric.factor * min(standing.values)] if standing.rows else None,
            "high": [metric.factor * max(standing.values)] if standing.rows else None,
            "seeds": [metric.factor * value for value in standing.values],
            "said": metric.write(standing.mean) if standing.rows else "no result",
        }
        for standing in (heat.standings if heat.rungs else [*heat.ranked, *unfinished])
    ]
    return {
        "title": f"{capital(metric.label)} by {'rung' if heat.rungs else 'model'}",
        "x": f"{metric.axis} ({'more is better →' if metric.better == 'higher' else '← less is better'})",
        "y": "",
        "kind": "dots",
        "kept": ("names",),
        "lines": lines,
        "levels": [(name, metric.factor * value) for name, value in levels],
    }


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def draw_worth_of_state(heat: Summary) -> list[Chart]:
    """The metric against the bytes of state, on the ladder of states."""
    if heat.heat.get("ladder") != "state":
        return []
    factor = heat.metric.factor
    lines = [
        {
            "name": standing.name,
            "x": [standing.average("state_bytes")],
            "y": [factor * standing.mean],
            "low": [factor * min(standing.values)],
            "high": [factor * max(standing.values)],
        }
        for standing in heat.standings
        if standing.rows
    ]
    return _chart("What a byte of state is worth", "bytes of state", heat.metric.axis, lines, log_x=True)


def draw_seen_and_written(heat: Summary) -> list[Chart]:
    """Loss with the whole window in view and one token at a time, where both were measured."""
    done = [standing for standing in heat.standings if standing.average("step_by_step") is not None]
    names = [standing.name for standing in done]
    kinds = (("all_at_once", "shown the text at once"), ("step_by_step", "one token at a time"))
    lines = [{"name": name, "x": names, "y": [standing.average(key) for standing in done]} for key, name in kinds]
    return _chart("Seen and written", "", "nats per token", lines, kind="bars", kept=())


def draw_learning(heat: Summary) -> list[Chart]:
    """Validation on the way, against tokens and against seconds."""
    watched = Metric.from_json(heat.heat.get("learning") or heat.heat.get("metric") or {})
    by_tokens, by_seconds = [], []
    for standing in heat.ranked:
        points = _learning_curve(standing)
        values = [value for *_, value in points]
        by_tokens.append(_line(heat, standing, [tokens[0] for tokens, *_ in points], values, watched.factor))
        by_seconds.append(_line(heat, standing, [seconds[0] for _, seconds, _ in points], values, watched.factor))
    return [
        *_chart("Against tokens", TOKENS, watched.axis, by_tokens),
        *_chart("Against time", "seconds of training", watched.axis, by_seconds),
    ]


def draw_positions(heat: Summary) -> list[Chart]:
    """Loss by position in the context."""
    lines = []
    for standing in heat.ranked:
        lists = [row["by_position"] for row in standing.rows if row.get("by_position")]
        points = [_spread(place) for place in zip(*lists, strict=False)]  # as far as all seeds reach
        places = average_bins(points, POSITIONS) if len(points) > FEW_POSITIONS else _number(points)
        lines.append(_line(heat, standing, [place[0] for place in places], [place[1:] for place in places]))
    most = max((line["x"][-1] for line in lines if line["x"]), default=0)
    return _chart("Loss by position", "position in the context", "loss", lines, log_x=most > FEW_POSITIONS)


def draw_costs(heat: Summary) -> list[Chart]:
    """Work and state against the length that is read."""
    work, state = [], []
    for standing in heat.ranked:
        costs = next((row["costs"] for row in standing.rows if row.get("costs")), [])
        x = [cost.get("length") for cost in costs]
        work.append({"name": standing.name, "x": x, "y": [cost.get("flops") for cost in costs]})
        state.append({"name": standing.name, "x": x, "y": [cost.get("state_bytes") for cost in costs]})
    return [
        *_chart("Work to read a sequence", "tokens read", WORK, work, log_x=True, log_y=True),
        *_chart("State after reading it", "tokens read", "bytes", state, log_x=True, log_y=True),
    ]


def draw_gradients(heat: Summary) -> list[Chart]:
    """The gradient of the last output by the distance of the input."""
    lines = []
    for standing in heat.ranked:
        flows = [row["gradient"] for row in standing.rows if row.get("gradient")]
        if flows:
            points = [_spread(place) for place in zip(*(flow["norm"] for flow in flows), strict=False)]
            lines.append(_line(heat, standing, flows[0]["distance"][: len(points)], points))
    title, x = "Influence of an input on the last output", "steps between the input and the output"
    return _chart(title, x, "size of the gradient", lines, log_y=True)


def explain_bands(heat: Summary) -> str:
    """What the bands around curves are, where there are several seeds."""
    if not any(len(standing.rows) > 1 for standing in heat.ranked):
        return ""
    return "Bands: least to greatest over seeds." if len(heat.ranked) <= BANDS else "Means over seeds."


def _chart(title: str, x: str, y: str, lines: list[dict[str, Any]], **more: Any) -> list[Chart]:
    """A chart of the lines with a known value; none without any."""
    lines = [line for line in lines if any(numbers.known(value) for value in line["y"])]
    return [{"title": title, "x": x, "y": y, "lines": lines, "kept": ("names",), **more}] if lines else []


def _line(
    heat: Summary, standing: Standing, x: Sequence[Any], points: Sequence[Sequence[float]], factor: float = 1.0
) -> dict[str, Any]:
    """A curve from points of mean, least and greatest; many curves have no bands, which would hide them."""
    mean, low, high = ([factor * point[i] for point in points] for i in range(3))
    bands = {"low": low, "high": high} if len(heat.ranked) <= BANDS else {}
    return {"name": standing.name, "x": list(x), "y": mean, **bands}


def _learning_curve(standing: Standing) -> list[list[Spread]]:
    """Tokens, seconds and value at the steps that all seeds share.

    Where they share none (a budget of seconds), those of the first seed.
    """
    curves = [{point[0]: point[1:] for point in row["learning"]} for row in standing.rows if row.get("learning")]
    shared = sorted(set.intersection(*map(set, curves))) if curves else []
    if curves and not shared:
        curves, shared = curves[:1], sorted(curves[0])
    return [[_spread(column) for column in zip(*(one[step] for one in curves), strict=True)] for step in shared]


def _spread(values: Sequence[Any]) -> Spread:
    known = [float(value) for value in values if numbers.known(value)]
    if not known:
        return math.nan, math.nan, math.nan
    return statistics.fmean(known), min(known), max(known)


def _number(values: Sequence[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Each with its place before it, from 1."""
    return [(float(place), *value) for place, value in enumerate(values, 1)]


def average_bins(values: Sequence[tuple[float, ...]], most: int) -> list[tuple[float, ...]]:
    """Means over at most so many bins of neighbours, after the middle of each; evenly wide on a log axis."""
    count = len(values)
    cuts = sorted({0, count, *(round((count + 1) ** (i / most)) - 1 for i in range(most + 1))})
    found = []
    for start, end in itertools.pairwise(cuts):
        columns = zip(*values[start:end], strict=True)
        found.append(((start + end + 1) / 2, *(statistics.fmean(column) for column in columns)))
    return found
