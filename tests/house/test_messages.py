"""The catalogue is complete, says what its messages say, and uses the words of the glossary."""

import ast
import json
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import nodes
from tools import messages

from recollect.core import language
from recollect.core.language import fill, localize, places, read_catalogue, speaking
from recollect.report.pages.page import TEMPLATES

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.zh.md"


@pytest.fixture(scope="module")
def catalogue():
    return read_catalogue("zh")


@pytest.fixture(scope="module")
def required():
    return messages.required()


def test_every_text_that_is_shown_has_a_translation(catalogue, required):
    missing = {place: message for message, place in required.items() if message not in catalogue}
    assert missing == {}, "run python -m tools.messages --write, then translate what is empty in recollect.po"


def test_no_translation_is_left_behind(catalogue, required):
    assert sorted(set(catalogue) - set(required)) == [], "run python -m tools.messages --write"


def test_a_translation_has_the_places_of_its_message(catalogue):
    odd = {message: text for message, text in catalogue.items() if set(places(message)) != set(places(text))}
    assert odd == {}


def test_every_message_is_read_as_itself(catalogue):
    """No other template takes a text that is of this one."""
    with speaking("zh"):
        for message, translation in catalogue.items():
            parts = list(string.Formatter().parse(message))
            values = {
                name: "2" if form else f"qx{i}w" for i, (_, name, form, _) in enumerate(parts) if name is not None
            }
            text = "".join(part + (values[name] if name is not None else "") for part, name, _, _ in parts)
            assert localize(text).strip() == fill(translation, values, "zh").strip(), message


def avoided():
    """{what is not to be said: what to say} of the glossary."""
    found = {}
    for line in GLOSSARY.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        if len(cells) == 3 and cells[0] != "英文":
            found |= {word: cells[1] for each in cells[2].split("、") if (word := re.sub(r"（.*?）", "", each).strip())}
    return found


def test_translations_use_the_words_of_the_glossary(catalogue):
    words = avoided()
    assert len(words) > 20
    wrong = [
        (bad, good, text)
        for text in catalogue.values()
        for bad, good in words.items()
        if bad in text and bad not in good
    ]
    assert wrong == []


def test_translations_are_chinese_where_there_are_words(catalogue):
    """A translation without a Chinese character is a formula, a name or an example, and the same as its message."""
    for message, text in catalogue.items():
        if not re.search(r"[\u4e00-\u9fff]", text):
            same = re.sub(r"\{.*?\}|\W", "", text).lower() == re.sub(r"\{.*?\}|\W", "", message).lower()
            assert same or text == "FLOPs", message


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('print(f"{len(rows):,} rows of {name}")', ["{rows:,} rows of {name}"]),
        ("say(f\"{n} row{'s' * (n != 1)} left\")", ["{n} rows left", "{n} row left"]),
        (
            "say(f\"took {'the' if one else 'every'} test {x:.3f}\")",
            ["took the test {x:.3f}", "took every test {x:.3f}"],
        ),
        ('raise ValueError("expected a file, found none")', []),
        ('"""A docstring with words."""', []),
        ('Chart(title="loss", x="step", y=unit)', ["loss", "step"]),
        ('localize("word")', ["word"]),
        ('key = found["a_key"]', []),
        ('@app.command()\ndef f():\n    """What it does."""', ["What it does."]),
    ],
)
def test_the_texts_of_a_module_are_found(code, expected):
    finder = messages.Finder()
    finder.visit(ast.parse(code))
    assert list(finder.found) == expected


def test_a_text_outside_the_named_functions_is_not_asked_for():
    finder = messages.Finder(("table",))
    finder.visit(
        ast.parse('def table():\n    return ("rule", "how"), rows, []\ndef other():\n    say("some other words")')
    )
    assert list(finder.found) == ["rule", "how"]


def test_no_words_of_a_page_stand_outside_a_message():
    for path in messages.PAGES.glob("*.html"):
        parsed = TEMPLATES.parse(path.read_text(encoding="utf-8"))
        data = " ".join(node.data for node in parsed.find_all(nodes.TemplateData))
        assert re.findall(r"[A-Za-z]{2,}", re.sub(r"<[^>]*>", " ", data)) == [], path.name


def test_the_catalogue_is_read_by_gettexts_own_rules(catalogue):
    """Other programs read the file too: a message is one JSON string, without escapes that gettext lacks."""
    for line in messages.PATH.read_text(encoding="utf-8").splitlines():
        if line.startswith(("msgid", "msgstr")):
            quoted = line.partition(" ")[2]
            assert json.loads(quoted) is not None
            assert not re.search(r"\\[^n\"\\]", quoted), line


def run(*words: str, **own: str) -> str:
    import os

    done = subprocess.run(
        [sys.executable, "-m", "recollect", *words], check=True, capture_output=True, text=True, encoding="utf-8",
        env=os.environ | {"COLUMNS": "100"} | own,
    )  # fmt: skip
    return done.stdout


@pytest.mark.slow
def test_help_is_chinese_by_flag_by_variable_and_by_locale():
    by_flag = run("--lang", "zh", "train", "--help", RECOLLECT_LANG="")
    assert "训练一个模型" in by_flag
    assert run("train", "--help", "--lang=zh") == by_flag == run("train", "--help", RECOLLECT_LANG="zh")
    assert run("train", "--help", RECOLLECT_LANG="", LC_ALL="zh_CN.UTF-8") == by_flag
    assert "Train one model" in run("train", "--help", RECOLLECT_LANG="", LC_ALL="C.UTF-8")
    english = re.findall(r"[A-Za-z]{3,}(?: [a-z]{2,}){2,}", re.sub(r"(text|copy).*\n?.*之一", "", by_flag))
    assert set(english) <= {"recollect train text"}  # its example


def test_chinese_help_imports_neither_torch_nor_numpy():
    code = (
        "from typer.testing import CliRunner\nfrom recollect.cli import app\nimport sys\n"
        "result = CliRunner().invoke(app, ['--lang', 'zh', 'train', '--help'])\n"
        "assert result.exit_code == 0 and '训练一个模型' in result.output, result.output\n"
        "print(*sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip() == ""


def test_the_language_of_one_call_is_not_that_of_the_next():
    from typer.testing import CliRunner

    from recollect.cli import app

    runner = CliRunner()
    assert "命令" in runner.invoke(app, ["--help", "--lang", "zh"]).output
    after = runner.invoke(app, ["--help"]).output
    assert "Commands" in after
    assert "命令" not in after
    assert language.language() == "en"


def test_the_chinese_page_of_claims_has_no_english_sentence():
    page = (ROOT / "docs" / "claims.zh.md").read_text(encoding="utf-8")
    told = [line for line in page.splitlines() if not line.startswith("- 出处")]  # titles of papers stay as they are
    english = [found[0] for line in told for found in re.finditer(r"(?:[A-Za-z][a-z]+[ ,]+){4,}[a-z]+", line)]
    assert english == [], "translate what claims say in recollect.po, then run python -m tools.results"


def test_numbers_in_what_claims_say_are_places():
    from tools.claim_messages import with_places

    found = with_places("At 4,000 steps (n/8, 1e-10) an MLP of d2l is within .02 of x_2; 95% or 3.5.")
    assert found == "At {a:g} steps (n/{b:g}, {c:g}) an MLP of d2l is within {d:g} of x_2; {e:g} or {f:g}."
