"""`recollect learn`: listing, ways in, errors; a real walk through a pseudo-terminal."""

import os
import select
import sys
import time

import pytest

from recollect.learn.exercises import EXERCISES, read_answer
from recollect.learn.progress import Progress, write_progress


def test_the_chapters_are_listed_without_a_question(command):
    code, out, err = command("learn", "--lang", "en")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "  1   Sequences and autoregression (autoregression)"
    assert "序列与自回归" in command("learn", "--lang", "zh")[1]


@pytest.mark.parametrize("wanted", ["4", "04", "gates"])
def test_a_chapter_is_found_by_number_and_name_and_printed_in_a_pipe(command, wanted):
    code, out, _ = command("learn", wanted, "--lang", "en")
    assert code == 0
    assert "4. Vanishing gradients, LSTM and GRU" in out
    assert "bias 5: after 50 steps 7.1e-01 is left" in out


def test_it_goes_on_where_one_left_off(command):
    assert command("learn", "--continue") == (
        1, "", "recollect: --continue: expected a chapter that was begun, found none; begin one: recollect learn 1\n",
    )  # fmt: skip
    write_progress(Progress("gates", "hand"))
    out = command("learn", "--continue", "--lang", "zh")[1]
    assert "手算" in out
    assert "梯度消失，LSTM 与 GRU" in out
    assert "国家和语言之间" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["99"], "expected the number or the name of one (1 autoregression, "),
        (["4", "--continue"], "expected one of CHAPTER, --continue, --exercise, --check, --answer, found CHAPTER and"),
        (["--out", "x.py"], "--out: expected it with --exercise, found it alone"),
        (["--exercise", "lsmt"], "found 'lsmt'; did you mean 'lstm'?"),
        (["--check", "nowhere.py"], "--check: expected a Python file, found none at 'nowhere.py'"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_1(command, words, said):
    code, _, err = command("learn", *words)
    assert code == 1
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_is_written_and_its_answer_printed(command, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    code, out, _ = command("learn", "--exercise", name, "--lang", "en")
    file = f"my_{name.replace('-', '_')}.py"
    assert code == 0
    assert out == f"{file}: write the lines of the definition, then: recollect learn --check {file}\n"
    assert (tmp_path / file).read_text(encoding="utf-8").startswith("# Write what raises NotImplementedError")
    assert command("learn", "--answer", name, "--lang", "en")[:2] == (0, read_answer(name))


@pytest.mark.slow
def test_a_file_is_graded(command, tmp_path):
    path = tmp_path / "my_lstm.py"
    path.write_text(read_answer("lstm"), encoding="utf-8")
    code, out, _ = command("learn", "--check", path, "--lang", "en")
    assert code == 0
    assert out.endswith("Every line is right, and every law holds.\n")
    path.write_text(read_answer("lstm").replace("f * c + i * g", "c + i * g"), encoding="utf-8")
    code, out, err = command("learn", "--check", path, "--lang", "zh")
    assert code == 1
    assert "不对" in out
    assert err.startswith("recollect: my_lstm.py，line 62, cell：这一行 c ← f·c + i·g 不对：expected ")
    assert err.endswith("; 漏了遗忘门\n")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_walk_in_a_terminal_is_left_and_continued():
    out, code = type_into(["learn", "1", "--lang", "en"], ["", "", "", "b", "q"])
    assert code == 0
    assert "The formula (3/10)" in out
    assert "`recollect learn --continue`" in out
    out, code = type_into(["learn", "--lang", "en"], ["", "", "", "", "\x04"])
    assert code == 0
    assert "you are here: The formula" in out
    assert out.index("By hand (4/10)") < out.index("100 steps on: -0.7284") < out.index("Left here")
    assert "\x1b[" in out


def type_into(words, answers, limit=120):
    """What `recollect …` shows in a pseudo-terminal to one who types these answers, and its exit code."""
    import pty

    child, master = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "recollect", *words])
    out, until = b"", time.monotonic() + limit
    while time.monotonic() < until:
        if select.select([master], [], [], 0.3)[0]:
            try:
                read = os.read(master, 1 << 16)
            except OSError:
                break
            if not read:
                break
            out += read
        elif answers and out.rstrip().endswith(b">"):
            text = answers.pop(0)
            os.write(master, text.encode() if text == "\x04" else f"{text}\n".encode())
            time.sleep(0.3)
    os.close(master)
    return out.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
