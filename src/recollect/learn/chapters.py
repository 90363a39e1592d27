"""The chapters of the course, read from its pages: docs/course in a checkout, recollect/course in an installation.

A chapter is a page in two languages, NN-name.md and NN-name.zh.md, whose second-level headings are those of `HEADINGS`,
in that order.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

HEADINGS = {  # of each section: in English, in Chinese
    "question": ("The question", "问题"),
    "picture": ("The picture", "图"),
    "formula": ("The formula", "公式"),
    "hand": ("By hand", "手算"),
    "code": ("In code", "代码"),
    "experiment": ("Predict, then run", "先猜，再运行"),
    "claims": ("What the books say", "书上的说法"),
    "exercises": ("Exercises", "练习"),
    "broke": ("What broke", "什么坏了"),
    "errata": ("Errata", "勘误"),
}
LANGUAGES = ("en", "zh")
FENCE = re.compile(r"^```(?P<kind>[^`\n]*)\n(?P<body>.*?)^```[ ]*$", re.M | re.S)
PAGE = re.compile(r"(?P<number>\d\d)-(?P<name>[a-z0-9-]+?)(?P<zh>\.zh)?\.md")


class Chapter(NamedTuple):
    """A chapter in one language."""

    number: int
    name: str
    title: str
    sections: dict[str, str]  # Markdown by the keys of HEADINGS
    path: Path

    @property
    def command(self) -> str:
        """What the experiment types, in the words of a shell."""
        return next((f["body"] for f in FENCE.finditer(self.sections["experiment"]) if f["kind"] == "sh"), "")


def pages_folder() -> Path:
    """Where the pages of the course lie: inside an installed package, else in the checkout."""
    package = Path(__file__).parents[1]
    found = next(
        (place for place in (package / "course", package.parents[1] / "docs" / "course") if place.is_dir()), None
    )
    if found is None:
        raise ValueError(f"{package / 'course'}: expected the pages of the course, found none; install recollect anew")
    return found


@cache
def read_chapters(language: str = "en") -> tuple[Chapter, ...]:
    """All chapters in one language, in their order."""
    return tuple(sorted(_read_all(pages_folder(), language)))


def find_chapter(wanted: str, language: str = "en") -> Chapter:
    """A chapter by its number or its name."""
    every = read_chapters(language)
    for chapter in every:
        if wanted in (chapter.name, str(chapter.number), f"{chapter.number:02}"):
            return chapter
    names = ", ".join(f"{chapter.number} {chapter.name}" for chapter in every)
    raise ValueError(f"chapter: expected the number or the name of one ({names}), found {wanted[:80]!r}")


def _read_all(folder: Path, language: str) -> Iterator[Chapter]:
    for path in folder.glob("*.md"):
        page = PAGE.fullmatch(path.name)
        if page and bool(page["zh"]) == (language == "zh"):
            text = path.read_text(encoding="utf-8")
            head, _, body = text.partition("\n## ")
            title = re.search(r"^# (?:\d+\. )?(.+)$", head, re.M)
            if title is None:
                raise ValueError(f"{path.name}: expected a first heading, '# 1. …', found none")
            yield Chapter(int(page["number"]), page["name"], title[1], _split(body, path.name, language), path)


def _split(body: str, name: str, language: str) -> dict[str, str]:
    """The text below each second-level heading."""
    keys = {headings[LANGUAGES.index(language)]: key for key, headings in HEADINGS.items()}
    found = {}
    for part in re.split(r"^## ", body, flags=re.M):
        heading, _, text = part.partition("\n")
        if heading.strip() not in keys:
            raise ValueError(f"{name}: expected a heading among {', '.join(keys)}, found {heading.strip()!r}")
        found[keys[heading.strip()]] = re.sub(r"^<!-- en [0-9a-f]+ -->\n?", "", text, flags=re.M).strip()
    return found
