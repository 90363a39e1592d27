"""The page of the claims: a verdict for each sentence of the books, and what was measured to reach it."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...core import numbers
from ...core.language import localize
from ..drawing.looks import Keys
from . import page

MANY = 24  # numbers of a list that are written out


class Verdict(NamedTuple):
    """How a verdict is shown."""

    sign: str
    style: str
    meaning: str


VERDICTS = {
    "holds": Verdict("✓", "holds", "the effect is there, and larger than the spread over seeds"),
    "holds within limits": Verdict("◐", "limits", "it is there under conditions that are named"),
    "does not hold here": Verdict("✗", "fails", "the experiment shows the opposite, or nothing"),
    "undecided at this size": Verdict("?", "undecided", "the effect is smaller than the spread over seeds"),
    "not learnt": Verdict("–", "unlearnt", "a model did not learn even the easiest case, so nothing was compared"),
}


def write(results: Sequence[dict[str, Any]], path: Path) -> None:
    page.write(Path(path), render(results))


def render(results: Sequence[dict[str, Any]]) -> str:
    results = sorted(results, key=lambda result: result.get("chapter") or math.inf)  # as the course goes
    verdicts = [result["verdict"] for result in results]
    counted = [(name, verdicts.count(name)) for name in dict.fromkeys((*VERDICTS, *verdicts))]
    keys = share_colours(results)
    return page.render(
        "claims.html",
        title="What the books say, tried",
        verdicts=VERDICTS,
        counts="; ".join(f"{count} {localize(name)}" for name, count in counted if count),
        claims=[_describe(result) for result in results],
        keys=keys,
        colours_of=lambda chart: keys.within(_names(chart)),
    )


def _describe(result: dict[str, Any]) -> dict[str, Any]:
    """What the template shows of one claim."""
    how = "computed, the same each time, and asserted in the tests" if result.get("deterministic") else ""
    effort = f"{result['effort']} form" if result.get("effort") else ""
    took = numbers.duration(result.get("seconds")) if numbers.known(result.get("seconds")) else ""
    return {
        **{key: result[key] for key in ("id", "statement", "verdict", "summary")},
        "note": result.get("note"),
        "figures": _group_charts(result.get("charts") or []),
        "facts": [
            ("said in", result.get("sources") or []),
            ("experiment", page.mark_code(localize(result.get("experiment") or ""))),
            ("decided by", page.mark_code(localize(result.get("decided") or ""))),
            ("kind", localize(how)),
            ("code", result.get("commit") or ""),
            ("machine", page.describe_machine(result.get("machine"))),
            ("run", ", ".join(word for word in (localize(effort), took) if word)),
        ],
        "numbers": list(_flatten(result.get("figures") or {})),
    }


def share_colours(results: Sequence[dict[str, Any]]) -> Keys:
    """Names that several claims use look alike in all of them; those of one claim need not be kept apart."""
    names = Counter(name for result in results for name in {n for c in result.get("charts") or [] for n in _names(c)})
    keys = Keys()
    keys.together([name for name, count in sorted(names.items(), key=lambda item: (-item[1], item[0])) if count > 1])
    return keys


def _names(chart: dict[str, Any]) -> list[str]:
    return [str(line["name"]) for line in chart.get("lines") or []]


def _group_charts(charts: Sequence[dict[str, Any]]) -> list[tuple[bool, list[dict[str, Any]]]]:
    """Charts, and maps that follow each other, which stand side by side."""
    return [(maps, list(group)) for maps, group in itertools.groupby(charts, lambda chart: "values" in chart)]


def _flatten(figures: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every number with the path to it."""
    if isinstance(figures, dict):
        for key, value in figures.items():
            yield from _flatten(value, f"{name} · {key}" if name else str(key))
    elif isinstance(figures, list) and any(isinstance(one, dict | list) for one in figures):
        for i, value in enumerate(figures):
            yield from _flatten(value, f"{name} · {i + 1}")
    elif isinstance(figures, list):
        rest = f" … ({len(figures)} in all)" if len(figures) > MANY else ""
        yield name, ", ".join(map(_write, figures[:MANY])) + rest
    else:
        yield name, _write(figures)


def _write(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
