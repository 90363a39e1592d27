"""The pages are true: their code runs and prints what they show, their table is the code's, their links lead somewhere.

Every ```python block of a page runs, in order, in one namespace; what it prints stands in the ```text block that
follows it. A block marked ```python no-run only has to compile. Every command of a ```sh block is one that the command
line takes. What the page of a layer quotes (its card, its options, the ids of claims) is what the code says.
"""

import contextlib
import io
import re
import shlex
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from tools import translated
from typer.testing import CliRunner

from recollect import claims
from recollect.cli import app
from recollect.core.task import RunConfig
from recollect.layers import LAYERS, LINEAGE, card, lineage, tcn
from recollect.models import language, ngram, seq2seq
from recollect.tasks.text.settings import DataConfig
from recollect.training import run as runs

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
    """The blocks of Python, each with the ```text block that follows it, if one does; one may follow commands too."""
    found, last, printed = [], None, None
    for fence in FENCE.finditer(text):
        kind, body = fence["kind"].strip(), textwrap.dedent(fence["body"])
        line = text.count("\n", 0, fence.start("body")) + 1
        assert kind in KINDS, f"line {line - 1}: expected a block of {', '.join(sorted(KINDS))}, found {kind!r}"
        if kind == "text" and printed is not None and not text[printed.end() : fence.start()].strip():
            pass  # what a command printed: see test_course
        elif kind == "text":
            follows = last is not None and not text[last.end() : fence.start()].strip()
            assert follows, f"line {line - 1}: expected a Python block that prints this right above, found none"
            found[-1] = found[-1]._replace(shown=body)
        elif kind.startswith("python"):
            found.append(Block(line, body, None, kind == "python"))
        last = fence if kind == "python" else None
        printed = fence if kind == "sh" else None
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
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    own = dict(LAYERS)
    yield page
    LAYERS.clear()  # a page may add some
    LAYERS.update(own)


def by_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


TRANSLATED = {chinese for _, chinese in translated.pairs()}  # whose code is that of the English page


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```" in page.read_text("utf-8") and page not in TRANSLATED], ids=by_name
)
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
        ("```sh\nls\n```\n\nprose\n\n```text\n1\n```\n", "line 7: expected a Python block"),
        ("```pyhton\nx = 1\n```\n", "line 1: expected a block of .*, found 'pyhton'"),
    ],
    ids=["wrong", "not shown", "not printed", "apart", "alone", "apart from a command", "misspelt"],
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


# Commands

LAUNCHER = ("check", "test", "bench", "wheel")  # commands of the script in a checkout, not of the package


def commands(text: str) -> list[list[str]]:
    """The words of every `./recollect …` in the ```sh blocks of a page, up to a pipe or a file."""
    found = []
    for fence in FENCE.finditer(text):
        for line in fence["body"].splitlines() if fence["kind"].strip() == "sh" else ():
            _, called, rest = line.partition("./recollect ")
            words = shlex.split(rest, comments=True)
            end = next((i for i, word in enumerate(words) if word in ("|", "<", ">")), len(words))
            if called and words[0] not in LAUNCHER:
                found.append(words[:end])
    return found


class AcceptedError(Exception):
    """Raised where a training would begin."""


@pytest.fixture
def settle(monkeypatch):
    """A function that takes the words of a command as far as they can be taken without doing it; the run of a train."""

    def begin(*given: Any, **_: Any) -> None:
        raise AcceptedError(*(part for part in given if isinstance(part, RunConfig)))

    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("RECOLLECT_RANKS", "1")  # --ranks starts no processes: this is one of them
    monkeypatch.setattr(runs, "train", begin)
    monkeypatch.setattr(runs, "resume", begin)
    monkeypatch.setattr(runs, "combine", begin)

    def settle(words: list[str]) -> Any:
        if words[0] != "train":
            group: Any = typer.main.get_command(app)
            name, command, rest = group.resolve_command(typer.Context(group), list(words))
            command.make_context(name, rest)
            return None
        done = CliRunner().invoke(app, words)
        assert isinstance(done.exception, AcceptedError), f"{words}: {done.exception} {done.output}"
        return next(iter(done.exception.args), None)

    return settle


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page.read_text("utf-8"))], ids=by_name)
def test_every_command_of_a_page_is_one_that_the_command_line_takes(page, settle):
    for words in commands(page.read_text("utf-8")):
        settle(words)


@pytest.mark.parametrize(
    "line", ["train text --set wdith=8", "train text --stpes 9", "train txt", "train text --model x"]
)
def test_a_command_that_is_none_is_caught(line, settle):
    with pytest.raises(AssertionError, match=r"train"):
        settle(commands(f"```sh\necho | ./recollect {line} > out  # comment\n```\n")[0])


# Pages of layers

MODELS = {"ngram": ngram, "language-model": language, "seq2seq": seq2seq}
CARD = ("STATE", "UPDATE", "READ")
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \| ([^|]+) \|$", re.M)


def layer_page(name: str) -> str:
    return (ROOT / "docs" / "layers" / f"{name}.md").read_text("utf-8")


def quoted(text: str) -> dict[str, str]:
    """STATE, UPDATE and READ from an indented block of a page."""
    found: dict[str, str] = {}
    current = None
    for line in text.splitlines():
        head, _, rest = line.strip().partition(" ")
        if line.startswith("    ") and head in CARD:
            current, found[head] = head, rest.strip()
        elif current and line.startswith(" " * 12):
            found[current] += " " + line.strip()
        else:
            current = None
    return found


def options(name: str) -> dict[str, tuple[str, str]]:
    """For each option in the table of a page: its default, and how a command line sets it."""
    _, _, section = layer_page(name).partition("## Options\n")
    return {option: (default, command) for option, default, command in ROW.findall(section.split("\n## ")[0])}


@pytest.mark.parametrize("name", LINEAGE)
def test_the_page_of_a_layer_quotes_its_card(name):
    assert quoted(layer_page(name)) == {head: getattr(card(name), head.lower()) for head in CARD}


@pytest.mark.parametrize("name", MODELS)
def test_the_page_of_a_model_quotes_its_docstring(name):
    assert quoted(layer_page(name)) == quoted(textwrap.indent(MODELS[name].__doc__ or "", "    "))


@pytest.mark.parametrize("name", [*LINEAGE, "ngram"])
def test_the_page_of_a_layer_has_all_options_with_their_defaults(name):
    config = LINEAGE.get(name, ngram.Config)
    theirs = {field.name: str(field.default).lower() for field in fields(config) if field.default is not MISSING}
    assert {option: default for option, (default, _) in options(name).items()} == theirs


def inside(config: Any) -> Iterator[Any]:
    """A config and all those that it holds."""
    yield config
    for value in (getattr(config, field.name) for field in fields(config)):
        for part in value if isinstance(value, tuple) else (value,):
            if is_dataclass(part):
                yield from inside(part)


def layers_of(run: RunConfig) -> Any:
    """The layers of a language model or of a translator's decoder."""
    settings = dict(run.model)
    if (model := settings.pop("name")) in language.KINDS and isinstance(run.data, DataConfig):
        return language.Config(vocab=9, model=model, **settings).body()
    return seq2seq.Config(source=9, target=9, model=model, **settings).decoder_config(memory_dim=8)


