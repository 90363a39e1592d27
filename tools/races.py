"""docs/races.md: the races in results/, each with its picture, its table and its command."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.core import numbers
from recollect.core.language import language, localize
from recollect.racing.summary import Summary, load, measure_gain, summarize
from recollect.report.drawing import chart
from recollect.report.drawing.looks import Keys
from recollect.report.pages.charts import draw_results
from recollect.report.pages.heat import share_looks, split_baselines

from .claims import join_sentences

SHOWN_FIRST = "race-memory"  # what `./recollect race` shows, and the README with it
COLUMNS = ("parameters", "tokens", "training", "bytes of state")


def folders(results: Path) -> list[Path]:
    """The races that are kept, the default one first, and of one name with several sizes the smaller first."""
    found = (path.parent for path in results.glob("*/race.json"))
    return sorted(found, key=lambda p: (p.name != SHOWN_FIRST, re.sub(r"\d+", lambda size: size[0].zfill(9), p.name)))


def pictures(results: Path) -> Iterator[tuple[str, str]]:
    """A file in docs/ for each race, and the SVG in it."""
    for folder in folders(results):
        yield picture_name(folder), picture(folder)


def picture(folder: Path) -> str:
    """The results of the first heat as an SVG file."""
    heats, keys = summarize(*load(folder)), Keys()
    if not heats or not heats[0].ranked:
        raise ValueError(f"{folder}: expected a heat with a finished entry to draw, found none; run the race on")
    for heat in heats:
        share_looks(heat, keys)
    near, _ = split_baselines(heats[0])
    return chart.standalone(draw_results(heats[0], near) | {"title": heats[0].title}, keys=keys)


def picture_name(folder: Path) -> str:
    end = "svg" if language() == "en" else f"{language()}.svg"
    return f"race.{end}" if folder.name == SHOWN_FIRST else f"{folder.name}.{end}"


def page(results: Path) -> str:
    about = [
        "Made from the races in `results/` by `python -m tools.results`.",
        "Times of training are of entries with other work beside them on the same machine.",
    ]
    parts = [f"# {localize('Races')}\n", join_sentences(map(localize, about)) + "\n"]
    for folder in folders(results):
        about, rows = load(folder)
        for number, heat in enumerate(summarize(about, rows)):
            parts += [f"## {heading(heat)}\n", localize(heat.heat["question"]) + "\n", heat.told() + "\n"]
            parts += [f"![{heading(heat)}]({picture_name(folder)})\n"] if not number else []
            parts.append(table(heat))
            parts += [f"- {localize(note)}" for note in heat.notes]
            made = localize(f"`{about['command']}` on {machine(rows)}; rows in `results/{folder.name}`.")
            parts.append(f"\n{made} {localize(rules(heat))}\n")
    return "\n".join(parts)


def rules(heat: Summary) -> str:
    """By which rules a heat was run: its rows say which part their figures are of, and how many seeds there are."""
    rows = [row for standing in heat.standings for row in standing.rows]
    seeds = len({row["seed"] for row in rows})
    place = "decisions/021-fair-races.md"
    if all(row.get("split") == "test" for row in rows):
        return f"Rules of [021]({place}): weights by validation, figures of the test part; seeds: {seeds}."
    return f"Rules before [021]({place}): weights by validation, figures of it too; seeds: {seeds}."


def heading(heat: Summary) -> str:
    """The title, with the size of the models where one is set, since a heat may have been run at several."""
    params = heat.terms.get("params")
    size = f" ({numbers.brief(params)} parameters)".replace(numbers.BLANK, " ") if params else ""
    return localize(heat.title + size) if size else localize(heat.title)


def machine(rows: list[dict[str, Any]]) -> str:
    """Where a race was run, each machine once."""
    found = [row["machine"] for row in rows]
    return " and ".join(dict.fromkeys(m["gpu"] or f"{m['cores']} CPU cores" for m in found))


def table(heat: Summary) -> str:
    """Rung by rung where there are rungs, with what each bought; else the best first."""
    metric, rungs = heat.metric, bool(heat.rungs)
    columns = ["rung", metric.label, "bought"] if rungs else ["model", metric.label]
    columns = [*map(localize, [*columns, *COLUMNS])]
    lines, before = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"], None
    for standing in [s for s in heat.standings if s.rows] if rungs else heat.ranked:
        gain = measure_gain(before, standing, metric.better) if rungs else None
        values = standing.values
        spread = f" ({metric.write(min(values))} to {metric.write(max(values))})" if len(values) > 1 else ""
        counts = standing.average("entries")
        cells = [
            standing.name,
            metric.write(standing.mean) + spread,
            *([metric.write_difference(gain.mean, sign=True) if gain else numbers.MISSING] if rungs else []),
            f"{counts:,.0f} counts" if counts else f"{standing.average('params'):,.0f}",
            numbers.count(standing.average("tokens")),
            numbers.duration(standing.average("seconds")),
            f"{standing.average('state_bytes'):,.0f}",
        ]
        cells = [cells[0], *map(localize, cells[1:])]
        lines.append("| " + " | ".join(cells).replace(numbers.BLANK, " ") + " |")
        before = standing
    return "\n".join(lines) + "\n"
