"""The texts of the pages: which there are, and their translations for the browser."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from ..core.language import read_catalogue
from .views import VIEWS

STATIC = Path(__file__).resolve().parent / "static"
CALL = re.compile(r"""(?<![\w.])t\(\s*("(?:[^"\\\n]|\\.)*")""")  # t("English text", …) of a script


def texts_of_script(source: str) -> Iterator[str]:
    """The texts that a script shows: the first argument of each call of `t`, a string in double quotes."""
    return (json.loads(found) for found in CALL.findall(source))


def required() -> dict[str, str]:
    """{text: the file that has it} of all pages."""
    found: dict[str, str] = {}
    for path in sorted(STATIC.rglob("*.js")):
        for text in texts_of_script(path.read_text(encoding="utf-8")):
            found.setdefault(text, f"studio/static/{path.relative_to(STATIC).as_posix()}")
    for view in VIEWS:
        for text in (view.title, *getattr(view.module, "MESSAGES", ())):
            found.setdefault(text, f"studio/{view.name}")
    return found


def translations(code: str) -> dict[str, str]:
    """{English text: its translation}; what has none is left out and stays English."""
    known = read_catalogue(code)
    return {text: known[text] for text in required() if text in known}