@pytest.mark.parametrize("name", LINEAGE)
def test_the_flag_of_an_option_reaches_the_layer(name, settle):
    wanted = tcn.Config if name == "conv" else LINEAGE[name]
    train = next(words for words in commands(layer_page(name)) if {*words} & {"text", "translation"})
    told = {option: command.strip("`") for option, (_, command) in options(name).items() if command != "–"}
    assert told
    for option, command in told.items():
        words = shlex.split(command)
        run = settle(["train", train[1], "--model", train[train.index("--model") + 1], *words])
        layer = next(config for config in inside(layers_of(run)) if type(config) is wanted)
        assert str(getattr(layer, option)).lower() == words[1].rpartition("=")[2], f"{name}: {command}"


@pytest.mark.parametrize("name", [*LINEAGE, *MODELS])
def test_the_claims_that_a_page_names_exist(name):
    sentences = re.findall(r"\b[Cc]laims?\b[^.]*", FENCE.sub("", layer_page(name)))
    ids = {found for sentence in sentences for found in re.findall(r"`([a-z-]+)`", sentence)}
    assert ids
    assert ids <= set(claims.names())


def test_the_map_leads_to_every_page():
    text = (ROOT / "docs" / "index.md").read_text("utf-8")
    linked = {(ROOT / "docs" / link["to"]).resolve() for link in LINK.finditer(text) if link["to"]}
    pages = {page for page in PAGES if page.parent != ROOT} - {ROOT / "docs" / "index.md"}
    assert sorted(map(by_name, pages - linked)) == []


# Pages in two languages


@pytest.mark.parametrize(("english", "chinese"), translated.pairs(), ids=lambda path: path.name)
def test_every_chinese_section_stands_beside_the_english_one_that_it_translates(english, chinese):
    assert translated.problems(english.read_text("utf-8"), chinese.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("chinese", "problem"),
    [
        ("# 甲\n字\n", "line 1, # 甲: expected <!-- en {0} -->"),
        ("<!-- en 000000000000 -->\n# 甲\n字\n", "line 2, # 甲: stale"),
        ("<!-- en {0} -->\n## 甲\n字\n", "expected a heading of the level of '# A'"),
        ("<!-- en {0} -->\n# 甲\n字\n\n```sh\nls -l\n```\n", "expected the code of '# A'"),
        ("<!-- en {0} -->\n# 甲\n\n<!-- en {0} -->\n## 乙\n", "expected 1 sections"),
    ],
    ids=["not stamped", "stale", "another level", "other code", "a section too many"],
)
def test_a_chinese_section_that_is_off_is_caught(chinese, problem):
    english = "# A\nwords\n"
    digest = translated.digest(translated.sections(english)[0])
    assert problem.format(digest) in translated.problems(english, chinese.replace("{0}", digest))[0]


def test_a_stamp_says_what_a_translation_depends_on():
    english, chinese = (
        "# A\nwords\n\n```sh\nls # here\n```\n\n```text\na\n```\n",
        "# 甲\n字\n\n```sh\nls # 这里\n```\n\n```text\n乙\n```\n",
    )
    stamped = translated.stamp(english, chinese)
    assert translated.problems(english, stamped) == []
    assert translated.stamp(english, stamped) == stamped
    assert translated.problems(english.replace("words", "other words"), stamped)
    assert translated.problems(english.replace("words", "words "), stamped) == []


def formulas(name: str) -> list[tuple[str, list[str]]]:
    """Each row of the lineage's table: its name, and the signs of its formulas."""
    table = (ROOT / name).read_text("utf-8").split("<!-- lineage -->\n")[1].split("<!-- /lineage -->")[0]
    return [(row.split("|")[1], re.findall(r"[←Σσφηρ∇ℓ‖½τᵀ=·+−/]", row)) for row in table.splitlines()[2:]]


def test_the_readme_has_the_same_formulas_in_both_languages():
    assert formulas("README.zh-CN.md") == formulas("README.md")
