"""A caption as a gaze: the picture once for each word, lit where the model looked as it wrote that word."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .drawing import figure

COLUMNS = 6  # panels beside each other
SIDE = 1.7  # inches of a panel's longer side
VEIL = 0.82  # how much of the picture is hidden where it was not looked at


def draw(picture: Any, words: Sequence[str], weights: Any, path: str, title: str = "") -> None:
    """picture: H W 3, from 0 to 255; weights: for each word rows × columns over the whole of the picture."""
    figure.check_path(path)
    picture, weights = np.asarray(picture, np.uint8), np.asarray(weights, np.float64)
    if weights.ndim != 3 or len(weights) != len(words) or not len(words):
        raise figure.FigureError(
            f"{path}: expected a grid of weights for each of {len(words)} words, found shape {weights.shape}"
        )
    names = figure.families([*words, title])
    height, width = picture.shape[:2]
    across = min(COLUMNS, len(words) + 1)
    down = -(-(len(words) + 1) // across)
    scale = SIDE / max(height, width)
    page, axes = figure.canvas(across * (scale * width + 0.1), down * (scale * height + 0.35) + 0.3 * bool(title))
    axes.remove()
    panels = page.subplots(down, across, squeeze=False).ravel()
    for panel in panels:
        panel.set_axis_off()
    place = (0, width, height, 0)
    for panel, word, seen in zip(panels, ("", *words), (None, *weights), strict=False):
        panel.imshow(picture, extent=place)
        if seen is not None:
            panel.imshow(veil(seen), extent=place, interpolation="bilinear")
        panel.set_title(word, fontsize=10, fontfamily=names, parse_math=False)
    if title:
        page.supxlabel(title, fontsize="small", fontfamily=names, parse_math=False)
    figure.save(page, path)


def veil(weights: np.ndarray) -> np.ndarray:
    """rows columns 4: black, the thinner the more a cell was looked at; the most looked at is clear."""
    most = weights.max()
    found = np.zeros((*weights.shape, 4))
    found[..., 3] = VEIL * (1 - weights / most) if most > 0 else VEIL
    return found
