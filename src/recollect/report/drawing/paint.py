"""A drawn figure as a file of pixels or a page of print: the elements of its SVG, painted by matplotlib one by one.

What a page shows and what a paper prints are so drawn by the same code. Only what `svg` writes is understood here.
"""

import base64
import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from xml.etree import ElementTree

from . import figure
from .svg import SIZE, width

SPACE = "{http://www.w3.org/2000/svg}"
SMOOTHED = 512  # pixels of an image's side, below which readers of PDF would smooth its cells
PLAIN = {"fill": "#000", "stroke": "none", "color": "#000"}
ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def paint(
    drawn: str, style: str, path: str, *, inches: float, dots: float, font: str | None, anyway: bool = False
) -> None:
    """An SVG and its stylesheet (with plain colours) into a .png or .pdf so many inches wide."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["pdf.fonttype"] = 42
    from matplotlib.figure import Figure

    root = ElementTree.fromstring(drawn)  # noqa: S314 – `svg` has written it, and escaped what is from elsewhere
    across, down = (float(n) for n in root.get("viewBox", "").split()[2:])
    page = Figure(figsize=(inches, inches * down / across), facecolor="white")
    axes = page.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, across), ylim=(down, 0), autoscale_on=False)
    brush = Brush(axes, rules(style), 72 * inches / across, figure.families(_texts(root), font, anyway=anyway))
    for element, x, y in _elements(root, 0.0, 0.0):
        brush.paint(element, x, y)
    with warnings.catch_warnings():
        if anyway:
            warnings.filterwarnings("ignore", message="Glyph .* missing")
        brush.write()
    dots = min(dots, figure.LARGEST / max(page.get_size_inches()))
    kept: dict[str, Any] = {"metadata": {"CreationDate": None}} if path.lower().endswith(".pdf") else {}
    with warnings.catch_warnings():
        if anyway:
            warnings.filterwarnings("ignore", message="Glyph .* missing")
        page.savefig(path, dpi=dots, **kept)


def _texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter() if _name(element) == "text"]


def _name(element: ElementTree.Element) -> str:
    return element.tag.removeprefix(SPACE)


def _elements(parent: ElementTree.Element, x: float, y: float) -> Iterator[tuple[ElementTree.Element, float, float]]:
    """Every element that is painted, with the place of the picture that it is in."""
    for element in parent:
        if _name(element) in ("svg", "g"):
            yield from _elements(element, x + float(element.get("x", 0)), y + float(element.get("y", 0)))
        else:
            yield element, x, y


Rule = tuple[frozenset[str], str, Mapping[str, str]]  # classes, or the name of an element, and what holds for them


@cache
def rules(style: str) -> tuple[Rule, ...]:
    found = []
    for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", style):
        last = selector.strip().split(" ")[-1]
        pairs = (pair.split(":", 1) for pair in body.split(";") if ":" in pair)
        classes = frozenset(last.split(".")[1:])
        found.append((classes, "" if classes else last, {key.strip(): value.strip() for key, value in pairs}))
    return tuple(found)


class Brush:
    """Paints elements; texts are kept to the last, since their size depends on how wide the font has them all."""

    def __init__(self, axes: Any, style: Sequence[Rule], points: float, families: Sequence[str]) -> None:
        self.axes, self.style, self.points, self.families = axes, style, points, list(families)
        self.texts: list[Any] = []
        self.layer = 0

    def look(self, element: ElementTree.Element) -> dict[str, str]:
        own = frozenset((element.get("class") or "").split())
        found = dict(PLAIN)
        for classes, name, declared in self.style:
            if (classes and classes <= own) or name == _name(element):
                found |= declared
        return {key: found["color"] if value == "currentColor" else value for key, value in found.items()}

    def paint(self, element: ElementTree.Element, x: float, y: float) -> None:
        self.layer += 1
        way = getattr(self, f"_{_name(element)}", None)
        if way is not None:
            way(element, dict(element.items()), self.look(element), x, y)

    def _shape(self, look: Mapping[str, str], *, filled: bool = True) -> dict[str, Any]:
        from matplotlib.colors import to_rgba

        opacity = float(look.get("opacity", 1))
        fill = look["fill"] if filled else "none"
        dashes = [float(n) * self.points for n in look.get("stroke-dasharray", "").split()]
        wide = float(re.sub("px$", "", look.get("stroke-width", "1"))) * self.points
        return {
            "facecolor": to_rgba(fill, opacity * float(look.get("fill-opacity", 1))) if fill != "none" else "none",
            "edgecolor": to_rgba(look["stroke"], opacity) if look["stroke"] != "none" else "none",
            "linewidth": wide if look["stroke"] != "none" else 0.0,
            "linestyle": (0, dashes) if dashes else "-",
            "capstyle": look.get("stroke-linecap", "butt"),
            "joinstyle": look.get("stroke-linejoin", "miter"),
            "zorder": self.layer,
        }

    def _path(self, points: Iterable[tuple[float, float]], look: Mapping[str, str], *, closed: bool) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        corners = list(points)
        self.axes.add_patch(PathPatch(Path(corners, closed=False), **self._shape(look, filled=closed)))

    def _line(self, _: ElementTree.Element, at: Mapping[str, str], look: Mapping[str, str], x: float, y: float) -> None:
        x1, x2, y1, y2 = (float(at[key]) for key in ("x1", "x2", "y1", "y2"))
        self._path([(x + x1, y + y1), (x + x2, y + y2)], look, closed=False)

    def _polyline(
        self, _: ElementTree.Element, at: Mapping[str, str], look: Mapping[str, str], x: float, y: float
    ) -> None:
        self._path(_corners(at["points"], x, y), look, closed=False)

    def _polygon(
        self, _: ElementTree.Element, at: Mapping[str, str], look: Mapping[str, str], x: float, y: float
    ) -> None:
        corners = _corners(at["points"], x, y)
        self._path([*corners, corners[0]], look, closed=True)

    def _rect(self, _: ElementTree.Element, at: Mapping[str, str], look: Mapping[str, str], x: float, y: float) -> None:
        if "x" not in at:
            return  # the paper of a whole page
        left, top, wide, high = (float(at[key]) for key in ("x", "y", "width", "height"))
        left, top = x + left, y + top
        corners = [(left, top), (left + wide, top), (left + wide, top + high), (left, top + high), (left, top)]
        self._path(corners, look, closed=True)

    def _circle(
        self, _: ElementTree.Element, at: Mapping[str, str], look: Mapping[str, str], x: float, y: float
    ) -> None:
        from matplotlib.patches import Circle

        place = x + float(at["cx"]), y + float(at["cy"])
        self.axes.add_patch(Circle(place, float(at["r"]), **self._shape(look)))

    def _image(
        self, _: ElementTree.Element, at: Mapping[str, str], look: Mapping[str, str], x: float, y: float
    ) -> None:
        from PIL import Image

        left, top, wide, high = (float(at[key]) for key in ("x", "y", "width", "height"))
        with Image.open(io.BytesIO(base64.b64decode(at["href"].split(",", 1)[1]))) as seen:
            times = max(1, SMOOTHED // max(seen.size))
            pixels = seen.convert("RGBA").resize((seen.width * times, seen.height * times), Image.Resampling.NEAREST)
        place = (x + left, x + left + wide, y + top + high, y + top)
        shown = {"aspect": "auto", "interpolation": "nearest", "zorder": self.layer}
        self.axes.imshow(pixels, extent=place, alpha=float(look.get("opacity", 1)), **shown)
        self.axes.set(xlim=self.axes.get_xlim(), ylim=self.axes.get_ylim())

    def _text(
        self, element: ElementTree.Element, at: Mapping[str, str], look: Mapping[str, str], x: float, y: float
    ) -> None:
        turn = re.match(r"rotate\((-?[\d.]+)", at.get("transform", ""))
        size = float(at.get("font-size", SIZE))
        weight = "bold" if "font-weight" in look else "normal"
        text = self.axes.text(
            x + float(at["x"]), y + float(at["y"]), element.text or "", color=look["fill"],
            fontsize=size * self.points, fontfamily=self.families, fontweight=weight,
            ha=ANCHORS[at.get("text-anchor", "start")], va="baseline", rotation=-float(turn[1]) if turn else 0.0,
            rotation_mode="anchor", parse_math=False, zorder=self.layer,
        )  # fmt: skip
        if look.get("paint-order") == "stroke":
            from matplotlib.patheffects import withStroke

            wide = float(look["stroke-width"].removesuffix("px")) * self.points
            text.set_path_effects([withStroke(linewidth=wide, foreground=look["stroke"])])
        self.texts.append((text, size))

    def write(self) -> None:
        """Make all texts as much smaller as the one needs that is widest for its room in this font."""
        renderer = self.axes.figure._get_renderer() if hasattr(self.axes.figure, "_get_renderer") else None
        needed = 1.0
        for text, size in self.texts:
            if renderer is not None and len(text.get_text()) > 2:
                real, _, _ = renderer.get_text_width_height_descent(text.get_text(), text.get_fontproperties(), False)
                real *= 72 / self.axes.figure.dpi / self.points
                needed = max(needed, real / width(text.get_text(), size))
        for text, _ in self.texts:
            text.set_fontsize(text.get_fontsize() / needed)


def _corners(points: str, x: float, y: float) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in points.split())
    return [(x + float(a), y + float(b)) for a, b in pairs]
