"""A kit for diagrams: boxes, operators, grids and curves joined by arrows, as an SVG that follows light and dark pages.

Lengths are pixels, places are centres. A label may hold mathematics, `$h_{t-1}$`; every other word is said in the
diagram's language, from `words`. The picture is as large as what was drawn, so nothing is cut off.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from recollect.report.drawing.svg import escape, tag, width

from . import style, words

SIZE, SMALL = 17.0, 15.0  # of letters
MARGIN, GAP, HEAD = 18.0, 2.5, 9.0  # around the picture, between an arrow and what it points at, of an arrow's head
Point = tuple[float, float]


class Rect(NamedTuple):
    """Left, top, right and bottom."""

    left: float
    top: float
    right: float
    bottom: float


class Node(NamedTuple):
    """Something that arrows join: a box, a circle (`round`) or a word, by its centre and size."""

    x: float
    y: float
    w: float
    h: float
    round: bool = False

    @property
    def rect(self) -> Rect:
        return Rect(self.x - self.w / 2, self.y - self.h / 2, self.x + self.w / 2, self.y + self.h / 2)

    def at(self, across: float = 0.0, down: float = 0.0) -> Point:
        """A point in it: −1 is the left or upper border, 0 the middle, 1 the right or lower border."""
        return self.x + across * self.w / 2, self.y + down * self.h / 2

    def border(self, other: Point) -> Point:
        """Where an arrow from another point meets it, a little outside: straight down or across where it can."""
        x, y = other
        inside_x, inside_y = abs(x - self.x) < self.w / 2 - 2, abs(y - self.y) < self.h / 2 - 2
        if not self.round and (inside_x or inside_y):
            if inside_x:
                return x, self.y + math.copysign(self.h / 2 + GAP, y - self.y)
            return self.x + math.copysign(self.w / 2 + GAP, x - self.x), y
        dx, dy = x - self.x, y - self.y
        away = math.hypot(dx, dy) or 1.0
        if self.round:
            share = (self.w / 2 + GAP) / away
        else:
            share = min((side / 2 + GAP) / abs(d) for side, d in ((self.w, dx), (self.h, dy)) if d)
        return self.x + dx * share, self.y + dy * share


def spread(first: float, step: float, count: int) -> list[float]:
    """So many places, one step apart."""
    return [first + step * i for i in range(count)]


def runs(label: str) -> Iterator[tuple[str, str, int]]:
    """The parts of a line: text; class: "" prose, "m" letters of mathematics, "m n" signs; level: −1 below, 1 above."""
    for i, part in enumerate(label.split("$")):
        if i % 2 == 0:
            yield part, "", 0
            continue
        for raised, braced, single, flat in re.findall(r"([_^])(?:\{([^}]*)\}|(.))|([^_^]+)", part):
            level = {"_": -1, "^": 1, "": 0}[raised]
            for letters, signs in re.findall(r"([^\W\d_]+)|([\W\d]+)", braced or single or flat):
                yield letters or signs, "m" if letters else "m n", level


def measure(label: str, size: float = SIZE) -> float:
    """How wide a line will be, at most about."""
    return sum(
        width(text, size * (1.0 if not kind else 0.98 if not level else 0.72)) for text, kind, level in runs(label)
    )


class Diagram:
    """A drawing in one language; what is drawn later lies above."""

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self.parts: list[str] = []
        self.behind: list[str] = []  # frames
        self.texts: list[tuple[Rect, str]] = []  # the room of each line of text
        self.shapes: list[Node] = []
        self.frames: list[Node] = []
        self.routes: list[list[Point]] = []
        self.reach: list[Rect] = []

    def say(self, label: str) -> str:
        return words.say(label, self.language)

    def text(
        self, x: float, y: float, label: str, *, anchor: str = "middle", size: float = SIZE, look: str = ""
    ) -> Node:
        """Lines of text around a place; `look` has classes such as soft and bold."""
        lines = self.say(label).split("\n")
        widths = [measure(line, size) for line in lines]
        left = {"start": 0.0, "middle": -max(widths) / 2, "end": -max(widths)}[anchor]
        for i, (line, wide) in enumerate(zip(lines, widths, strict=True)):
            middle = y + (i - (len(lines) - 1) / 2) * size * 1.3
            spans, shift = [], 0.0
            for text, kind, level in runs(line):
                if text:
                    rise = (level < 0) * size * 0.22 - (level > 0) * size * 0.36
                    spans.append(
                        tag(
                            "tspan", escape(text), class_=kind or None, dy=rise - shift if rise != shift else None,
                            style=f"font-size:{size * 0.78:.1f}px" if level else None,
                        )
                    )  # fmt: skip
                    shift = rise
            inside = escape(line) if "$" not in line else "".join(spans)
            self.parts.append(
                tag(
                    "text", inside, x=float(x), y=middle + size * 0.35, class_=look or None,
                    text_anchor=None if anchor == "start" else anchor,
                    style=None if size == SIZE else f"font-size:{size:g}px",
                )
            )  # fmt: skip
            from_ = x + {"start": 0.0, "middle": -wide / 2, "end": -wide}[anchor]
            room = Rect(from_, middle - size * 0.45, from_ + wide, middle + size * 0.45)
            self.texts.append((room, line))
            self.reach.append(room)
        return Node(x + left + max(widths) / 2, y, max(widths), size * 1.3 * len(lines))

    def box(
        self, x: float, y: float, label: str = "", role: str = "plain", *, w: float = 0.0, h: float = 38.0,
        size: float = SIZE, corner: float = 7.0, look: str = "box",
    ) -> Node:  # fmt: skip
        """A box as wide as its label, or of a width that the label must fit in."""
        needed = max(measure(line, size) for line in self.say(label).split("\n")) if label else 0.0
        node = Node(x, y, w or max(needed + 22, h), h)
        if needed > node.w - 6:
            raise ValueError(f"{label!r} needs {needed:.0f} px, and its box has {node.w:.0f}")
        left, top, _, _ = node.rect
        shape = tag("rect", x=left, y=top, width=float(node.w), height=float(h), rx=corner, class_=f"{look} {role}")
        self.parts.append(shape)
        self._shape(node)
        if label:
            self.text(x, y, label, size=size)
        return node

    def circle(
        self, x: float, y: float, label: str = "", role: str = "plain", *, r: float = 16.0, look: str = "box"
    ) -> Node:
        """An operator (+, ×, σ) or a unit."""
        node = Node(x, y, 2 * r, 2 * r, True)
        self.parts.append(tag("circle", cx=float(x), cy=float(y), r=float(r), class_=f"{look} {role}"))
        self._shape(node)
        if label:
            self.text(x, y, label)
        return node

    def dot(self, x: float, y: float, role: str = "plain", r: float = 3.5) -> None:
        """Where a line forks, or a measured point."""
        self.parts.append(tag("circle", cx=float(x), cy=float(y), r=float(r), class_=f"full {role}"))
        self.reach.append(Node(x, y, 2 * r, 2 * r).rect)

    def bar(self, x: float, bottom: float, w: float, h: float, role: str) -> None:
        """A filled bar that stands on `bottom`."""
        size = {"x": x - w / 2, "y": bottom - h, "width": float(w), "height": float(h)}
        self.parts.append(tag("rect", **size, class_=f"full {role}"))
        self.reach.append(Node(x, bottom - h / 2, w, h).rect)

    def grid(
        self, x: float, y: float, rows: int, columns: int, cell: float, role: str = "plain", *,
        shade: Sequence[Sequence[float]] | None = None, texts: Sequence[Sequence[str]] | None = None,
        size: float = SMALL, wide: float = 0.0,
    ) -> Node:  # fmt: skip
        """A matrix; `shade`: how full each cell is (0 to 1); `texts`: what stands in it; `wide`: how wide cells are."""
        wide = wide or cell
        node = Node(x, y, columns * wide, rows * cell)
        left, top, _, _ = node.rect
        for i in range(rows):
            for j in range(columns):
                full = None if shade is None else f"fill-opacity:{0.04 + 0.8 * shade[i][j]:.2f}"
                place = {"x": left + j * wide, "y": top + i * cell, "width": float(wide), "height": float(cell)}
                self.parts.append(tag("rect", **place, class_=f"box {role}", style=full))
                if texts is not None and texts[i][j]:
                    self.text(left + (j + 0.5) * wide, top + (i + 0.5) * cell, texts[i][j], size=size)
        self._shape(node)
        return node

    def frame(self, rect: tuple[float, float, float, float]) -> Node:
        """A panel behind what is drawn."""
        left, top, right, bottom = rect
        node = Node((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)
        size = {"x": float(left), "y": float(top), "width": float(node.w), "height": float(node.h)}
        self.behind.append(tag("rect", **size, rx=12.0, class_="frame"))
        self.frames.append(node)
        self.reach.append(node.rect)
        return node

    def arrow(self, *stops: Node | Point, role: str = "plain", look: str = "", head: bool = True) -> None:
        """A line through all stops with rounded corners; where it begins or ends at a node, at the node's border."""
        points = [(stop.x, stop.y) if isinstance(stop, Node) else stop for stop in stops]
        for end, beside in ((0, 1), (-1, -2)):
            stop, towards = stops[end], stops[beside]
            if isinstance(stop, Node):
                other = points[beside]
                if isinstance(towards, Node):  # straight where the two face each other
                    if abs(stop.x - towards.x) < max(stop.w, towards.w) / 2 - 2:
                        other = (stop.x if stop.w < towards.w else towards.x, other[1])
                    elif abs(stop.y - towards.y) < max(stop.h, towards.h) / 2 - 2:
                        other = (other[0], stop.y if stop.h < towards.h else towards.y)
                points[end] = stop.border(other)
        self.routes.append(points)
        if head:
            (x0, y0), (x, y) = line = points[-2:]
            big = HEAD * (1.45 if "wide" in look else 1.0)
            dx, dy = ((b - a) / (math.dist(*line) or 1.0) * big for a, b in ((x0, x), (y0, y)))
            corners = (x, y), (x - dx - dy / 2, y - dy + dx / 2), (x - dx + dy / 2, y - dy - dx / 2)
            place = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
            self.parts.append(tag("polygon", points=place, class_=f"full {role}"))
            points = [*points[:-1], (x - 0.9 * dx, y - 0.9 * dy)]
        dashed = " dashed" if role == "gradient" else ""
        self.parts.append(tag("path", d=_rounded(points), class_=f"line {role}{dashed} {look}".rstrip()))
        self.reach += [Rect(x, y, x, y) for x, y in points]

    def line(self, *points: Node | Point, role: str = "plain", look: str = "") -> None:
        """An arrow without a head."""
        self.arrow(*points, role=role, look=look, head=False)

    def curve(self, points: Sequence[Point], role: str = "plain", look: str = "") -> None:
        """A line through many points."""
        place = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(tag("polyline", points=place, class_=f"line {role} {look}".rstrip()))
        self.reach += [Rect(x, y, x, y) for x, y in points]

    def _shape(self, node: Node) -> None:
        self.shapes.append(node)
        self.reach.append(node.rect)

    def svg(self, title: str, description: str) -> str:
        """The whole picture on a paper of its own, which follows the reader's light or dark."""
        lows, highs = zip(*((rect[:2], rect[2:]) for rect in self.reach), strict=True)
        left, top = (math.floor(min(low[i] for low in lows) - MARGIN) for i in (0, 1))
        wide, high = (math.ceil(max(end[i] for end in highs) + MARGIN) - (left, top)[i] for i in (0, 1))
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left} {top} {wide} {high}" width="{wide}"'
                f' height="{high}" role="img" lang="{self.language}" aria-label="{escape(title)}">',
                tag("title", escape(title)),
                tag("desc", escape(description)),
                style.sheet(),
                tag("rect", x=left, y=top, width=wide, height=high, rx=14, class_="paper"),
                *self.behind,
                *self.parts,
                "</svg>\n",
            )
        )


def _rounded(points: Sequence[Point], radius: float = 9.0) -> str:
    """A path through points, its corners rounded."""
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        near = [min(radius, math.dist(corner, end) / 2) / (math.dist(corner, end) or 1.0) for end in (before, after)]
        (x0, y0), (x1, y1) = (
            (corner[0] + share * (end[0] - corner[0]), corner[1] + share * (end[1] - corner[1]))
            for share, end in zip(near, (before, after), strict=True)
        )
        path.append(f"L{x0:.1f} {y0:.1f}Q{corner[0]:.1f} {corner[1]:.1f} {x1:.1f} {y1:.1f}")
    return "".join([*path, f"L{points[-1][0]:.1f} {points[-1][1]:.1f}"])
