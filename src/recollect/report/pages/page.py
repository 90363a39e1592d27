"""Self-contained HTML pages from jinja2 templates: real text, charts as inline SVG, for screen, phone and paper."""

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ...core.files import write_aside
from ...core.language import language, localize
from ...racing.verdict import Name, mark_names, split_names
from ..drawing import chart as charts
from ..drawing import colour, looks, panel, svg

TAGS = {"en": "en", "zh": "zh-Hans"}
WIDTHS = {"full": 860, "half": 416, "phone": 328}  # pixels at which a chart is drawn; the page shows the one that fits


def render(template: str, **context: Any) -> str:
    """The whole page. Its policy lets a browser load nothing from any other place, and run its own script alone."""
    style = Markup(f":root{{{colour.variables()}}}\n{_read('style.css')}{charts.stylesheet()}")
    script = Markup(_read("theme.js"))
    shown = {"style": style, "script": script, "lang": TAGS[language()], "explain": Glossary()}
    return TEMPLATES.get_template(template).render(**shown, **context)


def _read(name: str) -> str:
    return resources.files("recollect.report").joinpath("templates", name).read_text(encoding="utf-8")


def hash_source(text: str) -> Markup:
    """A script or style as a page's policy names it: whatever else the page might hold is not run."""
    return Markup(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'")


def write(path: Path, text: str) -> Path:
    write_aside(path, text.encode())
    return path


class Glossary:
    """Explanations of words, from glossary.html: each is given once a page, where its word first stands."""

    def __init__(self) -> None:
        self._explanations: Any = TEMPLATES.get_template("glossary.html").module
        self._given: set[str] = set()

    def __call__(self, *words: str) -> Markup:
        new = [word for word in words if word not in self._given]
        self._given.update(new)
        return Markup(" ").join(getattr(self._explanations, word)() for word in new)


def anchor(*words: str) -> str:
    """An id made of any words: every character but ASCII letters, digits, - and blanks becomes its number."""
    text = "-".join(words).lower()
    return "".join(c if c.isascii() and (c.isalnum() or c == "-") else "-" if c == " " else f"_{ord(c)}" for c in text)


def draw(chart: dict[str, Any], keys: looks.Keys, width: str, names: bool = True) -> Markup:
    """A chart as SVG, whose own texts are escaped where they are drawn."""
    return Markup(charts.inline(chart, WIDTHS[width], keys, names=names))


def legend(drawn: Sequence[dict[str, Any]], keys: looks.Keys, width: str) -> Markup:
    """The names that charts share, for below them; nothing where each has its own."""
    return Markup(panel.legend(drawn, WIDTHS[width], keys) if panel.share_names(drawn) else "")


def escape(value: Any) -> Any:
    """Any value as text, safe in a page; characters that cannot be shown are replaced. Markup stays as it is."""
    return value if hasattr(value, "__html__") else Markup(svg.escape(value))


def localize_text(text: Any) -> Any:
    """A text in the language of the reader; markup is so already."""
    return text if hasattr(text, "__html__") else localize(text)


def localize_html(text: str) -> Markup:
    """A text of a template, which has markup in it, in the language of the reader."""
    return Markup(localize(text))


def localize_pieces(pieces: Sequence[str]) -> list[str]:
    """Pieces of a sentence in the language of the reader, names apart."""
    return split_names(localize(mark_names(pieces)))


def mark_code(text: Any) -> Markup:
    """A text in which `words` between such marks are code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", svg.escape(text or "")))


def describe_machine(found: Any) -> str:
    """The parts of a machine in a line, without those that it has not."""
    if not isinstance(found, dict):
        return str(found or "")
    parts = [
        f"{value} {key if value != 1 else key[:-1]}"
        if key in ("cores", "threads")
        else f"{key} {value}"
        if key in ("python", "torch")
        else str(value)
        for key, value in found.items()
        if value is not None
    ]
    return ", ".join(parts)


TEMPLATES = Environment(
    loader=PackageLoader("recollect.report"),
    autoescape=True,
    finalize=escape,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.globals |= {"anchor": anchor, "draw": draw, "legend": legend, "hash": hash_source}
TEMPLATES.globals |= {"t": localize_text, "html": localize_html}
TEMPLATES.filters |= {"code": mark_code, "t": localize_text, "pieces": localize_pieces}
TEMPLATES.tests["name"] = lambda piece: isinstance(piece, Name)
