"""Every instrument by name, for any run: what `recollect inspect` calls."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np

from ..core.chart import Chart, Line, Map
from ..core.contract import ContractError
from ..core.settings import known
from ..train import captions as caption_job
from ..train import ratings, series
from ..train.folder import RunError
from . import cost, horizon, influence, state, training
from .alignment import align
from .gaze import gaze
from .reading import Reading
from .subjects import Ask, Opened, described, open_run, translated


@dataclass(frozen=True, kw_only=True)
class Options:
    """What an instrument can be told; None leaves a choice to it."""

    rows: int | None = None
    steps: int | None = None
    text: str | None = None
    image: str | None = None
    initial: bool | None = None
    by: str | None = None
    draws: int | None = None
    layer: int | None = None
    head: int | None = None
    at: int | None = None
    change: str | None = None
    lengths: str | None = None
    tries: int | None = None
    item: str | None = None
    count: int | None = None

    def ask(self, *, rows: int = 1, steps: int | None = None) -> Ask:
        return Ask(rows=self.rows or rows, steps=self.steps or steps, text=self.text, image=self.image)


ASK = ("rows", "steps", "text", "image")


def gradients(run: Opened, options: Options) -> Reading:
    initial = True if options.initial is None else options.initial
    given = options.text is not None or options.image is not None  # then the run's own data need not be there
    subject = run.subject(options.ask(rows=16))
    clips = not (given or run.missing)  # they need the run's batches
    return training.read(run, subject, initial=initial, clips=clips)


def influences(run: Opened, options: Options) -> Reading:
    by = known("--by", options.by or "another", get_args(influence.By))
    steps = 24 if run.job.name in ("text", "labels") else None
    subject = run.subject(options.ask(rows=16, steps=steps))
    if options.text is not None and run.job.name == "text":
        subject = replace(subject, data=f"{subject.data}, what stands in for an input drawn from it")
    return influence.read(subject, by=by, draws=options.draws or 4, layer=options.layer)  # type: ignore[arg-type]


def horizons(run: Opened, options: Options) -> Reading:
    return horizon.read(run.subject(options.ask(rows=256)))


def states(run: Opened, options: Options) -> Reading:
    steps = 48 if run.job.name in ("text", "labels") else None
    subject = run.subject(options.ask(steps=steps))
    token = None if options.change is None else subject.token(options.change)
    at = None if options.at is None else options.at - 1
    return state.read(subject, at=at, token=token, named=options.change or "")


def costs(run: Opened, options: Options) -> Reading:
    given = {} if options.lengths is None else {"lengths": _lengths(options.lengths)}
    return cost.read(run.subject(options.ask()), tries=options.tries or cost.TRIES, **given)


def alignments(run: Opened, options: Options) -> Reading:
    """Of the given text, or the first source of validation, and the run's own translation."""
    _only(run, "alignment", "translation")
    source, target = run.used.kept
    text = options.text
    if text is None:
        text = source.decode(run.task.pairs("valid").source_of(0).tolist())
    ids, best = translated(run, text)
    found = align(run.used, ids, best, layer=options.layer, head=options.head)
    values, said = found.weights.tolist(), target.decode(best.tokens)
    chart = Map(title=found.kind, x="source", y="translation", values=values, columns=found.source, rows=found.target)
    figures = {
        "source": found.source,
        "target": found.target,
        "kind": found.kind,
        "weights": values,
        "pairs": [list(pair) for pair in found.pairs],
    }
    return Reading(summary=[f"{text} → {said}", found.kind], figures=figures, charts=[chart])


def gazes(run: Opened, options: Options) -> Reading:
    """Of the given picture, or the first of validation, and the run's own caption."""
    _only(run, "gaze", "captions")
    if options.image is not None:
        one = described(run, options.image)
        image, best, picture = one.image, one.found[0], caption_job.view(options.image)
    else:
        image = picture = np.array(run.task.part("valid").images[0])
        best = run.task.hypotheses(run.used.model, "valid", run.used.run.task.search(), 1)[0][0]
    found = gaze(run.used, image, best, layer=options.layer, head=options.head)
    cells = found.weights.flatten(1).tolist()
    chart = Map(title=found.kind, x="part of the picture, row by row", y="word", values=cells, rows=found.words)
    figures = {"words": found.words, "kind": found.kind, "weights": found.weights.tolist()}
    said = run.used.kept.side.decode(best.tokens)
    return Reading(summary=[said, found.kind], figures=figures, charts=[chart], picture=picture)


