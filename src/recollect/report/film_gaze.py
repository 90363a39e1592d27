"""A film's caption as a gaze: a strip of frames for each word, as a map of when and where the model looked for it.

Of a long film so many frames are drawn, evenly spread; the weights of those between are added to the nearest one drawn,
so that each strip still shows all of its word's weights.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.language import localize
from .drawing import chart as charts
from .drawing import figure, svg
from .drawing.heatmap import scale_bar, shade
from .drawing.pixels import png
from .gaze import PALE

MOST = 14  # frames that are drawn
LEAST = 340.0  # pixels of the width, for the words above and below
LINE = 16.0  # pixels from one line of the title to the next
SIDE = 64.0  # pixels of a frame's longer side
GAP = 4.0  # between frames
FINEST = 96  # pixels of a frame's longer side, as it is drawn
EVEN = 4.0  # times an even share that the scale goes to, at least
TRACK = 7.0  # pixels of the bar below a strip that says how much of a word's weights each frame has


def draw(film: Any, words: Sequence[str], weights: Any, path: str, title: str = "") -> None:
    """film: T H W 3, from 0 to 255; weights: for each word frames × rows × columns over the whole of each frame."""
    figure.check_path(path)
    charts.save(strips(film, words, weights, path, title=title), path)


def chart(film: Any, words: Sequence[str], weights: Any, title: str) -> dict[str, Any]:
    """The strips as a chart among others."""
    return {"title": title, "panels": lambda wide: strips(film, words, weights, wide=wide)}


def strips(
    film: Any, words: Sequence[str], weights: Any, path: str = "gaze", *, title: str = "", wide: float | None = None
) -> str:
    """The strips as SVG, all on one scale: what is spread evenly stays pale."""
    film, weights = np.asarray(film, np.uint8), np.asarray(weights, np.float64)
    if weights.ndim != 4 or weights.shape[:2] != (len(words), len(film)) or not len(words):
        raise figure.FigureError(
            f"{path}: expected a grid of weights for each of {len(words)} words and {len(film)} frames, found shape "
            f"{weights.shape}"
        )
    shown, weights = _fewer(film, weights)
    count, height, across = len(shown), *shown.shape[1:3]
    left = 10 + max(svg.width(word) for word in words)
    room = count * (SIDE + GAP) if wide is None else max(count * (12 + GAP), wide - left)
    side = min(SIDE, room / count - GAP)
    box = side * across / max(height, across), side * height / max(height, across)
    every = -(-max(height, across) // FINEST)
    small = shown[:, ::every, ::every].astype(int)
    grey = small.mean(axis=3, keepdims=True).repeat(3, axis=3)
    faded = (255 - (255 - grey) * (1 - PALE)).astype(int)
    clear, pale = [png(frame.tolist()) for frame in small], [png(frame.tolist()) for frame in faded]
    most = min(1.0, max(float(np.nan_to_num(weights).max()), EVEN / weights[0].size))
    frames = np.nan_to_num(weights.sum(axis=(2, 3)))
    total = max(left + count * (box[0] + GAP), LEAST)
    lines = svg.wrapped(localize(title), total) if title else []
    parts = [svg.words(0, 13 + LINE * at, line, "soft") for at, line in enumerate(lines)]
    top = LINE * len(lines) + (6.0 if lines else 0.0)
    for number, word in enumerate(("", *words)):
        for at in range(count):
            x = left + at * (box[0] + GAP)
            place = {"x": x, "y": top, "width": box[0], "height": box[1]}
            image = place | {"preserveAspectRatio": "none"}
            parts.append(svg.tag("image", href=(pale if number else clear)[at], class_="smooth", **image))
            if number:
                shades = [[shade(float(cell), 0.0, most) for cell in row] for row in weights[number - 1][at]]
                parts.append(svg.tag("image", href=png(shades), class_="over-picture", **image))
                parts.append(_share(x, top + box[1] + 2, box[0], float(frames[number - 1, at])))
            parts.append(svg.tag("rect", **place, class_="frame"))
        if number:
            parts.append(svg.words(left - 6, top + box[1] / 2 + 4, svg.fitted(word, left - 6), "word", "end"))
        top += box[1] + (TRACK + 5 if number else 8)
    unit = "share of each word's weights; below each frame, how much of them lies in it"
    bar, foot = scale_bar(0.0, most, localize(unit), 0.0, top + 6, total)
    said = localize(f"The film, and for each of {len(words)} words when and where it was looked at")
    return svg.picture(*parts, *bar, width=total, height=foot, title=title, description=said)


def _share(x: float, y: float, wide: float, share: float) -> str:
    """A bar whose length is the share of a word's weights that lies in one frame."""
    return svg.tag("rect", x=x, y=y, width=wide * min(1.0, max(0.0, share)), height=TRACK - 3, class_="bar s0")


def _fewer(film: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most MOST frames, and all of the weights on them."""
    if len(film) <= MOST:
        return film, weights
    chosen = np.linspace(0, len(film) - 1, MOST).round().astype(int)
    nearest = np.abs(np.arange(len(film))[:, None] - chosen).argmin(axis=1)
    found = np.zeros((len(weights), MOST, *weights.shape[2:]))
    np.add.at(found.swapaxes(0, 1), nearest, weights.swapaxes(0, 1))
    return film[chosen], found
