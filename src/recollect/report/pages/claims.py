"""The page of the claims: a verdict for each sentence of the books, and what was measured to reach it."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core import numbers
from ..drawing.colour import Keys
from ..drawing.svg import escape, tag
from . import page
from .page import link, say, section

TITLE = "What the books say, tried"
VERDICTS = {  # how each is shown: a sign, a class, what it means
    "holds": ("✓", "holds", "the effect is there, and larger than the spread over seeds"),
    "holds within limits": ("◐", "limits", "it is there under conditions that are named"),
    "does not hold here": ("✗", "fails", "the experiment shows the opposite, or nothing"),
    "undecided at this size": ("?", "undecided", "the effect is smaller than the spread over seeds"),
}
FAILED = ("!", "fails")  # an experiment that broke has no verdict
MANY = 24  # numbers of a list that are written out


def write(results: Sequence[dict[str, Any]], path: Path) -> None:
    page.write(Path(path), render(results))


def render(results: Sequence[dict[str, Any]]) -> str:
    keys = shared(results)
    return page.document(
        TITLE,
        tag("h1", escape(TITLE)),
        say(
            f"{len(results)} claims that textbooks and papers make about how networks remember, each with the "
            "smallest clean experiment that can decide it. Thresholds stand in each claim's file, which also says "
            "where something was changed after a first result; a claim that fails is shown as failing.",
            class_="lead",
        ),
        _summary(results),
        *(_claim(result, keys) for result in results),
    )


def _summary(results: Sequence[dict[str, Any]]) -> str:
    meanings = [(badge(verdict), f"{meaning}.") for verdict, (_, _, meaning) in VERDICTS.items()]
    verdicts = [result["verdict"] for result in results]
    counted = [(name, verdicts.count(name)) for name in dict.fromkeys((*VERDICTS, *verdicts))]
    told = "; ".join(f"{count} {name}" for name, count in counted if count)
    rows = [
        [
            link(result["id"], page.anchor("claim", result["id"])),
            page.prose(result["statement"]),
            badge(result["verdict"]),
            page.prose(result["summary"]),
        ]
        for result in results
    ]
    return section(
        "The verdicts",
        say(f"<strong>{escape(told)}.</strong>" if told else ""),
        page.pairs(meanings, class_="meanings"),
        page.table(
            ["claim", "what is said", "verdict", "what was found"],
            rows,
            label="Verdicts",
            class_="verdicts",
            stacked=True,
        ),
        id_="verdicts",
    )


def badge(verdict: str) -> str:
    sign, class_ = VERDICTS.get(verdict, FAILED)[:2]
    return tag("span", tag("span", f"{sign} ", aria_hidden="true"), escape(verdict), class_=f"badge {class_}")


def _claim(result: dict[str, Any], keys: Keys) -> str:
    sources = "<br>".join(escape(source) for source in result.get("sources") or [])
    how = "computed, the same each time, and asserted in the tests" if result.get("deterministic") else ""
    effort = " ".join(
        word for word in (str(result.get("effort") or ""), "form" if result.get("effort") else "") if word
    )
    took = numbers.duration(result.get("seconds")) if numbers.known(result.get("seconds")) else ""
    facts = [
        ("said in", sources),
        ("experiment", page.prose(result.get("experiment"))),
        ("decided by", page.prose(result.get("decided"))),
        ("kind", how),
        ("code", escape(result.get("commit") or "")),
        ("machine", page.machine(result.get("machine"))),
        ("run", escape(", ".join(word for word in (effort, took) if word))),
    ]
    return section(
        result["id"],
        say(page.prose(result["statement"]), class_="answer"),
        say(badge(result["verdict"]) + ".", page.prose(result["summary"])),
        say(page.prose(result.get("note")), class_="note"),
        *_figures(result.get("charts") or [], keys),
        page.pairs((name, text) for name, text in facts if text),
        _measured(result),
        say(link("Back to the verdicts", "verdicts"), class_="note"),
        id_=page.anchor("claim", result["id"]),
    )


def shared(results: Sequence[dict[str, Any]]) -> Keys:
    """Names that several claims speak of look alike in all of them; those of one claim need not be kept apart."""
    names = Counter(name for result in results for name in {n for c in result.get("charts") or [] for n in _names(c)})
    keys = Keys()
    keys.together([name for name, count in sorted(names.items(), key=lambda item: (-item[1], item[0])) if count > 1])
    return keys


def _names(chart: dict[str, Any]) -> list[str]:
    return [str(line["name"]) for line in chart.get("lines") or []]


def _figures(charts: Sequence[dict[str, Any]], keys: Keys) -> Iterator[str]:
    """Charts below each other; maps that follow each other side by side."""
    for are_maps, group in itertools.groupby(charts, lambda chart: "values" in chart):
        if are_maps:
            yield page.pair(*(page.figure(chart, keys, half=True) for chart in group))
        else:
            yield from (page.figure(chart, keys.within(_names(chart))) for chart in group)


def _measured(result: dict[str, Any]) -> str:
    """Every number, folded away."""
    found = list(_flat(result.get("figures") or {}))
    if not found:
        return ""
    inside = page.table(
        ["figure", "value"], [[escape(name), escape(text)] for name, text in found], label=f"{result['id']}: figures"
    )
    return tag("details", tag("summary", "Every number that was measured"), inside)


def _flat(figures: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(figures, dict):
        for key, value in figures.items():
            yield from _flat(value, f"{name} · {key}" if name else str(key))
    elif isinstance(figures, list) and any(isinstance(one, dict | list) for one in figures):
        for i, value in enumerate(figures):
            yield from _flat(value, f"{name} · {i + 1}")
    elif isinstance(figures, list):
        rest = f" … ({len(figures)} in all)" if len(figures) > MANY else ""
        yield name, ", ".join(map(_plain, figures[:MANY])) + rest
    else:
        yield name, _plain(figures)


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
