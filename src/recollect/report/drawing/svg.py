"""Scalable vector graphics as text: elements, words with a known width, and the marks that stand for names."""

import itertools
import math
import unicodedata
from typing import Any

from ...core.language import breakable
from .looks import Look

SIZE = 12.5  # of the letters in a chart
BOLD = 1.1  # times as wide are letters in bold
MARKS = (  # corners around the middle
    tuple((4 * math.cos(math.tau * i / 20), 4 * math.sin(math.tau * i / 20)) for i in range(20)),  # circle
    ((-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)),  # square
    ((0, -5), (5, 0), (0, 5), (-5, 0)),  # diamond
    ((0, -4.8), (4.6, 3.4), (-4.6, 3.4)),  # triangle
    ((0, 4.8), (4.6, -3.4), (-4.6, -3.4)),  # triangle on its tip
    (  # plus
        (-1.6, -4.6), (1.6, -4.6), (1.6, -1.6), (4.6, -1.6), (4.6, 1.6), (1.6, 1.6),
        (1.6, 4.6), (-1.6, 4.6), (-1.6, 1.6), (-4.6, 1.6), (-4.6, -1.6), (-1.6, -1.6),
    ),
    ((0, -5), (4.8, -1.5), (3, 4.1), (-3, 4.1), (-4.8, -1.5)),  # pentagon
    (  # cross
        (-4.4, -2.1), (-2.1, -4.4), (0, -2.3), (2.1, -4.4), (4.4, -2.1), (2.3, 0),
        (4.4, 2.1), (2.1, 4.4), (0, 2.3), (-2.1, 4.4), (-4.4, 2.1), (-2.3, 0),
    ),
)  # fmt: skip
EMS = {  # widths of letters
    letter: ems
    for letters, ems in (
        ("ijlI'|", 0.3), (" .,:;!\u00a0", 0.34), ("ftr()[]-/\\·", 0.41), ("csvxyz?kJ\"*", 0.58), ("mM%@…—W", 1.0),
        ("wQOGDNHU", 0.82), ("ABKPRVX&", 0.71), ("+−=<>×→←≤≥≠", 0.84),
    )
    for letter in letters
}  # fmt: skip
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
    """How wide a text will be, at most about: by the widths of DejaVu Sans, the widest of the usual fonts."""
    return sum(map(_ems, text)) * size


def _ems(letter: str) -> float:
    if letter in EMS:
        return EMS[letter]
    return 0.0 if unicodedata.combining(letter) else 1.0 if unicodedata.east_asian_width(letter) in "WF" else 0.64


def fitted(text: str, room: float, size: float = SIZE) -> str:
    """The text, or as much of it as there is room for and an ellipsis."""
    if width(text, size) <= room:
        return text
    filled = itertools.accumulate(map(_ems, text))
    text = text[: next((i + 1 for i, ems in enumerate(filled) if ems * size > room), None)]  # of a long text at once
    while text and width(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def wrapped(text: str, room: float, size: float = SIZE) -> list[str]:
    """The text in lines that fit, broken where it may be; a word that is too long by itself is shortened."""
    lines: list[str] = []
    for part in breakable(text):
        longer = lines[-1] + part if lines else part
        if lines and width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(part.lstrip())
    return [fitted(line, room, size) for line in lines]


def style_classes(look: Look) -> str:
    """The classes of a look: its colour, and whether its lines are dashed and its marks hollow."""
    return f"s{look.colour}" + (" again" if look.dashed else "")


def mark(x: float, y: float, look: Look, title: str = "", size: float = 1.0) -> str:
    inside = [tag("title", escape(title))] if title else []
    classes = f"mark {style_classes(look)}"
    points = " ".join(f"{x + size * dx:.1f},{y + size * dy:.1f}" for dx, dy in MARKS[look.mark])
    return tag("polygon", *inside, points=points, class_=classes)


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