def ahead(run: Opened, options: Options) -> Reading:
    """The error k points ahead, beyond the run's own horizon from what it said itself; and of one free run."""
    _only(run, "ahead", "series")
    found = series.k_step(run.used, split="test", data_dir=run.data_dir)
    steps, free = found["k_step"], found["free_run"]
    line = Line(name=run.used.run.model["name"], x=list(steps), y=[step["mse"] for step in steps.values()])
    chart = Chart(
        title="error by how far ahead", x="points ahead", y="squared error", lines=[line], log_x=True,
        level=free["mean"], level_name="the training part's mean",
    )  # fmt: skip
    summary = [
        f"{k:,} ahead: squared error {step['mse']:.4f} ({step['windows']:,} windows)" for k, step in steps.items()
    ]
    summary.append(
        f"running freely for {free['points']:,} points: {free['free']:.4f}; predicting the mean: {free['mean']:.4f}"
    )
    return Reading(summary=summary, figures=found, charts=[chart])


def directions(run: Opened, options: Options) -> Reading:
    """What moves the scores most: the axes of a ratings run."""
    _only(run, "directions", "ratings")
    rows = ratings.directions(run.used, options.count or 5)
    names = [f"axis {row['axis']}" for row in rows]
    line = Line(name="share of the scores", x=names, y=[row["share"] for row in rows])
    chart = Chart(title="what moves the scores", x="", y="share", lines=[line], kind="bars")
    summary = [
        f"axis {row['axis']}, {row['share']:.1%}: " + "  ⟷  ".join(_titles(row[end]) for end in ("high", "low"))
        for row in rows
    ]
    return Reading(summary=summary, figures={"directions": rows}, charts=[chart])


def nearest(run: Opened, options: Options) -> Reading:
    """The items that users treat most alike."""
    _only(run, "nearest", "ratings")
    if options.item is None:
        raise ContractError(f"nearest: expected --item with a name, such as {run.used.kept.items[0]!r}, found none")
    rows = ratings.nearest(run.used, options.item, options.count or 10)
    line = Line(name="cosine", x=[row["title"] for row in rows], y=[row["similarity"] for row in rows])
    chart = Chart(title=f"nearest to {options.item}", x="", y="cosine", lines=[line], kind="bars")
    summary = [f"{row['similarity']:.3f}  {row['title']}" for row in rows]
    summary = summary or [f"nothing is near {options.item!r}, since there is no other item"]
    return Reading(summary=summary, figures={"item": options.item, "nearest": rows}, charts=[chart])


@dataclass(frozen=True)
class Instrument:
    read: Callable[[Opened, Options], Reading]
    options: tuple[str, ...]  # that it takes


INSTRUMENTS: dict[str, Instrument] = {
    "gradients": Instrument(gradients, (*ASK, "initial")),
    "influence": Instrument(influences, (*ASK, "by", "draws", "layer")),
    "horizon": Instrument(horizons, ASK),
    "state": Instrument(states, (*ASK, "at", "change")),
    "cost": Instrument(costs, (*ASK, "lengths", "tries")),
    "alignment": Instrument(alignments, ("text", "layer", "head")),
    "gaze": Instrument(gazes, ("image", "layer", "head")),
    "ahead": Instrument(ahead, ()),
    "directions": Instrument(directions, ("count",)),
    "nearest": Instrument(nearest, ("item", "count")),
}


def inspect(path: str | Path, what: str, *, device: str = "cpu", data_dir: str | None = None, **given: Any) -> Reading:
    """What an instrument finds in a run."""
    instrument = INSTRUMENTS[known("instrument", what, INSTRUMENTS)]
    options = Options(**given)
    for field in fields(options):
        value = getattr(options, field.name)
        if value is not None and field.name not in instrument.options:
            takers = [name for name, other in INSTRUMENTS.items() if field.name in other.options]
            raise ContractError(f"--{field.name}: expected with {', '.join(takers)}, found with {what}")
        if type(value) is int and value < 1:
            raise ContractError(f"--{field.name}: expected at least 1, found {value}")
    run = open_run(path, device=device, data_dir=data_dir)
    found = instrument.read(run, options)
    return replace(found, notes=run.notes)


def _only(run: Opened, what: str, task: str) -> None:
    if run.job.name != task:
        raise RunError(f"{run.path}: expected a run of {task} for {what}, found one of {run.job.name}")


def _titles(items: list[dict[str, Any]]) -> str:
    return ", ".join(str(item["title"]) for item in items)


def _lengths(text: str) -> list[int]:
    """`16,64,256`."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) < 2 or found[0] < 1 or any(a >= b for a, b in pairwise(found)):
        raise ContractError(
            f"--lengths: expected rising numbers with commas between, such as 16,64,256, found {text!r}"
        )
    return found
