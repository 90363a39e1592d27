"""What every claim declares, and the runner: rows, claims that break, runs that go on, and the command."""

import json
import math
import re
import sys
from importlib import import_module

import pytest

from recollect import claims
from recollect.claims import runner
from recollect.claims.claim import CHAPTERS, Claim, Effort, Found, Verdict
from recollect.claims.laboratory import watch
from recollect.core.chart import Chart, Line, check_chart
from recollect.core.files import FileError, locked
from recollect.core.typed import TypeMismatch
from recollect.training.loop import Interrupted
from tiny import invoke

NAMES = claims.names()
NOTES = "overview|sequence-model|self-attention|Transformer|lecture"


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_says_what_it_is_and_how_it_is_decided(name):
    claim = claims.load(name)
    assert claim.statement.endswith(".")
    assert claim.statement.count(". ") == 0
    assert claim.sources
    assert claim.experiment
    assert claim.decided
    assert "\n" not in claim.statement + claim.experiment + claim.decided + claim.note
    assert claim.chapter in range(1, len(CHAPTERS) + 1)
    for source in claim.sources:  # a note is cited by its name and a few of its words
        assert " note" not in source or re.match(rf"the ({NOTES}) note: 「[^」]+」", source)


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_with_two_forms_says_how_both_are_decided(name):
    home = import_module(f"recollect.claims.{name.replace('-', '_')}")
    if hasattr(home, "FULL"):
        assert "full" in home.CLAIM.decided.lower()


NEW = '''
from recollect.claims.claim import Claim, Found, Verdict

LEAST = 0.5


def run(effort):
    return Found(verdict=Verdict.HOLDS, summary=f"more than {LEAST}")


CLAIM = Claim(
    statement="It is so.", sources=("a book",), experiment="look", decided=f"""More than {LEAST}
    holds.""", run=run
)
'''


def test_a_claim_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "in_one_file.py").write_text(NEW, encoding="utf-8")
    monkeypatch.setattr(claims, "__path__", [*claims.__path__, str(tmp_path)])
    monkeypatch.setitem(sys.modules, "recollect.claims.in_one_file", None)  # forgotten afterwards
    del sys.modules["recollect.claims.in_one_file"]
    assert "in-one-file" in claims.names()
    out = tmp_path / "found"
    found = invoke("claims", "in-one-file", "--device", "cpu", "--json", "--out", str(out))
    assert found.exit_code == 0
    (row,) = json.loads(found.stdout)
    assert (row["id"], row["verdict"], row["decided"]) == ("in-one-file", "holds", "More than 0.5 holds.")
    assert "in-one-file" in (out / "claims.html").read_text(encoding="utf-8")


# The runner


def fake(name, run, **changes):
    about = {"statement": f"{name} is so.", "sources": ("a book",), "experiment": "look", "decided": "by looking"}
    return Claim(run=run, **about | changes)


@pytest.fixture
def board(monkeypatch):
    """Three made-up claims: good, bad (its experiment breaks), odd (numbers that JSON does not have)."""
    calls = []

    def good(effort):
        calls.append("good")
        chart = Chart("t", "x", "y", [Line("a", [1], [2.0])])
        return Found(verdict=Verdict.HOLDS, summary="as said", figures={"seeds": effort.seeds}, charts=[chart])

    def bad(effort):
        calls.append("bad")
        raise RuntimeError("no\n luck")

    def odd(effort):
        calls.append("odd")
        return Found(verdict=Verdict.FAILS, summary="not so", figures={"a": [math.inf, {"b": math.nan}], "c": 1.0})

    known = {"good": fake("good", good), "bad": fake("bad", bad), "odd": fake("odd", odd)}
    monkeypatch.setattr(runner, "load", known.__getitem__)
    monkeypatch.setattr(runner, "names", lambda: list(known))
    monkeypatch.setattr(runner, "code_of", lambda name, full: f"code of {name}")
    return known, calls


def _run(wanted, out, **effort):
    said = []
    return runner.run(wanted, Effort(**effort), out, lambda text, end: said.append(text + end)), "".join(said)


def test_one_experiment_that_breaks_does_not_stop_the_others(board, tmp_path):
    rows, said = _run(["good", "bad", "odd"], tmp_path)
    assert [row["verdict"] for row in rows] == ["holds", "failed", "does not hold here"]
    assert rows[1]["summary"] == "RuntimeError: no luck"
    assert rows[2]["figures"] == {"a": [None, {"b": None}], "c": 1.0}
    assert said.count("\n") == 3
    assert "[2/3] bad: failed (RuntimeError: no luck)" in said
    assert runner.read(tmp_path / "claims.jsonl") == rows
    keys = "id statement sources experiment decided verdict summary figures charts note deterministic seconds effort"
    for row in rows:
        assert set(keys.split()) <= set(row)
        assert row["commit"]
        assert row["machine"]["torch"]
    assert rows[0]["charts"][0]["lines"][0]["y"] == [2.0]
    assert rows[0]["effort"] == "quick"


