"""A race: the rows it leaves, and what happens when it is stopped, fails or goes on."""

import json
import os
import signal
from dataclasses import replace

import pytest

from racing.small import SMALL, raced, recall, rows_of, texts
from recollect.core.metric import Metric
from recollect.models.size import parameters
from recollect.racing import entry as entries
from recollect.racing import run
from recollect.racing.heats import heats
from recollect.racing.rows import SEARCHES
from recollect.racing.summary import load, summarize
from recollect.racing.terms import Terms
from recollect.racing.workers import Local
from recollect.training import evaluation
from recollect.training import run as training
from tiny import prose


def test_the_same_seed_gives_the_same_rows_twice(tmp_path):
    heats = [recall("rnn", "transformer"), texts(tmp_path / "a.txt", "ngram", "gru")]
    for name in ("one", "two"):
        raced(heats, tmp_path / name)
    assert rows_of(tmp_path / "one") == rows_of(tmp_path / "two")
    assert len(rows_of(tmp_path / "one")) == 4


@pytest.mark.slow
def test_entries_in_processes_of_their_own_give_the_bits_of_entries_here(tmp_path):
    heat = recall("rnn", "lstm", "mlp")
    for jobs in (1, 2):
        raced([heat], tmp_path / str(jobs), workers=Local(jobs=jobs))
    assert rows_of(tmp_path / "1") == rows_of(tmp_path / "2")


def test_another_seed_gives_other_figures(tmp_path):
    rows = raced([recall("rnn")], tmp_path, Terms(search=0, seeds=2))
    assert [row["seed"] for row in rows] == [0, 1]
    assert rows[0]["end"]["train"] != rows[1]["end"]["train"]


def test_a_finished_entry_is_a_run_that_loads_and_keeps_the_laws(tmp_path):
    (row,) = raced([recall("gru")], tmp_path)
    folder = tmp_path / row["run"]
    assert parameters(training.load(folder).model) == row["params"]
    found = evaluation.verify(str(folder))
    assert max(error for law, error in found.items() if not law.startswith("step")) < 1e-10
    assert not (folder / "checkpoints").exists()


def test_a_row_holds_what_the_page_shows(tmp_path):
    rows = raced([recall("rnn"), texts(tmp_path / "a.txt", "ngram", "rnn")], tmp_path / "out")
    memory, counted, text = rows
    for row in rows:
        assert {"heat", "rung", "entry", "card", "learning", "sample", "gradient", "costs", "search"} <= set(row)
        assert row["unfair"] == []
        assert "error" not in row
        assert set(row["card"]) >= {"name", "state", "update", "read", "grows", "fast"}
        assert [cost["length"] for cost in row["costs"]] == [64, 256, 1024, 4096]
    assert memory["metric"]["name"] == "accuracy"
    assert memory["metric"]["value"] == memory["accuracy"]
    assert [point[0] for point in memory["learning"]] == [1, 2, 3, 4, 5, 6]
    assert memory["learning"][-1][3] == pytest.approx(1 - memory["curve"][-1][1])
    steps = len(memory["gradient"]["norm"])  # up to the last question
    assert memory["gradient"]["distance"] == list(range(steps))
    assert 4 < steps <= 8
    assert memory["gradient"]["norm"][0] > 0
    assert counted["gradient"] is None
    assert counted["entries"] > 0
    assert text["sample"]["text"].startswith(text["sample"]["prompt"])
    assert len(text["sample"]["text"]) > len(text["sample"]["prompt"])
    assert len(text["by_position"]) == 12


def test_race_json_says_what_was_asked(tmp_path):
    raced([recall("rnn")], tmp_path)
    about = json.loads((tmp_path / "race.json").read_text())
    (heat,) = about["heats"]
    assert about["schema"] == 1
    assert heat["metric"] == {"name": "accuracy", "label": "share recalled", "better": "higher", "unit": "share"}
    assert heat["terms"]["steps"] == heat["terms"]["budget"] == 6
    assert (heat["terms"]["params"], heat["terms"]["batch"], heat["terms"]["equal"]) == (1_500, 4, "params")
    assert heat["ladder"] is None
    assert heat["rungs"] is None
    assert any("Without a network: 16.7% right by chance" in note for note in heat["notes"])  # 6 values to choose from


def mark(rows, name):
    return [row["entry"] for row in rows if name in row["unfair"]]


def test_a_row_of_other_data_is_marked_when_a_race_goes_on(tmp_path):
    path, out = tmp_path / "a.txt", tmp_path / "out"
    raced([texts(path, "rnn", "gru")], out)
    heat = texts(path, "rnn", "gru", "mlp")
    path.write_text(prose(1300, seed=1))
    rows = raced([heat], out)
    assert mark(rows, "data") == ["mlp"]
    assert "unfair" in summarize(*load(out))[0].table()[0]


def test_a_race_goes_on_with_what_it_lacks(tmp_path, monkeypatch):
    raced([recall("rnn")], tmp_path)
    before = (tmp_path / "runs" / "recall-rnn-0" / "model.safetensors").stat().st_mtime_ns
    rows = raced([recall("rnn", "mlp")], tmp_path)
    assert [row["entry"] for row in rows] == ["rnn", "mlp"]
    assert (tmp_path / "runs" / "recall-rnn-0" / "model.safetensors").stat().st_mtime_ns == before


