"""Scalable vector graphics as text: elements, words with a known width, and the marks that stand for names."""

import unicodedata
from typing import Any

from .colour import SERIES

SIZE = 12.5  # of the letters in a chart
MARKS = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",  # circle
    "M-3.6,-3.6h7.2v7.2h-7.2z",  # square
    "M0,-5L5,0L0,5L-5,0z",  # diamond
    "M0,-4.8L4.6,3.4H-4.6z",  # triangle
)
CONTROLS = [code for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"]
UNSEEN = dict.fromkeys((*CONTROLS, *range(0xD800, 0xE000)), 0xFFFD)  # what no page may hold


def escape(text: Any) -> str:
    """Any text, safe inside an element or an attribute; what cannot be shown is shown to be there."""
    text = str(text).replace("\r\n", "\n").translate(UNSEEN)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def tag(name: str, *inside: str, **attributes: Any) -> str:
    """An element; `class_` is class, and _ in a name is -. What is None is left out; numbers get one digit."""
    words = []
    for key, value in attributes.items():
        if value is not None:
            value = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escape(value)
            words.append(f' {key.rstrip("_").replace("_", "-")}="{value}"')
    return f"<{name}{''.join(words)}>{''.join(inside)}</{name}>"


def words(
    x: float, y: float, text: str, class_: str = "word", anchor: str | None = None, turn: float | None = None
) -> str:
    """A text at a place, turned by so many degrees around it."""
    turned = None if turn is None else f"rotate({turn:g} {x:.1f} {y:.1f})"
    return tag("text", escape(text), x=float(x), y=float(y), class_=class_, text_anchor=anchor, transform=turned)


def width(text: str, size: float = SIZE) -> float:
    """How wide a text will be, about: wide letters count one em, others a little over half."""
    ems = sum(
        0.0 if unicodedata.combining(c) else 1.0 if unicodedata.east_asian_width(c) in "WF" else 0.57 for c in text
    )
    return ems * size


def fitted(text: str, room: float, size: float = SIZE) -> str:
    """The text, or as much of it as there is room for and an ellipsis."""
    if width(text, size) <= room:
        return text
    while text and width(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def style_classes(key: int) -> str:
    """The classes of a name's colour; beyond the number of colours its lines are dashed and its marks hollow."""
    return f"s{key % len(SERIES)}" + (" again" if key >= len(SERIES) else "")


def mark(x: float, y: float, key: int, title: str = "") -> str:
    inside = tag("title", escape(title)) if title else ""
    place = f"translate({x:.1f},{y:.1f})"
    return tag("path", inside, d=MARKS[key % len(MARKS)], transform=place, class_=f"mark {style_classes(key)}")


def picture(*inside: str, width: float, height: float, title: str, description: str, class_: str = "") -> str:
    """The whole: a name and a description for those who do not see it."""
    head = tag("title", escape(title)) + tag("desc", escape(description))
    return tag(
        "svg",
        head,
        *inside,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=round(width),
        height=round(height),
        role="img",
        aria_label=f"{title}. {description}",
        class_=f"chart {class_}".rstrip(),
    )
