"""A race's page, from the files that a race leaves: race.json (what was asked), results.jsonl (what came of it)."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...core import numbers
from ..drawing import chart
from ..drawing.colour import Keys
from ..drawing.svg import escape, tag
from . import explain, page
from .heat import Heat
from .page import Once, link, say, section, table

CARD = ("state", "update", "read", "grows", "fast")
HEADS = {"state": "STATE", "update": "UPDATE", "read": "READ", "grows": "grows", "fast": "fast form"}


def write(folder: Path) -> Path:
    """Make folder/report.html anew; returns where it is."""
    race, rows = load(Path(folder))
    return page.write(Path(folder) / "report.html", render(race, rows))


def picture(folder: Path) -> str:
    """The main picture of the first heat as an SVG of its own."""
    race, rows = load(Path(folder))
    found = heats(race, rows)
    if not found or not found[0].ranked:
        raise ValueError(f"{folder}: expected a heat with a finished entry to draw, found none; run the race on")
    return chart.standalone(found[0].dots() | {"title": found[0].title}, keys=found[0].keys)


def verdicts(folder: Path) -> dict[str, str]:
    """Who won each heat, in plain words."""
    return {heat.name: heat.told() for heat in heats(*load(Path(folder)))}


def load(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What was asked, and the rows; no rows where the race has only begun."""
    try:
        race = json.loads((folder / "race.json").read_bytes())
    except FileNotFoundError:
        raise ValueError(
            f"{folder}: expected a race's folder with race.json in it, found none; name the --out of a race"
        ) from None
    except ValueError as error:
        raise ValueError(f"{folder / 'race.json'}: expected JSON, found none ({error})") from None
    if not isinstance(race, dict) or not all(isinstance(h, dict) and h.get("name") for h in race.get("heats") or [{}]):
        raise ValueError(
            f"{folder / 'race.json'}: expected what a race was asked, with its heats, found something else"
        )
    path, rows = folder / "results.jsonl", []
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            rows += [dict(json.loads(line))] if line.strip() else []
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number}: expected a JSON object, found none ({error}); delete that line"
            ) from None
    return race, rows


def heats(race: dict[str, Any], rows: Sequence[dict[str, Any]]) -> list[Heat]:
    """The heats that belong to one page: they share colours, and explain a word once."""
    keys, once = Keys(), Once()
    return [Heat(heat, rows, keys, once) for heat in race["heats"]]


