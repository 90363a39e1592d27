"""The pages are true: their code runs and prints what they show, their table is the code's, their links lead somewhere.

Every ```python block of a page runs, in order, in one namespace; what it prints stands in the ```text block that
follows it. A block marked ```python no-run only has to compile.
"""

import contextlib
import io
import re
import sys
import textwrap
import types
from pathlib import Path
from typing import NamedTuple

import pytest

from recollect.layers import lineage

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
KINDS = {"python", "python no-run", "text", "sh", "json", "csv"}
FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[^`\n]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\((?P<to>[^)\s]+)[^)]*\)|^\[[^\]]+\]:\s*(?P<reference>\S+)", re.M)


class Block(NamedTuple):
    """A block of Python in a page."""

    line: int  # of its first line in the page
    code: str
    shown: str | None  # what the page says that it prints
    runs: bool


def blocks(text: str) -> list[Block]:
    """The blocks of Python, each with the ```text block that follows it, if one does."""
    found, last = [], None
    for fence in FENCE.finditer(text):
        kind, body = fence["kind"].strip(), textwrap.dedent(fence["body"])
        line = text.count("\n", 0, fence.start("body")) + 1
        assert kind in KINDS, f"line {line - 1}: expected a block of {', '.join(sorted(KINDS))}, found {kind!r}"
        if kind == "text":
            follows = last is not None and not text[last.end() : fence.start()].strip()
            assert follows, f"line {line - 1}: expected a Python block that prints this right above, found none"
            found[-1] = found[-1]._replace(shown=body)
        elif kind.startswith("python"):
            found.append(Block(line, body, None, kind == "python"))
        last = fence if kind == "python" else None
    return found


def run(text: str, name: str, module: types.ModuleType) -> None:
    """Run a page; the first block that fails or prints something else is named with its line."""
    for block in blocks(text):
        code = compile("\n" * (block.line - 1) + block.code, name, "exec")
        if not block.runs:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, module.__dict__)
        shown = block.shown or ""
        assert printed.getvalue() == shown, (
            f"{name}, line {block.line}: the page shows\n{shown}\nand the code prints\n{printed.getvalue()}"
        )


@pytest.fixture
def module(monkeypatch, tmp_path):
    """A page's namespace: a module, since classes ask for theirs; files that it writes go to a folder of their own."""
    page = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    monkeypatch.chdir(tmp_path)
    return page


def by_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if "```" in page.read_text("utf-8")], ids=by_name)
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(page, module):
    run(page.read_text("utf-8"), by_name(page), module)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", r"line 2: the page shows\s+2\s+and the code prints\s+1"),
        ("```python\nprint(1)\n```\n", r"line 2: the page shows\s+and the code prints\s+1"),
        ("```python\nx = 1\n```\n\n```text\n1\n```\n", r"line 2: the page shows\s+1\s+and the code prints"),
        ("```python\nx = 1\n```\n\nprose\n\n```text\n1\n```\n", "line 7: expected a Python block"),
        ("```text\n1\n```\n", "line 1: expected a Python block"),
        ("```pyhton\nx = 1\n```\n", "line 1: expected a block of .*, found 'pyhton'"),
    ],
    ids=["wrong", "not shown", "not printed", "apart", "alone", "misspelt"],
)
def test_a_page_that_shows_what_is_not_so_is_caught(text, problem, module):
    with pytest.raises(AssertionError, match=f"(?s){problem}"):
        run(text, "page", module)


def test_blocks_share_one_namespace_and_point_at_their_line(module):
    with pytest.raises(NameError) as caught:
        run("\n```python\nx = 1\n```\n\n```python\nassert x == 1\ny\n```\n", "page", module)
    assert caught.traceback[-1].lineno + 1 == 8


def test_what_is_not_run_must_compile(module):
    run("```python no-run\nlaunch_the_rocket()\n```\n", "page", module)
    with pytest.raises(SyntaxError):
        run("```python no-run\nlaunch the rocket\n```\n", "page", module)


def test_the_table_in_the_readme_is_made_from_the_code():
    start, end = "<!-- lineage -->\n", "<!-- /lineage -->"
    text = (ROOT / "README.md").read_text("utf-8")
    assert text.count(start) == text.count(end) == 1, f"README.md: expected {start.strip()} and {end} once each"
    expected = lineage.as_markdown()
    assert text.split(start)[1].split(end)[0] == expected, (
        f"README.md: the table differs from the code; put this between {start.strip()} and {end}:\n\n{expected}"
    )


def prose(text: str) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]+`", "", FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    """The names by which the headings of a page can be linked to."""
    headings = re.findall(r"^#+ +(.+?) *$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(text: str, page: Path) -> list[str]:
    """The relative links of a page that lead nowhere."""
    broken = []
    for link in LINK.finditer(prose(text)):
        to = link["to"] or link["reference"]
        if re.match(r"[a-z][a-z+.-]*:", to):
            continue  # an address elsewhere
        place, _, anchor = to.partition("#")
        target = page.parent / place if place else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target.read_text())):
            broken.append(to)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_relative_link_leads_somewhere(page):
    assert broken_links(page.read_text("utf-8"), page) == []


def test_a_link_that_leads_nowhere_is_caught(tmp_path):
    page = tmp_path / "page.md"
    text = (
        "# One call\n[a](page.md) [b](page.md#one-call) [c](https://example.org/x) `[d](code)`\n"
        "[e](gone.md) [f](page.md#two-calls) [g](#one-call) ![h](picture.svg)\n\n[i]: lost.md\n"
    )
    page.write_text(text)
    assert broken_links(text, page) == ["gone.md", "page.md#two-calls", "picture.svg", "lost.md"]