def test_a_stopped_run_goes_on_where_it_left_off(board, tmp_path):
    _, calls = board
    _run(["good", "bad"], tmp_path)
    (tmp_path / ".claims.jsonl.0123abcd.part").write_text("{")  # of a run that was killed while it wrote
    rows, said = _run(["good", "bad", "odd"], tmp_path)
    assert calls == ["good", "bad", "bad", "odd"]  # what failed is tried again, what stands is not
    assert "[1/3] good: holds (already in" in said
    assert [row["id"] for row in rows] == ["good", "bad", "odd"]
    assert not list(tmp_path.glob(".*"))


def test_another_effort_or_another_rule_is_run_anew(board, tmp_path):
    known, calls = board
    _run(["good"], tmp_path)
    rows, _ = _run(["good"], tmp_path, seeds=7)
    assert calls == ["good"] * 2
    assert rows[0]["figures"] == {"seeds": 7}
    _run(["good"], tmp_path, seeds=7, full=True)
    known["good"] = fake("good", known["good"].run, decided="by looking twice")
    _run(["good"], tmp_path, seeds=7, full=True)
    assert calls == ["good"] * 4


def test_a_row_made_by_other_code_is_run_anew(board, tmp_path, monkeypatch):
    _, calls = board
    _run(["good"], tmp_path)
    monkeypatch.setattr(runner, "code_of", lambda name, full: "other code")
    rows, _ = _run(["good"], tmp_path)
    assert calls == ["good"] * 2
    assert rows[0]["code"] == "other code"


def test_stopping_a_training_stops_the_whole_run(board, tmp_path):
    def stopped(effort):
        raise Interrupted("stopped at step 3")

    known, calls = board
    known["bad"] = fake("bad", stopped)
    with pytest.raises(Interrupted, match="stopped while bad ran; the same command goes on with it"):
        _run(["good", "bad", "odd"], tmp_path)
    assert calls == ["good"]
    assert [row["id"] for row in runner.read(tmp_path / "claims.jsonl")] == ["good"]


@pytest.mark.parametrize("line", ["{", "[]", '{"id": "good"}'])
def test_a_row_that_is_none_is_one_clear_line(board, tmp_path, line):
    (tmp_path / "claims.jsonl").write_text(line + "\n")
    with pytest.raises(ValueError, match="line 1: expected the row of a claim, found something else"):
        _run(["good"], tmp_path)


def test_the_command_lists_every_claim():
    found = invoke("claims", "--list", "--json")
    assert found.exit_code == 0
    assert [row["id"] for row in json.loads(found.stdout)] == NAMES


