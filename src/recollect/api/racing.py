"""Races from Python: the same as `recollect race`, with the rows, the summary and the page at hand."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from ..core.settings import SettingError, known
from .loading import check_device
from .numbers import read_count, read_number
from .training import DataNames, list_names

SEEDS = 3  # of each model: the fewest that give an interval worth having
MOST_ON_CLUSTER = 1_000  # entries that a cluster is given at once; it has its own queue


@dataclass(frozen=True)
class Race:
    """A finished race: a row for each entry and seed, and the folder that holds them and the page."""

    folder: Path
    rows: list[dict[str, Any]]

    @property
    def page(self) -> Path:
        """The page that explains it: one HTML file."""
        return self.folder / "report.html"

    def summaries(self) -> list[Any]:
        """What the terminal prints of each heat: ranking, table, verdict."""
        from ..racing.summary import load, summarize

        return summarize(*load(self.folder))

    def to_frame(self) -> Any:
        """The rows as a data frame of pandas, the metric in columns of its own; pandas must be installed."""
        try:
            pandas = import_module("pandas")  # by its name: an environment without it has no types of it either
        except ImportError:
            raise SettingError("to_frame: expected pandas, found none installed; pip install pandas") from None
        flat = [
            {name: value for name, value in row.items() if not isinstance(value, dict | list)}
            | {name: row.get("metric", {}).get(name) for name in ("name", "value", "rule")}
            for row in self.rows
        ]
        return pandas.DataFrame(flat)

    def __str__(self) -> str:
        from ..report.table import render

        parts = [f"{render(heat.heading(), *heat.table())}{heat.in_words()}" for heat in self.summaries()]
        return "\n\n".join([*parts, f"the page: {self.page}"])

    def _repr_html_(self) -> str:
        """The main tables, for a notebook."""
        from html import escape

        parts: list[str] = []
        for heat in self.summaries():
            columns, rows = heat.table()
            head = "".join(f"<th>{escape(cell)}</th>" for cell in columns)
            body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
            title, words = escape(heat.heading()), escape(heat.in_words())
            parts.append(f"<p><b>{title}</b></p><table><tr>{head}</tr>{body}</table><p>{words}</p>")
        return "".join(parts)


def race(
    task: str | None = None,
    data: DataNames = (),
    *,
    ladder: str | None = None,
    models: str | Sequence[str] | None = None,
    equal: str = "params",
    budget: float | str | None = None,
    params: int | str | None = None,
    seeds: int | None = None,
    search: int | str | None = None,
    jobs: int | None = None,
    on: str = "local",
    part: str | None = None,
    valid: DataNames = (),
    tokenizer: str | None = None,
    pair: str | None = None,
    device: str = "auto",
    data_dir: str | None = None,
    out: str | os.PathLike[str] | None = None,
    command: str | None = None,
    log: str | None = None,
    progress: bool = True,
    **settings: Any,
) -> Race:
    """Train every model of the lineage (or `models`) on one task on equal terms, and compare them.

    `equal` says what ends each training: "params" (about as many parameters, the same steps), "tokens", "flops" or
    "seconds", and `budget` how much of it. Each model is trained with three `seeds` where a task or a ladder is named,
    and with one in the race of a minute that names none. Learning rates are the committed ones where every model has
    one; else all are searched alike. `search` is how many to try for each, or "committed". A stopped race goes on with
    the same call. `device` "cuda:0,1" spreads the trainings over GPUs, `on` "ray" or "ray=ADDRESS" over a Ray cluster
    (`jobs` are then those on a GPU), and `part` "1/4" runs a part, for `recollect report` to join. The page
    is written to `report.html` in `out`.

        >>> found = recollect.race("parity", models="gru,rnn", budget=2, seeds=1, jobs=1, out=folder, progress=False)
        >>> sorted(row["model"] for row in found.rows)
        ['gru', 'rnn']
    """
    from ..racing import run as races
    from ..racing.parts import read_part
    from ..racing.processes import count_cores
    from ..racing.workers import workers_of
    from ..report.pages import race as page
    from ..training.events import check_log
    from ..training.progress import Progress

    devices = device.split(",") if device.startswith("cuda:") and "," in device else []
    devices = [name if name.startswith("cuda") else f"cuda:{name}" for name in devices]
    where = "cuda" if [check_device(name) for name in devices] else check_device(device)
    heats, terms = set_terms(
        task, data, ladder=ladder, models=models, equal=equal, budget=budget, params=params, seeds=seeds, search=search,
        valid=valid, tokenizer=tokenizer, pair=pair, device=where, data_dir=data_dir, settings=settings,
    )  # fmt: skip
    terms = replace(terms, log=check_log(log))
    place = Path(out or f"races/{f'ladder-{ladder}' if ladder else task or 'memory'}")
    alone = where != "cpu" or equal == "seconds"  # others at work beside it would cost an entry its seconds
    at_once = read_count(jobs, "jobs") or max(len(devices), 1 if alone else count_cores())
    elsewhere = on != "local"
    if elsewhere:
        at_once = read_count(jobs, "jobs") or (1 if where != "cpu" else MOST_ON_CLUSTER)
        place = place.absolute()
    rows = races.run(
        heats,
        terms,
        place,
        title=heats[0].title if len(heats) == 1 else "Every memory of the lineage, where memory decides",
        command=command or shlex.join([Path(sys.argv[0]).name or "python", *sys.argv[1:]]),
        workers=workers_of(on, jobs=at_once, devices=devices, on_gpu=where != "cpu"),
        part=read_part(part),
        progress=Progress(quiet=not progress),
    )
    page.write(place)
    return Race(place, rows)


def set_terms(
    task: str | None,
    data: DataNames,
    *,
    ladder: str | None,
    models: str | Sequence[str] | None,
    equal: str,
    budget: float | str | None,
    params: int | str | None,
    seeds: int | None,
    search: int | str | None,
    valid: DataNames,
    tokenizer: str | None,
    pair: str | None,
    device: str,
    data_dir: str | None,
    settings: Mapping[str, Any],
) -> tuple[list[Any], Any]:
    """The heats and terms of a race, each checked as far as it can be before data are read."""
    from ..racing import heats as declared
    from ..racing.terms import Terms, with_models

    if ladder is not None:
        if task is not None or models is not None:
            raise SettingError("--ladder: expected neither a task nor --models with it; a ladder names its own")
        heats = [declared.ladders()[known("ladder", ladder, declared.ladders())]]
    elif task is not None:
        heats = [declared.heats()[known("task", task, declared.heats())]]
    else:
        heats = declared.default_heats()
    if models is not None:
        names = models.split(",") if isinstance(models, str) else models
        heats = [with_models(heat, [name.strip() for name in names]) for heat in heats]
    given = {"data": list_names(data), "valid": list_names(valid), "tokenizer": tokenizer, "pair": pair}
    terms = Terms(
        equal=equal,
        budget=read_number(budget, "budget"),
        params=read_count(params, "params"),
        seeds=read_count(seeds, "seeds") or (1 if task is None and ladder is None else SEEDS),
        settings={name: as_text(name, value) for name, value in settings.items()},
        data={name: value for name, value in given.items() if value},
        device=check_device(device),
        data_dir=data_dir,
        search=None if search == "committed" else read_count(search, "search"),
        committed=search == "committed",
    )
    return heats, terms


def as_text(name: str, value: Any) -> str:
    """A setting as `--set` has it: the entries of a race parse it for models with other settings."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return ",".join(as_text(name, each) for each in cast(Sequence[Any], value))
    raise SettingError(f"{name}: expected a number, a name, true or false, or a list, found {type(value).__name__}")
