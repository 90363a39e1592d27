"""What all files of figures share: their endings and places, and fonts that have the glyphs."""

import difflib
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ...core.errors import RecollectError

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


class FigureError(RecollectError):
    """A figure that cannot be drawn; its message is one line."""


def check_path(path: str) -> None:
    """Refuse a name that says no format before anything is computed; a folder that is not there is made."""
    if Path(path).suffix.lower() not in FORMATS:
        raise FigureError(f"{path}: expected a figure that ends in {', '.join(FORMATS)}, found another ending")
    try:
        Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FigureError(
            f"{path}: expected a folder for the figure, found none that can be made ({error.strerror}); name another"
        ) from None


def families(texts: Iterable[str], first: str | None = None, *, anyway: bool = False) -> list[str]:
    """Fonts that together have every glyph of the texts, or a line that says which package has them.

    `first` is the font that is used wherever it has the glyph; `anyway` leaves glyphs that no font has.
    """
    wanted = {ord(character) for text in texts for character in text if not character.isspace()}
    fonts = installed()
    if first is not None:
        named = {name.lower(): name for name, _ in fonts}
        name = named.get(first.lower())
        if name is None:
            close = difflib.get_close_matches(first.lower(), named, n=3)
            near = ", ".join(named[one] for one in close) or "DejaVu Serif"
            raise FigureError(f"--font: expected a font of this machine, found {first!r}; near it are {near}")
        fonts = sorted(fonts, key=lambda font: font[0] != name)
    chosen: list[str] = []
    for name, path in fonts:
        if not wanted:
            break
        if found := wanted & glyphs(path):
            wanted -= found
            chosen.append(name)
    if wanted and not anyway:
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