def render(race: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    found = heats(race, rows)
    title = str(race.get("title") or "A race of memories")
    return page.document(
        title,
        tag("h1", escape(title)),
        _short(race, found),
        *(heat.sections() for heat in found),
        _cards(rows),
        _unequal(found),
        _trace(race, found),
    )


def _short(race: dict[str, Any], found: Sequence[Heat]) -> str:
    """The whole page in a few sentences."""
    models = {entry.model for heat in found for entry in heat.entries}
    forms = {entry.name for heat in found for entry in heat.entries}
    said = f"{len(models)} models that remember a sequence in different ways, on the same data and on equal terms."
    if len(models) == 1:
        same = f", in {len(forms)} forms on the same data and on equal terms" if len(forms) > 1 else ""
        said = f"One model that remembers a sequence{same}."
    if not models:
        said = "No run has ended yet: this page says what is asked, and fills as runs end and it is made anew."
    answers = [tag("li", f"{link(heat.title, heat.id)}: {heat.answer()}") for heat in found]
    ends = [link("each memory on a card", "cards"), link("what was not equal, and what failed", "unequal")]
    ends.append(link("how to trace every number", "trace"))
    return (
        say(escape(said), class_="lead")
        + tag("ul", *answers, class_="short")
        + say("Further down: " + "; ".join(ends if models else ends[1:]) + ".", class_="note")
    )


def _cards(rows: Iterable[dict[str, Any]]) -> str:
    cards: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.get("model"):
            cards[str(row["model"])] = row.get("card") or cards.get(str(row["model"]), {})
    parts = []
    for model, card in cards.items():
        lines = [(HEADS[key], tag("span", escape(card[key]), class_="mono")) for key in CARD if card.get(key)]
        behind = str(card.get("summary") or "")
        if card.get("name") and card["name"] != model:
            behind = f"{behind} (layer: {card['name']})".strip()
        inside = page.pairs(lines) if lines else say("No card came with its rows.", class_="note")
        note = say(escape(behind), class_="note")
        parts.append(tag("div", tag("h3", escape(model)), note, inside, class_="card", id=page.anchor("card", model)))
    if not parts:
        return ""
    return section("Each memory on a card", say(explain.CARD), tag("div", *parts, class_="cards"), id_="cards")


def _unequal(found: Sequence[Heat]) -> str:
    marked, failed = [], []
    for heat in found:
        for entry in heat.entries:
            who = f"<strong>{escape(entry.name)}</strong> ({escape(heat.title)})"
            marked += [tag("li", f"{who}: {escape(reason)}") for reason in entry.unfair]
            for row in entry.failed:
                why = row["error"] if isinstance(row.get("error"), str) else f"its {heat.metric.label} is no number"
                failed.append(tag("li", f"{who}, seed {escape(row.get('seed', numbers.MISSING))}: {escape(why)}"))
    return section(
        "What was not equal, and what failed",
        say("Not on the same terms as the others, marked † above:" if marked else "No entry was marked as unequal."),
        tag("ul", *marked) if marked else "",
        say("Ended without a result:" if failed else "No entry failed."),
        tag("ul", *failed) if failed else "",
        id_="unequal",
    )


def _trace(race: dict[str, Any], found: Sequence[Heat]) -> str:
    """Every row, so that a number above can be followed to the run that gave it."""
    whole = [("command", tag("code", escape(race.get("command") or numbers.MISSING)))]
    parts = [
        say(
            "Every number on this page comes from a row of <code>results.jsonl</code>, beside this file; a row is one "
            "run, and can be had again with its command, code (commit), machine and seed."
        ),
        page.pairs(whole),
    ]
    for heat in found:
        rows = [row for entry in heat.entries for row in (*entry.rows, *entry.failed)]
        facts = [
            ("rule", _unique(escape((row.get("metric") or {}).get("rule") or "") for row in rows)),
            ("data", _unique(_data(row) for row in rows)),
            ("code", _unique(escape(row.get("commit") or "") for row in rows)),
            ("machine", _unique(page.machine(row.get("machine")) for row in rows)),
            ("search", _unique(_facts(row.get("search")) for row in rows)),
        ]
        columns = [
            "entry",
            "seed",
            heat.metric.label,
            "learning rate",
            "parameters",
            "tokens",
            "FLOPs",
            "seconds",
            "memory",
        ]
        columns += ["run"]
        lines = [_line(heat, entry.name, row) for entry in heat.entries for row in (*entry.rows, *entry.failed)]
        inside = [
            page.pairs((name, text) for name, text in facts if text),
            table(columns, lines, label=f"{heat.title}: all runs", right=range(1, 9), class_="trace"),
        ]
        parts.append(section(heat.title, *inside, level=3) if rows else "")
    return section("How to trace every number", *parts, id_="trace")


def _line(heat: Heat, name: str, row: dict[str, Any]) -> list[str]:
    value = (row.get("metric") or {}).get("value")
    rate = ((row.get("settings") or {}).get("train") or {}).get("lr")
    exact = [row.get(key) for key in ("params", "tokens")]
    return [
        escape(name),
        escape(row.get("seed", numbers.MISSING)),
        f"{value:.6g}" if numbers.known(value) else "failed",
        f"{rate:g}" if numbers.known(rate) else numbers.MISSING,
        *(f"{number:,.0f}" if numbers.known(number) else numbers.MISSING for number in exact),
        numbers.flops(row.get("flops")),
        f"{row['seconds']:,.1f}" if numbers.known(row.get("seconds")) else numbers.MISSING,
        numbers.size(row.get("peak_bytes")),
        tag("code", escape(row.get("run") or row.get("command") or numbers.MISSING)),
    ]


def _unique(texts: Iterable[str]) -> str:
    return "<br>".join(dict.fromkeys(text for text in texts if text))


def _data(row: dict[str, Any]) -> str:
    return escape(", ".join(str(row[key]) for key in ("data", "split") if row.get(key)))


def _facts(found: Any) -> str:
    return escape("; ".join(f"{key} {value}" for key, value in found.items())) if isinstance(found, dict) else ""