def test_what_a_killed_race_was_about_to_write_is_removed(tmp_path):
    (tmp_path / ".results.jsonl.0123abcd.part").write_text("{")
    raced([recall("rnn")], tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_a_race_on_other_terms_is_refused(tmp_path):
    raced([recall("rnn")], tmp_path)
    with pytest.raises(ValueError, match="same terms to go on with, found one with steps 6, budget 6; use"):
        raced([recall("rnn", steps=7)], tmp_path)
    with pytest.raises(ValueError, match="expected a race with the heats text, found recall"):
        raced([texts(tmp_path / "a.txt", "rnn")], tmp_path)


def test_a_race_that_nobody_finished_gives_way_to_one_on_other_terms(tmp_path):
    rows = raced([recall("rnn", params=10)], tmp_path)
    assert all("error" in row for row in rows)
    kept = {"recall/rnn": {"lr": 0.1, "tried": [{"rate": 0.1, "value": 0.5}], "seconds": 1.0}}
    (tmp_path / SEARCHES).write_text(json.dumps(kept))
    with pytest.raises(ValueError, match="same terms"):  # what a search has found is not thrown away
        raced([recall("rnn")], tmp_path)
    kept["recall/rnn"]["tried"][0]["value"] = None
    (tmp_path / SEARCHES).write_text(json.dumps(kept))
    (row,) = raced([recall("rnn")], tmp_path)
    assert "error" not in row


@pytest.mark.parametrize("line", [b'{"heat": "recall"', b"5", b"[]", b'{"heat": "recall"}', b"\xff"])
def test_a_line_that_is_no_row_is_named(tmp_path, line):
    raced([recall("rnn")], tmp_path)
    with (tmp_path / "results.jsonl").open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(ValueError, match=r"results.jsonl, line 2: expected a row of a race, .*delete that line"):
        raced([recall("rnn")], tmp_path)


@pytest.mark.parametrize("value", ["NaN", "null", "Infinity"])
def test_an_entry_whose_figure_is_no_number_runs_again(tmp_path, value):
    (before,) = raced([recall("rnn")], tmp_path)
    place = tmp_path / "results.jsonl"
    row = json.loads(place.read_text()) | {"metric": before["metric"] | {"value": "?"}}
    place.write_text(json.dumps(row).replace('"?"', value))
    (after,) = raced([recall("rnn")], tmp_path)
    assert after["metric"] == before["metric"]


def test_a_file_is_no_place_for_a_race(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file: expected a folder for the race, found a file; use another --out"):
        raced([recall("rnn")], tmp_path / "file")


def test_an_entry_that_fails_is_a_row_and_the_others_go_on(tmp_path):
    heat = recall("rnn", "transformer", settings=SMALL | {"heads": "3"}, params=40)  # too few for any transformer
    rows = raced([heat], tmp_path)
    failed = {row["entry"]: row.get("error") for row in rows}
    assert "params: expected at least" in failed["transformer"]
    again = raced([replace(heat, params=40)], tmp_path)
    assert len(again) == len(rows)
    notes = json.loads((tmp_path / "race.json").read_text())["heats"][0]["notes"]
    assert any("transformer, seed 0, failed: params" in note for note in notes)


@pytest.mark.parametrize("broken", [TypeError("bad operand"), KeyError("taps"), AssertionError()])
def test_an_entry_may_fail_in_any_way(tmp_path, monkeypatch, broken):
    """As a layer of a user's own does that is not finished."""
    real = entries.train

    def train(entry):
        if entry.entrant.label == "mlp":
            raise broken
        return real(entry)

    monkeypatch.setattr(entries, "train", train)
    kept, lost = raced([recall("rnn", "mlp")], tmp_path)
    assert "error" not in kept
    assert lost["error"].startswith(type(broken).__name__)


def test_a_figure_that_is_no_number_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(Metric, "of", lambda self, row: float("nan"))
    (row,) = raced([recall("rnn")], tmp_path)
    assert row["error"] == "share recalled: expected a number at the end of training, found nan"
    assert summarize(*load(tmp_path))[0].table()[1][0][2] == "failed"


def test_data_that_are_not_there_are_told_before_anything_runs(tmp_path):
    heat = replace(heats()["text"], models=("rnn",), data={"data": (str(tmp_path / "none.txt"),), "tokenizer": "chars"})
    with pytest.raises((ValueError, OSError), match=r"none\.txt"):
        raced([heat], tmp_path / "out")
    assert not (tmp_path / "out" / "results.jsonl").exists()


def test_a_stopped_race_says_how_to_go_on_and_does(tmp_path, monkeypatch):
    real, calls = entries.train, []

    def train(entry):
        calls.append(entry.entrant.label)
        if calls == ["mlp", "rnn"]:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(entry)

    monkeypatch.setattr(entries, "train", train)
    heat = recall("rnn", "mlp")
    with pytest.raises(run.Stopped, match="stopped with 1 of 2 entries done and kept; go on with the same command"):
        raced([heat], tmp_path / "stopped")
    assert [row["entry"] for row in rows_of(tmp_path / "stopped")] == ["mlp"]
    monkeypatch.undo()
    raced([heat], tmp_path / "stopped")
    raced([heat], tmp_path / "whole")
    assert rows_of(tmp_path / "stopped") == rows_of(tmp_path / "whole")
