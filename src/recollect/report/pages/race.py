"""The page of a race, from the files that a race leaves."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...core import numbers
from ...racing.summary import Summary, load, summarize
from ..drawing.looks import Keys
from . import page
from .heat import describe, share_looks

CARD = {"state": "STATE", "update": "UPDATE", "read": "READ", "grows": "grows", "fast": "fast form"}


def write(folder: Path) -> Path:
    """Make folder/report.html anew; returns its path."""
    return page.write(Path(folder) / "report.html", render(*load(Path(folder))))


def render(race: dict[str, Any], rows: Sequence[dict[str, Any]], *, inside: bool = False) -> str:
    """The whole page, or the part of one that is shown `inside` another, which brings style and script."""
    heats, keys = summarize(race, rows), Keys()
    for heat in heats:
        share_looks(heat, keys)
    standings = [standing for heat in heats for standing in heat.standings]
    return page.render(
        "race.html",
        frame="fragment.html" if inside else "page.html",
        title=heats[0].title if len(heats) == 1 else str(race.get("title") or "A race of memories"),
        command=race.get("command") or numbers.MISSING,
        keys=keys,
        models=len({standing.model for standing in standings}),
        heats=[describe(heat) for heat in heats],
        cards=_cards(rows),
        unequal=_unequal(heats),
        failed=_failed(heats),
    )


def _cards(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What each model is: its state, update and read."""
    cards: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.get("model"):
            cards[str(row["model"])] = row.get("card") or cards.get(str(row["model"]), {})
    found = []
    for model, card in cards.items():
        summary = str(card.get("summary") or "")
        if card.get("name") and card["name"] != model:
            summary = f"{summary} (layer: {card['name']})".strip()
        lines = [(head, card[key]) for key, head in CARD.items() if card.get(key)]
        found.append({"model": model, "summary": summary, "lines": lines})
    return found


def _unequal(heats: Sequence[Summary]) -> list[tuple[str, str, str]]:
    """Entrant, heat and reason, of those that are not comparable with the others."""
    return [
        (standing.name, heat.title, reason)
        for heat in heats
        for standing in heat.standings
        for reason in standing.unfair_sentences
    ]


def _failed(heats: Sequence[Summary]) -> list[tuple[str, str, Any, str]]:
    """Entrant, heat, seed and error, of runs without a result."""
    return [
        (
            standing.name,
            heat.title,
            row.get("seed", numbers.MISSING),
            row["error"] if isinstance(row.get("error"), str) else f"its {heat.metric.label} is no number",
        )
        for heat in heats
        for standing in heat.standings
        for row in standing.failed
    ]
