"""What the models said: a text that each went on with, or answers beside what was asked for."""

from collections.abc import Sequence
from typing import Any

from ..drawing.svg import escape, tag
from . import page
from .standing import Entry

MOST = 4  # sources that are shown


def section(entries: Sequence[Entry]) -> str:
    texts: list[tuple[Entry, dict[str, Any]]] = []
    answers: list[tuple[Entry, list[dict[str, Any]]]] = []
    for entry in entries:
        sample = next((row["sample"] for row in entry.rows if row.get("sample")), None)
        if isinstance(sample, dict):
            texts.append((entry, sample))
        elif sample:
            answers.append((entry, sample))
    told = "The first that there are, from the first seed of each: nobody chose them."
    return page.section(
        "What they say", page.say(told) if texts or answers else "", _texts(texts), _answers(answers), level=3
    )


def _texts(found: Sequence[tuple[Entry, dict[str, Any]]]) -> str:
    if not found:
        return ""
    parts = [page.say("In grey what was given, then how the model went on.", class_="note")]
    for entry, sample in found:
        prompt = str(sample.get("prompt") or "")
        given = tag("span", escape(prompt), class_="given")
        said = tag("div", given, escape(str(sample.get("text") or "").removeprefix(prompt)), class_="said mono")
        parts.append(tag("div", tag("h4", escape(entry.name)), said, class_="saying"))
    return "".join(parts)


def _answers(found: Sequence[tuple[Entry, list[dict[str, Any]]]]) -> str:
    """By what was asked, so that the models stand beneath each other; ✓ where an answer is right."""
    asked: dict[tuple[str, str], list[tuple[str, str, bool]]] = {}
    for entry, sample in found:
        for one in sample:
            question = str(one.get("source") or ""), str(one.get("reference") or "")
            output = str(one.get("output") or "")
            asked.setdefault(question, []).append((entry.name, output, one.get("right", output == question[1])))
    parts = []
    for (source, reference), outputs in list(asked.items())[:MOST]:
        rows = [["asked for", escape(reference)]] if reference else []
        for name, output, right in outputs:
            sign = f' <span class="holds">✓{_hidden("right")}</span>' if right else ""
            rows.append([escape(name), (escape(output) or "<em>nothing</em>") + sign])
        parts.append(tag("div", tag("h4", escape(source)), page.pairs((a, b) for a, b in rows), class_="saying"))
    return "".join(parts)


def _hidden(text: str) -> str:
    return tag("span", text, class_="heard")