def test_the_command_writes_rows_and_a_page(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = str(tmp_path / "found")
    found = invoke("claims", "heads-params", "receptive", "--device", "cpu", "--out", out)
    assert found.exit_code == 0
    assert "does not hold here" in found.stdout
    assert "holds within limits" in found.stdout
    page = (tmp_path / "found" / "claims.html").read_text(encoding="utf-8")
    assert "heads-params" in page
    assert "16,384" in page
    again = invoke("claims", "receptive", "--device", "cpu", "--out", out, "--json")
    (row,) = json.loads(again.stdout)
    assert row["verdict"] == "holds within limits"
    assert "already in" in again.stderr


def test_the_command_fails_when_an_experiment_could_not_run(board, tmp_path, monkeypatch):
    known, _ = board
    monkeypatch.setattr(claims, "names", lambda: list(known))
    found = invoke("claims", "--device", "cpu", "--out", str(tmp_path))
    assert found.exit_code == 1
    assert isinstance(found.exception, ValueError)
    assert "bad could not" in str(found.exception)
    assert (tmp_path / "claims.html").exists()


def test_a_misspelt_claim_gets_a_suggestion():
    found = invoke("claims", "vansh")
    assert found.exit_code == 1
    assert "did you mean 'vanish'" in str(found.exception)


# Rows of a file that somebody altered


def alter(row, path, value):
    at = row
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return row


LINE = ("charts", 0, "lines", 0)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("id",), None, "id: expected a string"),
        (("verdict",), ["holds"], "verdict: expected a string"),
        (("seconds",), "long", "seconds: expected a number"),
        (("seconds",), -1, "seconds: expected at least 0"),
        (("figures",), [], "figures: expected an object"),
        (("machine",), "mine", "machine: expected an object"),
        (("charts",), {}, "charts: expected a list"),
        (("charts", 0), None, r"charts\[0\]: expected an object"),
        (("charts", 0, "title"), 5, r"charts\[0\].title: expected a string"),
        (("charts", 0, "level"), 1.0, r"charts\[0\]: expected level_name beside level"),
        ((*LINE, "x"), [1, "a"], r"lines\[0\].y: expected 2 values, found 1"),
        ((*LINE, "y"), [], r"lines\[0\].y: expected 1 values, found 0"),
        ((*LINE, "y"), [1e308], r"lines\[0\].y\[0\]: expected a number of at most 10\^250"),
        ((*LINE, "low"), [1.0, 2.0], r"lines\[0\].low: expected 1 values, found 2"),
        ((*LINE, "name"), "n" * 2000, r"lines\[0\].name: expected a name of at most 1,000 characters"),
    ],
)
def test_an_altered_row_is_named_by_line_and_key(board, tmp_path, path, value, words):
    chart = {"title": "t", "x": "x", "y": "y", "lines": [{"name": "a", "x": [1], "y": [2.0], "low": None}]}
    row = {"id": "good", "statement": "s", "verdict": "holds", "summary": "", "seconds": 1.0, "figures": {}}
    row = json.loads(json.dumps(row | {"charts": [chart]}))
    file = tmp_path / "claims.jsonl"
    file.write_text(json.dumps(row) + "\n")
    assert runner.read(file) == [row]
    file.write_text(json.dumps(alter(row, path, value)) + "\n")
    with pytest.raises(ValueError, match=rf"line 1: expected the row of a claim.*{words}.*remove the line"):
        _run(["good"], tmp_path)


def test_a_map_whose_names_do_not_fit_is_refused(tmp_path):
    grid = {"title": "t", "x": "x", "y": "y", "values": [[1.0, None], [2.0]], "columns": ["a", "b"], "rows": None}
    check_chart(grid, "chart")
    with pytest.raises(TypeMismatch, match=r"chart.columns: expected 2 values, found 1"):
        check_chart(grid | {"columns": ["a"]}, "chart")
    with pytest.raises(TypeMismatch, match=r"chart.rows: expected 2 values, found 3"):
        check_chart(grid | {"rows": ["a", "b", "c"]}, "chart")


def test_a_second_run_of_claims_in_the_same_folder_is_refused(board, tmp_path):
    with locked(tmp_path, wait=False), pytest.raises(ValueError, match="no other run of claims writes to"):
        _run(["good"], tmp_path)
    assert not (tmp_path / "claims.jsonl").exists()


def test_a_million_seeds_are_refused_with_what_they_would_cost(tmp_path):
    done = invoke("claims", "vanish", "--seeds", 10**6, "--device", "cpu", "--out", tmp_path / "out")
    assert str(done.exception).endswith("found 1,000,000, with which 1 claims would train at least 1,000,000 models")
    assert not (tmp_path / "out").exists()


def test_a_long_claim_shows_the_training_that_runs_and_the_time_left_of_it(monkeypatch, tmp_path):
    monkeypatch.setattr(watch.time, "monotonic", iter(range(0, 10_000, 20)).__next__)

    def run(effort):
        for _ in range(2):
            progress = watch.next_training()
            progress.say("what one training says of its data")
            if progress.due():
                progress.show({"step": "5/10", "loss": "1.5", "memory": "9 MB"}, 0.5, 90.0)
        return Found(verdict=Verdict.HOLDS, summary="it is so")

    monkeypatch.setattr(runner, "load", lambda name: fake(name, run))
    said = []
    runner.run(["vanish"], Effort(), tmp_path, lambda text, end: said.append(text + end))
    lines = "".join(said).splitlines()
    assert lines[:3] == [
        "[1/1] vanish: ",
        "  training 1  step 5/10  loss 1.5  1:30 left",
        "  training 2  step 5/10  loss 1.5  1:30 left",
    ]
    assert lines[3].startswith("[1/1] vanish: holds")
    assert watch.next_training().quiet


def test_a_place_that_cannot_be_written_is_refused_before_a_claim_runs(board, tmp_path, monkeypatch):
    (tmp_path / runner.FILE).symlink_to(tmp_path / "nothing")
    monkeypatch.setattr(runner, "_try", lambda *given: pytest.fail("ran"))
    with pytest.raises(FileError, match="found a link to nothing"):
        _run(["good"], tmp_path)
