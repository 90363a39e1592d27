"""docs/races.md: the races in results/, each with its picture, its table and its command."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.core import numbers
from recollect.report.pages import race, standing
from recollect.report.pages.heat import Heat

SHOWN_FIRST = "race-memory"  # what `./recollect race` shows, and the README with it
COLUMNS = ("parameters", "tokens", "training", "bytes of state")


def folders(results: Path) -> list[Path]:
    """The races that are kept, the default one first, and of one name with several sizes the smaller first."""
    found = (path.parent for path in results.glob("*/race.json"))
    return sorted(found, key=lambda p: (p.name != SHOWN_FIRST, re.sub(r"\d+", lambda size: size[0].zfill(9), p.name)))


def pictures(results: Path) -> Iterator[tuple[str, str]]:
    """A file in docs/ for each race, and what is drawn in it."""
    for folder in folders(results):
        yield picture(folder), race.picture(folder)


def picture(folder: Path) -> str:
    return "race.svg" if folder.name == SHOWN_FIRST else f"{folder.name}.svg"


def page(results: Path) -> str:
    parts = [
        "# Races\n",
        "Made from the races in `results/` by `python -m tools.results`. Times of training are",
    ]
    parts.append("of several entries side by side, and of other work beside them on a GPU.\n")
    for folder in folders(results):
        about, rows = race.load(folder)
        for number, heat in enumerate(race.heats(about, rows)):
            parts += [f"## {heading(heat)}\n", heat.heat["question"] + "\n", heat.told() + "\n"]
            parts += [f"![{heading(heat)}]({picture(folder)})\n"] if not number else []
            parts.append(table(heat))
            parts += [f"- {note}" for note in heat.heat["notes"]]
            parts.append(f"\n`{about['command']}` on {machine(rows)}; rows in `results/{folder.name}`.\n")
    return "\n".join(parts)


def heading(heat: Heat) -> str:
    """The title, with the size of the models where one is set, since a heat may have been run at several."""
    params = heat.heat["terms"].get("params")
    return heat.title + (f" ({numbers.brief(params)} parameters)".replace(numbers.BLANK, " ") if params else "")


def machine(rows: list[dict[str, Any]]) -> str:
    """Where a race was run, each machine once."""
    found = [row["machine"] for row in rows]
    return " and ".join(dict.fromkeys(m["gpu"] or f"{m['cores']} CPU cores" for m in found))


def table(heat: Heat) -> str:
    """Rung by rung where there are rungs, with what each bought; else the best first."""
    rungs = heat.heat["rungs"]
    columns = ["rung", heat.metric.label, "bought"] if rungs else ["model", heat.metric.label]
    lines, before = ["| " + " | ".join([*columns, *COLUMNS]) + " |", "|---" * len([*columns, *COLUMNS]) + "|"], None
    for entry in [e for e in heat.entries if e.rows] if rungs else heat.ranked:
        bought = standing.gain(before, entry, heat.metric.better) if before and rungs else None
        reach = f" ({heat.metric.value(min(entry.values))} to {heat.metric.value(max(entry.values))})"
        counts = entry.average("entries")
        cells = [
            entry.name,
            heat.metric.value(entry.mean) + (reach if len(entry.values) > 1 else ""),
            *([heat.metric.step(bought.mean, sign=True) if bought else numbers.MISSING] if rungs else []),
            f"{counts:,.0f} counts" if counts else f"{entry.average('params'):,.0f}",
            numbers.count(entry.average("tokens")),
            numbers.duration(entry.average("seconds")),
            f"{entry.average('state_bytes'):,.0f}",
        ]
        lines.append("| " + " | ".join(cells).replace(numbers.BLANK, " ") + " |")
        before = entry
    return "\n".join(lines) + "\n"
