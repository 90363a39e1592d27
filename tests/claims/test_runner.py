"""What every claim declares, and the runner: rows, claims that break, runs that go on, and the command."""

import json
import math
import re
import sys
from importlib import import_module

import pytest

from recollect import claims
from recollect.claims import runner
from recollect.claims.claim import Claim, Effort, Found, Verdict
from recollect.core.chart import Chart, Line
from recollect.train.loop import Interrupted
from tiny import invoke

NAMES = claims.names()


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_says_what_it_is_and_how_it_is_decided(name):
    claim = claims.load(name)
    assert claim.statement.endswith(".")
    assert claim.statement.count(". ") == 0
    assert claim.sources
    assert claim.experiment
    assert claim.decided
    assert "\n" not in claim.statement + claim.experiment + claim.decided + claim.note
    for source in claim.sources:
        if source.endswith(".txt"):
            assert re.fullmatch(r"00[0-4]_[0-9a-f]{16}\.txt", source)


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
    rows, said = _run(["good", "bad", "odd"], tmp_path)
    assert calls == ["good", "bad", "bad", "odd"]  # what failed is tried again, what stands is not
    assert "[1/3] good: holds (already in" in said
    assert [row["id"] for row in rows] == ["good", "bad", "odd"]


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
