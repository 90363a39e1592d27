"""A caption as a gaze: the picture once for each word, coloured as a map where the model looked for that word."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.language import localize
from .drawing import chart as charts
from .drawing import figure, svg
from .drawing.heatmap import scale_bar, shade
from .drawing.pixels import png

COLUMNS = 6  # panels beside each other
SIDE = 150.0  # pixels of a panel's longer side
FINEST = 192  # pixels of the picture's longer side, as it is drawn
PALE = 0.6  # how far the picture below a map is faded to white
EVEN = 4.0  # times an even share that the scale goes to, at least


def draw(picture: Any, words: Sequence[str], weights: Any, path: str, title: str = "") -> None:
    """picture: H W 3, from 0 to 255; weights: for each word rows × columns over the whole of the picture."""
    figure.check_path(path)
    charts.save(panels(picture, words, weights, path, title=title), path)


def chart(picture: Any, words: Sequence[str], weights: Any, title: str) -> dict[str, Any]:
    """The panels as a chart among others."""
    return {"title": title, "panels": lambda wide: panels(picture, words, weights, wide=min(wide, COLUMNS * SIDE))}


def panels(
    picture: Any, words: Sequence[str], weights: Any, path: str = "gaze", *, title: str = "", wide: float | None = None
) -> str:
    """The panels as SVG, all on one scale: what is spread evenly stays pale."""
    picture, weights = np.asarray(picture, np.uint8), np.asarray(weights, np.float64)
    if weights.ndim != 3 or len(weights) != len(words) or not len(words):
        raise figure.FigureError(
            f"{path}: expected a grid of weights for each of {len(words)} words, found shape {weights.shape}"
        )
    height, width = picture.shape[:2]
    across = min(COLUMNS, len(words) + 1)
    side = SIDE if wide is None else wide / across - 10
    box = side * width / max(height, width), side * height / max(height, width)
    every = -(-max(height, width) // FINEST)
    small = picture[::every, ::every].astype(int)
    grey = small.mean(axis=2, keepdims=True).repeat(3, axis=2)
    faded = (255 - (255 - grey) * (1 - PALE)).astype(int)
    most = min(1.0, max(float(np.nan_to_num(weights).max()), EVEN / weights[0].size))
    parts, top = [], 22.0 if title else 0.0
    if title:
        parts.append(svg.words(0, 13, svg.fitted(localize(title), across * (box[0] + 10)), "soft"))
    for number, word in enumerate(("", *words)):
        x, y = (number % across) * (box[0] + 10), top + (number // across) * (box[1] + 30) + 20
        place = {"x": x, "y": y, "width": box[0], "height": box[1], "preserveAspectRatio": "none"}
        parts.append(svg.tag("image", href=png((faded if number else small).tolist()), class_="smooth", **place))
        if number:
            shades = [[shade(float(cell), 0.0, most) for cell in row] for row in weights[number - 1]]
            parts.append(svg.tag("image", href=png(shades), class_="over-picture", **place))
        place.pop("preserveAspectRatio")
        parts.append(svg.tag("rect", **place, class_="frame"))
        parts.append(svg.words(x + box[0] / 2, y - 6, svg.fitted(word, box[0]), "word", "middle"))
    bottom = top + -(-(len(words) + 1) // across) * (box[1] + 30)
    total = max(across * (box[0] + 10), 260.0)
    bar, foot = scale_bar(0.0, most, localize("share of each word's weights"), 0.0, bottom + 6, total)
    said = localize(f"The picture, and for each of {len(words)} words where it was looked at")
    return svg.picture(*parts, *bar, width=total, height=foot, title=title, description=said)
