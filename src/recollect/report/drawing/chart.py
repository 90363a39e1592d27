"""Charts and maps, given as plain dicts, drawn: as SVG for a page, or as a file of their own.

A chart is what `core.chart` gives as JSON. Pages may also give one of kind `dots`: a line a name, each with a single y,
its range, and under `seeds` what was measured; `levels` are (name, value) pairs for lines across.
"""

from importlib import resources
from typing import Any

from . import curves, heatmap, plot, rows, svg
from .colour import Keys, resolve

TITLE = 17.0  # size of a title's letters in a picture that stands alone


def inline(chart: dict[str, Any], wide: float, keys: Keys | None = None) -> str:
    """SVG for inside a page, `wide` pixels across; colours come from the page. `keys` keeps one colour a name."""
    keys = Keys() if keys is None else keys
    if "values" in chart:
        return heatmap.draw(chart, wide)
    kind = chart.get("kind", "lines")
    if kind == "dots" or (kind == "bars" and not curves.upright(chart, wide)):
        return rows.draw(chart, wide, keys)
    return curves.draw(chart, wide, keys)


def standalone(chart: dict[str, Any], wide: float = 860, keys: Keys | None = None) -> str:
    """A whole SVG file with its title, its own colours, light and dark as the reader's screen is."""
    drawn, style = inline(chart, wide, keys), stylesheet() + ".paper{fill:var(--paper)}"
    height = float(drawn.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()[1])
    pad, head = 20, 52
    size = {"width": round(wide + 2 * pad), "height": round(height + head + pad)}
    rules = f"{resolve(style, 'light')}@media (prefers-color-scheme:dark){{{resolve(style, 'dark')}}}"
    title = svg.tag(
        "text", svg.escape(svg.fitted(chart["title"], wide, TITLE)), x=pad, y=34, class_="strong", font_size=TITLE
    )
    body = drawn.replace("<svg ", f'<svg x="{pad}" y="{head}" ', 1)
    paper = svg.tag("rect", width="100%", height="100%", class_="paper")
    outer = svg.tag(
        "svg",
        svg.tag("style", rules),
        paper,
        svg.tag("g", title, class_="chart"),
        body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {size['width']} {size['height']}",
        **size,
    )
    return outer + "\n"


def stylesheet() -> str:
    """The rules that every drawn chart needs, with colours as variables."""
    return resources.files("recollect.report.drawing").joinpath("chart.css").read_text(encoding="utf-8")


def draw(chart: dict[str, Any], path: str) -> None:
    """A chart or map into a file that ends in .png, .svg or .pdf."""
    plot.draw(chart, path)
