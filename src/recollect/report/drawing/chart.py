"""Charts and maps, given as plain dicts, drawn: as SVG for a page, or as a file of their own.

A chart is what `core.chart` gives as JSON. Pages may also give one of kind `dots`: a line a name, each with a single y,
its range, and under `seeds` what was measured; `levels` are (name, value) pairs for lines across.
"""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ...core.files import write_aside
from . import figure, panel, svg
from .colour import resolve
from .looks import Keys

PAD = 20.0  # around a picture that stands alone
POINTS = 8.0  # size of the letters where the width is that of print
SCREEN = 96.0  # pixels of an inch


def inline(chart: dict[str, Any], wide: float, keys: Keys | None = None, *, names: bool = True) -> str:
    """SVG for inside a page, `wide` pixels across; colours come from the page. `keys` keeps one look a name."""
    return panel.draw(chart, wide, Keys() if keys is None else keys, names=names)


def standalone(chart: dict[str, Any], wide: float = 860, keys: Keys | None = None) -> str:
    """A whole SVG file with its title, its own colours, light and dark as the reader's screen is."""
    return whole(compose([[chart | {"title": ""}]], wide, chart["title"], keys))


def compose(
    grid: Sequence[Sequence[dict[str, Any]]], wide: float, title: str = "", keys: Keys | None = None, note: str = ""
) -> str:
    """Rows of charts as one drawing."""
    return panel.compose(title, grid, wide, keys, note)


def whole(
    drawn: str, *, pad: float = PAD, dark: bool = True, inches: float | None = None, font: str | None = None
) -> str:
    """A drawing as a file of SVG: with its rules and its paper, and room around it."""
    wide, high = (length + 2 * pad for length in panel.size(drawn))
    style = stylesheet() + ".paper{fill:var(--paper)}" + (f".chart{{font-family:{_quoted(font)}}}" if font else "")
    rules = resolve(style, "light")
    if dark:
        rules += f"@media (prefers-color-scheme:dark){{{resolve(style, 'dark')}}}"
    size: dict[str, Any] = {"width": round(wide), "height": round(high)}
    if inches is not None:
        size = {"width": f"{inches:g}in", "height": f"{inches * high / wide:.4g}in"}
    outer = svg.tag(
        "svg",
        svg.tag("style", rules),
        svg.tag("rect", width="100%", height="100%", class_="paper"),
        drawn.replace("<svg ", f'<svg x="{pad:g}" y="{pad:g}" ', 1),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {wide:.0f} {high:.0f}",
        **size,
    )
    return outer + "\n"


def _quoted(font: str) -> str:
    kept = "".join(letter for letter in font if letter.isalnum() or letter in " -_")
    return f'"{kept}",sans-serif'


def stylesheet() -> str:
    """The rules that every drawn chart needs, with colours as variables."""
    return resources.files("recollect.report.drawing").joinpath("chart.css").read_text(encoding="utf-8")


def print_width(inches: float, points: float = POINTS) -> float:
    """How many pixels across a drawing must be laid out so that its letters have so many points in print."""
    return inches * 72 * svg.SIZE / points


def save(
    drawn: str,
    path: str,
    *,
    inches: float | None = None,
    font: str | None = None,
    pad: float = PAD,
    dots: float = 150,
    anyway: bool = False,
) -> None:
    """A drawing into a file that ends in .png, .svg or .pdf; `inches` is its width with the room around it.

    Where no font of this machine has a glyph that is an error, or with `anyway` a box.
    """
    figure.check_path(path)
    if path.lower().endswith(".svg"):
        text = whole(drawn, pad=pad, dark=inches is None, inches=inches, font=font)
        write_aside(Path(path), text.encode())
        return
    from .paint import paint

    text = whole(drawn, pad=pad, dark=False)
    style = resolve(stylesheet(), "light")
    wide = panel.size(text)[0]
    paint(text, style, path, inches=wide / SCREEN if inches is None else inches, dots=dots, font=font, anyway=anyway)


def draw(chart: dict[str, Any], path: str, wide: float = 860) -> None:
    """A chart or map into a file that ends in .png, .svg or .pdf."""
    save(compose([[chart | {"title": ""}]], wide, chart["title"]), path)
