"""Instruments of ratings: the axes that move the scores most, and the items that users treat most alike."""

import difflib
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...core.chart import Chart, Line
from ...core.contract import ContractError
from ...core.inspection import Instrument, Reading
from ...core.settings import option
from ...core.task import LoadedRun, RunError
from .model import axes
from .rated import Artifacts

COUNT = "Of directions and nearest: how many items."


@dataclass(frozen=True, kw_only=True)
class DirectionsOptions:
    count: int | None = option(None, COUNT)


@dataclass(frozen=True, kw_only=True)
class NearestOptions:
    item: str | None = option(None, "Of nearest: the item.")
    count: int | None = option(None, COUNT)


def read_directions(run: LoadedRun[Any, Artifacts], options: DirectionsOptions) -> Reading:
    """What moves the scores most: the axes of a ratings run."""
    rows = score_axes(run, options.count or 5)
    names = [f"axis {row['axis']}" for row in rows]
    line = Line(name="share of the scores", x=names, y=[row["share"] for row in rows])
    chart = Chart(title="what moves the scores", x="", y="share", lines=[line], kind="bars")
    summary = [
        f"axis {row['axis']}, {row['share']:.1%}: " + "  ⟷  ".join(_titles(row[end]) for end in ("high", "low"))
        for row in rows
    ]
    return Reading(summary=summary, figures={"directions": rows}, charts=[chart])


def read_nearest(run: LoadedRun[Any, Artifacts], options: NearestOptions) -> Reading:
    """The items that users treat most alike."""
    if options.item is None:
        raise ContractError(f"nearest: expected --item with a name, such as {run.artifacts.items[0]!r}, found none")
    rows = nearest_items(run, options.item, options.count or 10)
    line = Line(name="cosine", x=[row["title"] for row in rows], y=[row["similarity"] for row in rows])
    chart = Chart(title=f"nearest to {options.item}", x="", y="cosine", lines=[line], kind="bars")
    summary = [f"{row['similarity']:.3f}  {row['title']}" for row in rows]
    summary = summary or [f"nothing is near {options.item!r}, since there is no other item"]
    return Reading(summary=summary, figures={"item": options.item, "nearest": rows}, charts=[chart])


def _titles(items: list[dict[str, Any]]) -> str:
    return ", ".join(str(item["title"]) for item in items)


def nearest_items(run: LoadedRun[Any, Artifacts], item: str, count: int = 10) -> list[dict[str, Any]]:
    """The items that users treat most alike, by the cosine between vectors along axes that no rotation changes."""
    artifacts = run.artifacts
    names = list(artifacts.items)
    place = names.index(item) if item in artifacts.items else None
    if place is None and artifacts.titles is not None and item in artifacts.titles:
        place = artifacts.titles.index(item)
    if place is None:
        raise RunError(unknown_item(item, artifacts))
    found = axes(*run.model.vectors())
    vectors = nn.functional.normalize(found.items * found.strength, dim=-1)
    alike = vectors @ vectors[place]
    alike[place] = -torch.inf
    best = alike.topk(min(count, len(names) - 1))
    return [
        {"item": names[i], "title": artifacts.title(i), "similarity": value}
        for value, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]


def unknown_item(item: str, artifacts: Artifacts) -> str:
    """The line for an item that is none."""
    there = [*artifacts.items, *(artifacts.titles or ())]
    close = difflib.get_close_matches(item, there, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return f"item: expected one of {len(artifacts.items):,} items such as {artifacts.items[0]!r}, found {item!r}{meant}"


def score_axes(run: LoadedRun[Any, Artifacts], count: int = 5) -> list[dict[str, Any]]:
    """What moves the scores most: each axis with its share of them, and the items at its two ends."""
    artifacts = run.artifacts
    found = axes(*run.model.vectors())
    shares = found.strength.square() / found.strength.square().sum()
    rows = []
    for axis, share in enumerate(shares.tolist()):
        order = found.items[:, axis].argsort(descending=True).tolist()
        ends = {"high": order[:count], "low": order[::-1][:count]}
        named = {
            end: [{"item": artifacts.items[i], "title": artifacts.title(i)} for i in some] for end, some in ends.items()
        }
        rows.append({"axis": axis + 1, "share": share, **named})
    return rows


INSTRUMENTS = (
    Instrument("directions", DirectionsOptions, read_directions),
    Instrument("nearest", NearestOptions, read_nearest),
)
