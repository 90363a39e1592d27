"""What all figures share: no display, text that stays text, and a font that has the glyphs."""

from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

FORMATS = (".png", ".svg", ".pdf")
LARGEST = 6000  # pixels of a side: what is larger takes gigabytes, or is refused
PACKAGES = (  # blocks of characters and the Debian package whose fonts have them
    ((0x2E80, 0x9FFF), "fonts-noto-cjk"),
    ((0xAC00, 0xD7AF), "fonts-noto-cjk"),
    ((0xF900, 0xFAFF), "fonts-noto-cjk"),
    ((0xFF00, 0xFFEF), "fonts-noto-cjk"),
    ((0x20000, 0x3FFFF), "fonts-noto-cjk"),
    ((0x1F300, 0x1FAFF), "fonts-symbola"),
)


class FigureError(ValueError):
    """A figure that cannot be drawn; its message is one line."""


def canvas(width: float, height: float) -> tuple[Any, Any]:
    """A figure and its axes, with no display."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["pdf.fonttype"] = 42
    return pyplot.subplots(figsize=(width, height), layout="constrained")


def check_path(path: str) -> None:
    """Refuse a name that says no format, or a place that is no folder, before anything is computed."""
    if Path(path).suffix.lower() not in FORMATS:
        raise FigureError(f"{path}: expected a figure that ends in {', '.join(FORMATS)}, found another ending")
    if not Path(path).absolute().parent.is_dir():
        raise FigureError(f"{path}: expected a folder for the figure, found no {Path(path).parent}; make it first")


def save(figure: Any, path: str) -> None:
    from matplotlib import pyplot

    check_path(path)
    figure.savefig(path, dpi=min(150, LARGEST / max(figure.get_size_inches())))
    pyplot.close(figure)


def families(texts: Iterable[str]) -> list[str]:
    """Fonts that together have every glyph of the texts, or a line that says which package has them."""
    wanted = {ord(character) for text in texts for character in text if not character.isspace()}
    chosen: list[str] = []
    for name, path in installed():
        if not wanted:
            break
        if found := wanted & glyphs(path):
            wanted -= found
            chosen.append(name)
    if wanted:
        some = "".join(chr(code) for code in sorted(wanted)[:5])
        package = next((p for (low, high), p in PACKAGES for code in wanted if low <= code <= high), "fonts-noto")
        raise FigureError(
            f"figure: expected a font with the glyphs {some}, found none on this machine; "
            f"install one (Debian: apt-get install {package})"
        )
    return chosen or ["DejaVu Sans"]


@cache
def installed() -> list[tuple[str, str]]:
    """The fonts of this machine, matplotlib's own first, plain faces before others.

    matplotlib lists fonts once and for all: one that was installed since is added here. Its font of last resort claims
    every glyph and draws boxes, so it is left out.
    """
    from matplotlib import font_manager

    manager = font_manager.fontManager
    for path in sorted(set(font_manager.findSystemFonts()) - {font.fname for font in manager.ttflist}):
        with suppress(OSError, RuntimeError):  # no font, or one without outlines
            manager.addfont(path)

    def rank(font: Any) -> tuple[bool, bool, bool, str]:
        plain = font.style == "normal" and font.weight in (400, "normal", "regular")
        return font.name != "DejaVu Sans", not plain, "Mono" in font.name, font.name

    fonts = sorted((font for font in manager.ttflist if "Last Resort" not in font.name), key=rank)
    return list({font.name: (font.name, font.fname) for font in reversed(fonts)}.values())[::-1]


@cache
def glyphs(path: str) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
