"""Where in a sound each character was heard: its spectrogram, and below it a row for each character.

A row is the spectrogram again, faded, and coloured as a map where the model listened for that character. The rows have
one scale and one axis of time.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.language import localize
from .drawing import chart as charts
from .drawing import figure, svg
from .drawing.heatmap import scale_bar, shade
from .drawing.pixels import png
from .drawing.scale import Scale

HIGH = 96.0  # pixels of the spectrogram
ROW, LOW_ROW = 26.0, 7.0  # of each character below it, and where there are many
TALLEST = 700.0  # pixels of all rows, where they may be as low as LOW_ROW
SECOND = 170.0  # pixels of a second
NARROW, WIDE = 420.0, 1_400.0
FINEST = 1_200  # columns of the spectrogram, as it is drawn
PALE = 0.7  # how far the spectrogram below a map is faded to white
EVEN = 4.0  # times an even share that the scale goes to, at least
SHARE = "share of each character's weights"  # what is counted
QUIET, LOUD = 5, 99.5  # percentiles of the spectrum that are white and black


def draw(
    spectrum: Any,
    weights: Any,
    characters: Sequence[str],
    path: str,
    *,
    frame: float,
    step: float,
    title: str = "",
    unit: str = SHARE,
) -> None:
    """spectrum: frames × bands; weights: characters × steps; `frame` and `step` are the seconds of each."""
    figure.check_path(path)
    charts.save(panels(spectrum, weights, characters, path, frame=frame, step=step, title=title, unit=unit), path)


def chart(
    spectrum: Any, weights: Any, characters: Sequence[str], title: str, *, frame: float, step: float, unit: str = SHARE
) -> dict[str, Any]:
    """The panels as a chart among others."""

    def drawn(wide: float) -> str:
        return panels(spectrum, weights, characters, frame=frame, step=step, title=title, unit=unit, wide=wide)

    return {"title": title, "panels": drawn}


def panels(
    spectrum: Any,
    weights: Any,
    characters: Sequence[str],
    path: str = "map",
    *,
    frame: float,
    step: float,
    title: str = "",
    unit: str = SHARE,
    wide: float | None = None,
) -> str:
    """The panels as SVG, all rows on one scale: what is spread evenly stays pale."""
    spectrum, weights = np.asarray(spectrum, np.float64), np.asarray(weights, np.float64)
    if spectrum.ndim != 2 or not spectrum.size:
        raise figure.FigureError(f"{path}: expected a spectrum of frames × bands, found shape {spectrum.shape}")
    if weights.ndim != 2 or len(weights) != len(characters) or not weights.size:
        raise figure.FigureError(
            f"{path}: expected weights over the sound for each of {len(characters)} characters, found shape "
            f"{weights.shape}"
        )
    seconds = max(len(spectrum) * frame, weights.shape[1] * step)
    left = 20.0 + max(svg.width("Hz"), *(min(90.0, svg.width(name)) for name in characters))
    wide = min(WIDE, max(NARROW, left + SECOND * seconds)) if wide is None else wide
    x = Scale(0.0, seconds, left, wide - 6)
    row = max(LOW_ROW, min(ROW, TALLEST / len(characters)))
    grey = shade_spectrum(spectrum)
    faded = (255 - (255 - grey) * (1 - PALE)).astype(int)
    most = min(1.0, max(float(np.nan_to_num(weights).max()), EVEN / weights.shape[1]))
    top = 26.0 if title else 8.0
    parts = [svg.words(0, 13, svg.fitted(localize(title), wide), "soft")] if title else []
    across = x(len(spectrum) * frame) - left
    parts += strip(grey, left, top, across, HIGH, "smooth")
    parts.append(svg.words(12, top + HIGH / 2, svg.fitted(localize("frequency"), HIGH), "soft", "middle", turn=-90))
    y = top + HIGH + 6
    every = max(1, -(-13 // int(row)))
    for number, name in enumerate(characters):
        parts += strip(faded, left, y, across, row, "smooth")
        shades = [[shade(float(cell), 0.0, most) for cell in weights[number]]]
        place = {"x": left, "y": y, "width": x(weights.shape[1] * step) - left, "height": row}
        parts.append(svg.tag("image", href=png(shades), preserveAspectRatio="none", class_="over-picture", **place))
        if number % every == 0:
            parts.append(svg.words(left - 6, y + row / 2 + 4, svg.fitted(name, left - 20), "word", "end"))
        y += row + (2 if row > LOW_ROW else 0)
    for value, label in x.ticks(max(2, int((wide - left) / 70))):
        at = x(value)
        parts.append(svg.tag("line", x1=at, x2=at, y1=y, y2=y + 4, class_="axis"))
        parts.append(svg.words(at, y + 17, label, "soft", "middle"))
    parts.append(svg.words((left + wide) / 2, y + 34, localize("seconds"), "soft", "middle"))
    bar, foot = scale_bar(0.0, most, localize(unit), left, y + 46, wide)
    said = localize(f"A spectrogram, and for each of {len(characters)} characters where in the sound it was heard")
    return svg.picture(*parts, *bar, width=wide, height=foot, title=title, description=said)


def shade_spectrum(spectrum: np.ndarray) -> np.ndarray:
    """bands × frames × 3: high frequencies above, loud ones dark."""
    every = -(-len(spectrum) // FINEST)
    shown = spectrum[::every].T[::-1]
    low, high = np.percentile(shown, [QUIET, LOUD])
    part = np.clip((shown - low) / max(high - low, 1e-9), 0, 1)
    return np.rint(255 - 225 * part).astype(int)[..., None].repeat(3, axis=2)


def strip(pixels: np.ndarray, x: float, y: float, wide: float, high: float, look: str) -> list[str]:
    """A picture in a frame, stretched."""
    place = {"x": x, "y": y, "width": wide, "height": high}
    image = svg.tag("image", href=png(pixels.tolist()), preserveAspectRatio="none", class_=look, **place)
    return [image, svg.tag("rect", **place, class_="frame")]
