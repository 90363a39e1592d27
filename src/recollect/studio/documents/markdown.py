"""Pages in Markdown as parts that a browser shows: text and tables, formulas as MathML, figures, code, answers.

The pages are those that come with the package. Still nothing in them becomes an element but what Markdown makes: HTML
is text, and links lead to other views, to other hosts by a click alone, or nowhere.
"""

import posixpath
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from ...learn.terminal import CJK, TOKEN
from ...report.drawing.svg import escape

COMMENT = re.compile(r"<!--.*?-->", re.S)
FOLDED = re.compile(rf"(?<=[{CJK}])\n *(?=[{CJK}])")  # a line of Chinese that was folded: a browser would put a blank
CHAPTER = re.compile(r"(\d\d)-[a-z0-9-]+?(?:\.zh)?\.md")
LAYER = re.compile(r"([a-z0-9-]+?)(?:\.zh)?\.md")
Part = dict[str, Any]


def split_page(markdown: str, folder: str) -> list[Part]:
    """The parts of a text, in order. `folder` is where its page lies below docs, for its links."""
    return list(_split(markdown, folder))


def _split(markdown: str, folder: str) -> Iterator[Part]:
    at = 0
    for found in TOKEN.finditer(markdown):
        yield from _text(markdown[at : found.start()], folder)
        at = found.end()
        if found["formula"]:
            yield {"kind": "formula", "html": to_mathml(found["formula"])}
        elif found["file"]:
            yield {"kind": "figure", "caption": found["caption"], "file": posixpath.basename(found["file"])}
        elif found["answer"]:
            yield {"kind": "answer", "summary": found["summary"], "html": to_html(found["answer"], folder)}
        elif found["body"] and found["kind"] in ("python", "sh"):
            yield {"kind": found["kind"], "text": found["body"]}
        elif found["body"]:
            yield {"kind": "printed", "text": found["body"]}
    yield from _text(markdown[at:], folder)


def _text(markdown: str, folder: str) -> Iterator[Part]:
    text = COMMENT.sub("", markdown).strip("\n").rstrip()
    if text:
        yield {"kind": "text", "html": to_html(text, folder)}


def to_html(markdown: str, folder: str) -> str:
    """Markdown as HTML."""
    tokens = _parser().parse(FOLDED.sub("", COMMENT.sub("", markdown)))
    for token in tokens:
        for child in token.children or ():
            if child.type == "link_open":
                to = find_view(str(child.attrs.get("href", "")), folder)
                child.attrs = {"href": to} if to else {}
                if to and not to.startswith("#"):
                    child.attrs |= {"rel": "noreferrer noopener", "target": "_blank"}
    return _parser().renderer.render(tokens, _parser().options, {})


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def find_view(link: str, folder: str) -> str | None:
    """Where a link of a page leads in the studio; None where nothing here shows it."""
    if link.startswith(("https://", "http://")):
        return link
    path = posixpath.normpath(posixpath.join(folder, link.partition("#")[0]))
    place, name = posixpath.split(path)
    if place == "course" and (found := CHAPTER.fullmatch(name)):
        return f"#course?chapter={int(found[1])}"
    if place == "layers" and (found := LAYER.fullmatch(name)):
        return f"#lineage?layer={found[1]}"
    return None


@lru_cache(512)
def to_mathml(latex: str) -> str:
    """A formula as MathML, which browsers draw themselves; where the converter is missing, as text."""
    text = " ".join(latex.split())
    try:
        from latex2mathml.converter import convert
    except ImportError:
        from ...learn.terminal import read_formula

        return f"<code>{escape(read_formula(text))}</code>"
    return convert(text, display="block")
