"""The exercises: answers are right, mistakes are named with their line, and what cannot be graded says why."""

import re
import subprocess
import sys

import pytest

from recollect.core import laws
from recollect.core.language import speaking
from recollect.learn import exercises, grade
from recollect.learn.check import check, list_faults
from recollect.learn.exercises import EXERCISES, MISTAKES, ExerciseError, make_exercise, read_answer, write_mistake
from recollect.learn.oracles import BATCH, STEPS, draw

NAMES = list(EXERCISES)


def graded(folder, name, text):
    path = folder / f"my_{name.replace('-', '_')}.py"
    path.write_text(text, encoding="utf-8")
    return grade.grade(path)


def faults(found):
    return list_faults(found._asdict())


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_right_by_its_lines_the_oracle_and_the_laws(tmp_path, name):
    found = graded(tmp_path, name, read_answer(name))
    assert faults(found) == []
    assert {finding.verdict for finding in found.lines} == {"right"}
    assert list(found.laws) == ["chunk", "cause", "row", "ragged", "purity", "size", "file"]


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_declares_what_it_costs(tmp_path, name):
    (tmp_path / "mine.py").write_text(read_answer(name), encoding="utf-8")
    case = grade.prepare(tmp_path / "mine.py")
    x = draw(BATCH, STEPS, case.layer.dim)
    laws.cost(case.layer, x, memory=case.memory, share=0.15)  # it counts matrix products alone


@pytest.mark.parametrize(
    ("name", "mistake"),
    [pytest.param(name, each, id=f"{name}, {each.line}: {each.words}") for name in NAMES for each in MISTAKES[name]],
)
def test_a_mistake_is_named_with_its_line(tmp_path, monkeypatch, name, mistake):
    monkeypatch.setattr(grade, "judge_laws", lambda case: {})
    text = write_mistake(name, mistake)
    found = graded(tmp_path, name, text)
    first = faults(found)[0]
    assert first.startswith(f"my_{name.replace('-', '_')}.py, line ")
    assert f", {mistake.line}: the line " in first
    assert first.endswith(f"; {mistake.words}")
    number = int(re.search(r"line (\d+)", first)[1])
    assert f"def {mistake.line}(" in text.splitlines()[number - 1]
    off = [finding.line for finding in found.lines if finding.verdict == "wrong"]
    assert set(off) <= {mistake.line, "update", "read"}, "a line that is right is called wrong"


def test_a_line_off_says_what_was_expected_and_at_which_step(tmp_path, monkeypatch):
    monkeypatch.setattr(grade, "judge_laws", lambda case: {})
    lost = next(each for each in MISTAKES["lstm"] if each.words == "the old c is left out")
    first = faults(graded(tmp_path, "lstm", write_mistake("lstm", lost)))[0]
    assert re.search(r"the line c ← f·c \+ i·g is off: expected [\d.−]+, found [\d.−]+ in c\[0, 0\] at step 2;", first)


@pytest.mark.parametrize("name", NAMES)
def test_an_exercise_is_the_answer_without_what_is_to_be_written(tmp_path, name):
    text = make_exercise(name, tmp_path / "mine.py")
    written = EXERCISES[name].written
    assert text.count("raise NotImplementedError") == len(written)
    assert set(exercises.find_methods(text)) == set(exercises.find_methods(read_answer(name)))
    found = graded(tmp_path, name, text)
    assert [finding.verdict for finding in found.lines] == ["not written"] * len(written)
    assert "is still to be written" in faults(found)[0]
    assert found.laws == {}


def test_the_definition_may_be_written_in_update_itself(tmp_path):
    text = make_exercise("lstm", tmp_path / "mine.py")
    methods = exercises.find_methods(text)
    rows = text.splitlines()
    body = (
        '        a = {g: x @ self.W[g] + state.h @ self.U[g] + self.b[g] for g in "ifog"}\n'
        '        c = torch.sigmoid(a["f"]) * state.c + torch.sigmoid(a["i"]) * torch.tanh(a["g"])\n'
        '        return State(torch.sigmoid(a["o"]) * torch.tanh(c), c)'
    )
    rows[methods["read"].body[-1].lineno - 1] = "        return state.h"
    rows[methods["update"].body[-1].lineno - 1] = body
    found = graded(tmp_path, "lstm", "\n".join(rows))
    assert faults(found) == []
    rows[methods["update"].body[-1].lineno - 1] = body.replace('a["f"]', 'a["i"]')
    first = faults(graded(tmp_path, "lstm", "\n".join(rows)))
    assert any("update: the line c ← f·c + i·g is off" in fault for fault in first)


