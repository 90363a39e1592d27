"""One self-contained page: real text, charts drawn into it, light and dark, for screen, phone and paper."""

import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ..drawing import chart as charts
from ..drawing import colour
from ..drawing.svg import escape, tag

FULL, HALF, PHONE = 860, 416, 328  # widths at which a chart is drawn; the page shows the one that fits
TOGGLE = (
    "const b=document.getElementById('theme'),r=document.documentElement,"
    "m=matchMedia('(prefers-color-scheme: dark)');let d=m.matches;"
    "const s=()=>{b.textContent=d?'Light page':'Dark page'};"
    "b.hidden=false;s();b.onclick=()=>{d=!d;r.style.colorScheme=d?'dark':'light';s()};"
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


class Once:
    """Explains a word where it first stands, and not again."""

    def __init__(self) -> None:
        self.said: set[str] = set()

    def __call__(self, text: str) -> str:
        if not text or text in self.said:
            return ""
        self.said.add(text)
        return text


def document(title: str, *body: str) -> str:
    """The whole page. It asks nothing of any other place, and its policy holds a browser to that."""
    style = resources.files("recollect.report.pages").joinpath("style.css").read_text(encoding="utf-8")
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title>"
        f"<style>:root{{{colour.variables()}}}\n{style}{charts.stylesheet()}</style>"
    )
    button = '<button id="theme" type="button" hidden>Dark page</button>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{button}<main>\n'
        + "\n".join(part for part in body if part)
        + f"\n</main><script>{TOGGLE}</script></body></html>\n"
    )


def write(path: Path, text: str) -> Path:
    """Beside its place first, then renamed: a reader finds the old page or the new one."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def anchor(*words: str) -> str:
    """An id made of any words: what is no plain letter or digit becomes its number."""
    text = "-".join(words).lower()
    return "".join(c if c.isascii() and (c.isalnum() or c == "-") else "-" if c == " " else f"_{ord(c)}" for c in text)


def link(text: str, target: str) -> str:
    return tag("a", escape(text), href=f"#{target}")


def section(heading: str, *parts: str, level: int = 2, id_: str | None = None) -> str:
    """Nothing where there is nothing to say under the heading."""
    inside = [part for part in parts if part]
    return tag("section", tag(f"h{level}", escape(heading)), *inside, id=id_) if inside else ""


def prose(text: Any) -> str:
    """A text in which `words` between such marks are code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text or ""))


def say(*sentences: str, class_: str | None = None) -> str:
    """A paragraph of sentences that are HTML already; empty ones are left out."""
    text = " ".join(sentence for sentence in sentences if sentence)
    return tag("p", text, class_=class_) if text else ""


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    label: str,
    right: Iterable[int] = (),
    class_: str = "",
    stacked: bool = False,
) -> str:
    """Cells are HTML already. The first column names its row.

    A table too wide scrolls by itself; a stacked one puts its cells below each other on a phone, with their names.
    """
    right = set(right)
    head = [tag("th", escape(name), scope="col", class_="n" if i in right else None) for i, name in enumerate(columns)]
    body = []
    for row in rows:
        cells = [tag("th", row[0], scope="row", class_="n" if 0 in right else None)]
        cells += [
            tag("td", cell, class_="n" if i in right else None, data_name=columns[i] if stacked else None)
            for i, cell in enumerate(row[1:], 1)
        ]
        body.append(tag("tr", *cells))
    inside = tag(
        "table",
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
        class_=f"{class_} stacked" if stacked else class_ or None,
    )
    return tag("div", inside, class_="scroll", role="region", aria_label=label, tabindex=0)


def figure(chart: dict[str, Any], keys: colour.Keys, note: str = "", *, half: bool = False) -> str:
    """A chart under its title, drawn twice: for the page's width and for a phone's."""
    caption = tag("figcaption", tag("strong", escape(chart["title"])), f" {note}" if note else "")
    drawn = "".join(
        tag("div", charts.inline(chart, wide, keys), class_=name)
        for name, wide in (("wide", HALF if half else FULL), ("phone", PHONE))
    )
    return tag("figure", caption, drawn)


def pair(*figures: str) -> str:
    """Side by side where there is room."""
    return tag("div", *figures, class_="pair") if any(figures) else ""


def pairs(items: Iterable[tuple[str, str]], class_: str | None = None) -> str:
    """Names and what they stand for; both HTML already."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", text)) for name, text in items), class_=class_)


def machine(found: Any) -> str:
    """The parts of a machine in a line; what it has not is left out."""
    if not isinstance(found, dict):
        return escape(found or "")
    parts = [
        f"{value} {key if value != 1 else key[:-1]}"
        if key in ("cores", "threads")
        else f"{key} {value}"
        if key in ("python", "torch")
        else str(value)
        for key, value in found.items()
        if value is not None
    ]
    return escape(", ".join(parts))
