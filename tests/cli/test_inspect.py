"""`recollect inspect`."""

import json

import pytest

from recollect.tasks.memory.gap_text import LANGUAGES
from recollect.training import run as runs
from recollect.training.folder import RunFolder
from tiny import invoke


@pytest.mark.parametrize("words", [("eval",), ("inspect", "horizon")])
def test_data_that_changed_since_training_is_told_on_stderr(run, tmp_path, words):
    name, *rest = words
    before = invoke(name, run.path, *rest)
    assert before.exit_code == 0
    assert before.stderr == ""
    book = tmp_path / "book.txt"
    text = book.read_text(encoding="utf-8")
    book.write_text(text * 2, encoding="utf-8")
    found = invoke(name, run.path, *rest)
    counts = RunFolder(run.path).config()["corpus"]
    assert found.exit_code == 0
    assert found.stderr.count("\n") == 1
    assert found.stderr.startswith(f"note: the data of …/{run.path.name} changed since training: ")
    assert f"train was {counts['train']} and is " in found.stderr
    book.write_text(text[::-1], encoding="utf-8")
    assert "as much as before, but other content" in invoke(name, run.path, *rest).stderr
    if name == "eval":
        assert invoke(name, run.path, "--data", book).stderr == ""


def test_where_there_is_nothing_near_that_is_said(tmp_path):
    out = tmp_path / "ratings"
    size = ["--set", "users=30", "--set", "items=1", "--set", "ratings=30", "--steps", 2, "--batch", 8]
    assert invoke("train", "ratings", *size, "--out", out).exit_code == 0
    item = runs.load(out).artifacts.items[0]
    assert invoke("inspect", out, "nearest", "--item", item).stdout == (
        f"nothing is near {item!r}, since there is no other item\n"
    )


def test_the_words_of_a_test_of_memory_are_shown_as_words(tmp_path):
    out = tmp_path / "gap"
    size = ["--set", "distance=5", "--set", "eval_rows=10", "--steps", 1, "--width", 8, "--batch", 4]
    assert invoke("train", "gap", *size, "--out", out).exit_code == 0
    found = json.loads(invoke("inspect", out, "influence", "--json").stdout)
    assert found["inputs"][-2:] == ["speaks", "fluent"]
    assert set(found["outputs"]) <= set(LANGUAGES.values())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["horizon"], "expected a run and an instrument, found 'horizon' alone"),
        (["runs/a", "runs/b"], "expected an instrument out of"),
        (["runs/a", "horizon", "--parts"], "--parts: expected --out with it"),
    ],
)
def test_what_is_asked_wrongly_is_told_in_a_line_before_any_run_is_loaded(words, told):
    done = invoke("inspect", *words)
    assert isinstance(done.exception, ValueError)
    assert told in str(done.exception)
    assert "\n" not in str(done.exception)