def test_a_broken_law_is_a_fault_where_every_line_is_right(tmp_path):
    text = read_answer("lstm").replace("2 * batch * self.width *", "3 * batch * self.width *")
    found = graded(tmp_path, "lstm", text)
    assert {finding.verdict for finding in found.lines} == {"right"}
    assert [name for name, message in found.laws.items() if message] == ["size"]
    assert faults(found)[0].startswith("my_lstm.py: Size law broken by LSTM (3 → 4)")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("[1][2]", "the line c ← f·c + i·g raised IndexError: list index out of range (my_lstm.py, line 64)"),
        ("None", "expected a tensor, found NoneType"),
        ("(f * c + i * g).float()", "expected of torch.float64, found torch.float32"),
        ("(f * c + i * g)[:1]", "expected of shape (3, 4), found (1, 4)"),
        ("f * c / 0 * 0", "found nan"),
    ],
)
def test_whatever_a_line_gives_is_one_line_of_words(tmp_path, monkeypatch, wrong, said):
    monkeypatch.setattr(grade, "judge_laws", lambda case: {})
    first = faults(graded(tmp_path, "lstm", read_answer("lstm").replace("f * c + i * g", wrong)))[0]
    assert said in first
    assert "\n" not in first


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "line 1: SyntaxError"),
        ("x = 1\n", "expected a class LSTM, SoftAlign, Attention, TttLinear, found none of them"),
        ("import sys\nsys.exit(0)\n", "line 2: expected code that returns, found an exit"),
        (read_answer("lstm").replace('"ifog"', '"ifo"', 1), "expected weights W.g of shape (3, 4), found none"),
        (
            read_answer("lstm").replace("return State(zeros", "return Stat(zeros"),
            "NameError: name 'Stat' is not defined (mine.py, line 44)",
        ),
    ],
)
def test_a_file_that_cannot_be_graded_says_why_in_one_line(tmp_path, text, said):
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    found = grade.grade_any(tmp_path / "mine.py")["error"]
    assert said in found
    assert "mine.py" in found
    assert "\n" not in found


def test_a_file_that_is_there_is_not_overwritten(tmp_path):
    path = exercises.write_exercise("lstm", str(tmp_path))
    assert path == tmp_path / "my_lstm.py"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(ExerciseError, match="expected a new file, found one that is there"):
        exercises.write_exercise("lstm", str(path))
    assert path.read_text(encoding="utf-8") == "mine"


def test_an_exercise_speaks_chinese_and_stays_the_same_program(tmp_path):
    with speaking("zh"):
        text = make_exercise("attention", tmp_path / "mine.py")
        answer = exercises.show_answer("attention")
    assert re.search("[\u4e00-\u9fff]", text)
    assert exercises.find_methods(text).keys() == exercises.find_methods(answer).keys()
    own = re.sub(r"  # [^\n]*", "", answer)
    assert own == re.sub(r"  # [^\n]*", "", read_answer("attention")), "a remark was translated that is no remark"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("while True: pass", "my_lstm.py, line 64: expected an answer within 2 s, found none"),
        (
            "import os; os._exit(0)",
            "my_lstm.py: expected code that returns, found that its process ended with the code 0",
        ),
    ],
)
def test_code_that_does_not_return_is_ended(tmp_path, wrong, said):
    path = tmp_path / "my_lstm.py"
    path.write_text(read_answer("lstm").replace("return f * c + i * g", wrong), encoding="utf-8")
    with pytest.raises(ExerciseError) as raised:
        check(str(path), seconds=2)
    assert str(raised.value) == said


@pytest.mark.slow
def test_what_the_process_finds_comes_back(tmp_path):
    path = tmp_path / "my_lstm.py"
    path.write_text(read_answer("lstm") + "print('made')\n", encoding="utf-8")
    assert list_faults(check(str(path))) == []


def test_the_grader_is_started_without_torch():
    code = "import sys\nfrom recollect.learn import check, exercises, walk\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
