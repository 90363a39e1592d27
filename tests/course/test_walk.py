"""A walk through a chapter: what is shown, run and asked; leaving, going back, and going on."""

import builtins
import json
import os
import re
import signal
import sys

import pytest

from recollect.core.language import speaking
from recollect.learn import progress, walk
from recollect.learn.chapters import Chapter, pages_folder
from recollect.learn.progress import Progress, read_progress, write_progress
from recollect.learn.walk import Walk, list_chapters

SECTIONS = {
    "question": "What is 6·7?",
    "code": "Count.\n\n```python\nprint('it is', 6 * 7)\n```\n\n```text\nit was 42\n```",
    "experiment": "Guess.\n\n```sh\necho first > out; cat out\n```\n\n```text\nas printed\n```\n\n"
    "<details><summary>What to see</summary>\n\nThe word.\n\n</details>",
    "exercises": "1. Why?",
}


@pytest.fixture(autouse=True)
def _own_place(own_cache, tmp_path, monkeypatch):
    monkeypatch.setattr(walk.tempfile, "mkdtemp", lambda prefix: str(tmp_path))


@pytest.fixture
def chapter(tmp_path):
    return Chapter(99, "last", "The last one", dict(SECTIONS), tmp_path / "99-last.md")


@pytest.fixture
def answers(monkeypatch):
    """What the reader types, one after the other; the questions are kept."""
    asked, given = [], []

    def answer(question):
        asked.append(question)
        if not given:
            raise EOFError
        text = given.pop(0)
        if isinstance(text, BaseException):
            raise text
        return text

    monkeypatch.setattr(builtins, "input", answer)
    return given, asked


def live():
    own = Walk(run=True)
    own.live = True
    return own


def test_without_a_terminal_all_is_shown_and_nothing_is_asked_or_run(chapter, answers, capfd):
    Walk().go(chapter)
    out = capfd.readouterr().out
    assert answers[1] == []
    for text in ("99. The last one", "What is 6·7?", "it was 42", "as printed", "What to see:", "The word.", "1. Why?"):
        assert text in out
    assert "it is 42" not in out
    assert "\x1b" not in out, "colours in a pipe"
    assert read_progress() == Progress(), "who reads in a pipe has not begun a chapter"


def test_code_and_commands_are_run_and_what_the_page_printed_is_not_shown(chapter, answers, capfd, tmp_path):
    answers[0].extend(["", "", "", "the first", "", "", "", ""])
    live().go(chapter)
    out = capfd.readouterr().out
    assert "it is 42" in out
    assert "it was 42" not in out
    assert "first\n" in out
    assert "as printed" not in out
    assert str(tmp_path) in out
    assert out.index("You expected: the first") < out.index("The word.")
    assert (tmp_path / "out").read_text() == "first\n"
    assert (tmp_path / "recollect").read_text().splitlines()[1].startswith(f'exec "{sys.executable}"')
    assert read_progress().finished == ("last",)


def test_the_prediction_is_asked_before_the_run_and_the_answer_comes_on_enter(chapter, answers, capfd):
    answers[0].extend(["mine"])
    live().go(chapter, "experiment")
    assert [question.split(",")[0] for question in answers[1]] == ["What do you expect? Write it here", "Enter runs it"]
    answers[0].extend(["mine", ""])
    capfd.readouterr()
    live().go(chapter, "experiment")
    assert answers[1][-1].startswith("Enter shows: What to see")
    assert "The word." not in capfd.readouterr().out


def test_what_was_not_run_is_shown_as_the_page_printed_it(chapter, answers, capfd):
    answers[0].extend(["s", ""])
    live().go(chapter, "code")
    out = capfd.readouterr().out
    assert "it was 42" in out
    assert "it is 42" not in out


def test_a_command_that_fails_says_so_and_the_page_is_shown(chapter, answers, capfd):
    chapter.sections["experiment"] = "```sh\nexit 3\n```\n\n```text\nas printed\n```"
    answers[0].extend(["", ""])
    live().go(chapter, "experiment")
    out = capfd.readouterr().out
    assert "It ended with exit code 3" in out
    assert "as printed" in out


@pytest.mark.parametrize("leave", ["q", "Q", EOFError(), KeyboardInterrupt()], ids=["q", "Q", "end of input", "Ctrl-C"])
def test_a_chapter_can_be_left_and_the_section_is_remembered(chapter, answers, capfd, leave):
    answers[0].extend(["", leave])
    live().go(chapter)
    assert "recollect learn --continue" in capfd.readouterr().out
    assert read_progress() == Progress("last", "code", ())


def test_b_goes_back_by_a_section_and_not_before_the_first(chapter, answers):
    answers[0].extend(["b", "", "b", "q"])
    live().go(chapter)
    assert read_progress().section == "question"


def test_ctrl_c_while_a_command_runs_leaves(chapter, answers, capfd):
    chapter.sections["experiment"] = f"```sh\nsleep .2; kill -INT {os.getpid()}; sleep 5\n```"
    answers[0].extend(["", ""])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        live().go(chapter, "experiment")
    finally:
        signal.signal(signal.SIGINT, before)
    assert "--continue" in capfd.readouterr().out
    assert read_progress().section == "experiment"


def test_a_file_of_progress_that_is_none_of_ours_counts_as_none(tmp_path):
    write_progress(Progress("gates", "hand", ("rnn",)))
    assert read_progress() == Progress("gates", "hand", ("rnn",))
    for text in ("", "[]", '{"chapter": 1}', "\x00"):
        progress.progress_file().write_text(text)
        assert read_progress() == Progress()


def test_a_place_that_cannot_be_written_is_said_once(chapter, answers, capfd, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "file" / "below"))
    answers[0].extend(["", "s", ""])
    live().go(chapter)
    assert capfd.readouterr().out.count("will not be remembered") == 1


def test_progress_lies_with_the_state_of_other_programs(monkeypatch, tmp_path):
    monkeypatch.delenv("RECOLLECT_CACHE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert progress.progress_file() == tmp_path / "recollect" / "course.json"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert progress.progress_file() == tmp_path / ".local" / "state" / "recollect" / "course.json"


def test_the_list_says_what_is_finished_and_where_one_is():
    write_progress(Progress("rnn", "hand", ("autoregression",)))
    with speaking("en"):
        lines = list_chapters().splitlines()
    assert "✓" in lines[0]
    assert "✓" not in lines[1]
    assert lines[1].endswith("← you are here: By hand")
    with speaking("zh"):
        assert list_chapters().splitlines()[1].endswith("← 读到这里：手算")
    assert json.loads(progress.progress_file().read_text())["chapter"] == "rnn"


def test_runs_of_all_chapters_can_be_made_in_one_folder():
    places = []
    for page in sorted(pages_folder().glob("[01]*.md")):
        if not page.name.endswith(".zh.md"):
            places += re.findall(r"^\./recollect train .*--out (\S+)", page.read_text(encoding="utf-8"), re.M)
    assert len(places) > 10
    assert len(places) == len(set(places)), "a folder is trained into twice: the second training is refused"
