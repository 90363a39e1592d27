"""The search for learning rates."""

import json
import os
import signal
from dataclasses import replace

import pytest

from racing.small import raced, recall, rows_of
from recollect.racing import entry as entries
from recollect.racing import rates, run, search
from recollect.racing.heats import default_heats, heats
from recollect.racing.rows import SEARCHES
from recollect.racing.terms import Terms, task_of
from recollect.training.progress import Progress


def test_committed_rates_are_for_the_data_they_were_found_on():
    heat = heats()["translation"]
    entrant = heat.entrants()[0]
    assert rates.rate_of(heat, entrant) is not None
    assert rates.rate_of(Terms(data={"data": ("some",)}).of(heat), entrant) is None


def test_a_search_takes_the_best_of_its_rates_and_counts_its_cost(tmp_path):
    rows = raced([recall("rnn", steps=9)], tmp_path, Terms(search=3, seeds=2))
    first, second = (row["search"] for row in rows)
    assert first == second  # one search for all seeds
    assert [trial["rate"] for trial in first["tried"]] == [1e-3, 3e-3, 1e-2]
    best = min(first["tried"], key=lambda trial: (trial["value"], trial["way"]))
    assert first["lr"] == best["rate"] == rows[0]["settings"]["train"]["lr"]
    assert first["tokens"] == sum(trial["tokens"] for trial in first["tried"]) == rows[0]["tokens"]  # three thirds
    assert not any((tmp_path / "search").glob("*"))


def tried(rate, value, way=None, **more):
    return {"rate": rate, "value": value, "way": way, "seconds": 1.0, "tokens": 5, "flops": 1.0} | more


GRID = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
ALIKE = "All were searched alike, in this race: the same rates, as much training for each."
UNLIKE = "Learning rates were not sought alike; --search 3 in another --out does so for all."


@pytest.fixture
def seen(monkeypatch):
    """What was trained: entrant, rate, steps and seed of each training."""
    real, found = entries.train, []

    def train(entry):
        found.append((entry.entrant.label, entry.lr, entry.steps, entry.seed))
        return real(entry)

    monkeypatch.setattr(entries, "train", train)
    return found


def notes_of(out):
    (heat,) = json.loads((out / "race.json").read_text())["heats"]
    return heat["notes"]


def trials_of(*labels):
    return sorted((label, rate, 3, 1000) for label in labels for rate in GRID)


def test_with_committed_rates_for_all_nothing_is_searched_and_nothing_else_is_said(tmp_path, seen):
    raced([recall("rnn", "mlp", steps=3)], tmp_path, Terms())
    assert [(label, seed) for label, _, _, seed in seen] == [("mlp", 0), ("rnn", 0)]
    assert not any("earched" in note or "sought" in note for note in notes_of(tmp_path))
    assert any(note.startswith("Learning rates are committed with the package") for note in notes_of(tmp_path))


def test_an_entrant_without_a_committed_rate_makes_a_search_for_all_in_this_very_race(tmp_path, seen):
    """A committed rate comes of a search at other sizes and steps."""
    rows = raced([recall("rnn", "ar", steps=3)], tmp_path, Terms())
    assert sorted(seen[:-2]) == trials_of("rnn", "ar")
    for row in rows:
        assert [trial["rate"] for trial in row["search"]["tried"]] == list(GRID)
        assert row["settings"]["train"]["lr"] == row["search"]["lr"]
        assert row["unfair"] == []
    assert notes_of(tmp_path)[-1] == ALIKE
    assert not any("committed" in note for note in notes_of(tmp_path))
    seen.clear()
    raced([recall("mlp", steps=3)], tmp_path, Terms())
    assert sorted(seen[:-1]) == trials_of("mlp"), "whoever comes later is searched as those before"
    assert notes_of(tmp_path)[-1] == ALIKE


def test_who_is_added_later_changes_no_row_and_no_rate_of_the_others_and_the_difference_is_said(tmp_path, seen):
    raced([recall("rnn", "mlp", steps=3)], tmp_path, Terms())
    before = rows_of(tmp_path)
    seen.clear()
    rows = raced([recall("ar", steps=3)], tmp_path, Terms())
    assert sorted(seen[:-1]) == trials_of("ar")
    after = {row["entry"]: row for row in rows_of(tmp_path)}
    for row in before:
        assert row | {"standing": None} == after[row["entry"]] | {"standing": None}
    notes = " ".join(notes_of(tmp_path))
    assert "Learning rates of rnn, mlp are committed with the package" in notes
    assert "Learning rates of ar by a search: 0.0003, 0.001, 0.003, 0.01, 0.03, each with the whole budget" in notes
    assert UNLIKE in notes
    assert ALIKE not in notes
    assert [row["entry"] for row in rows if "search" in row["unfair"]] == ["ar"]
    seen.clear()
    raced([recall("rnn", steps=3)], tmp_path, Terms(seeds=2))
    assert seen == [("rnn", rates.rate_of(heats()["recall"], recall("rnn").entrants()[0]), 3, 1)], "one rate, all seeds"


def test_committed_rates_are_used_beside_a_search_where_the_user_says_so_and_the_race_says_it(tmp_path, seen):
    raced([recall("rnn", "ar", steps=3)], tmp_path, Terms(committed=True))
    assert sorted(seen[:-2]) == trials_of("ar")
    notes = " ".join(notes_of(tmp_path))
    assert "Learning rates of rnn are committed with the package" in notes
    assert UNLIKE in notes
    assert ALIKE not in notes


def test_a_search_of_other_rates_is_made_again(tmp_path, monkeypatch):
    """One that was stopped, and went on with another --search."""

    def stop(entry):
        os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as stopped:
        stopped.setattr(run, "race", stop)
        with pytest.raises(run.Stopped):
            raced([recall("rnn")], tmp_path, Terms(search=2))
    (row,) = raced([recall("rnn")], tmp_path, Terms(search=3))
    assert [trial["rate"] for trial in row["search"]["tried"]] == [1e-3, 3e-3, 1e-2]


def test_where_no_rate_is_committed_all_are_searched_alike(tmp_path):
    heat = replace(
        recall("rnn", "mlp", steps=3), name="parity", task="parity", settings={"batch": "4", "eval_rows": "8"}
    )
    rows = raced([heat], tmp_path, Terms())
    assert [[trial["rate"] for trial in row["search"]["tried"]] for row in rows] == [[1e-3, 3e-3, 1e-2]] * 2
    assert {row["fair"]["search"] for row in rows} == {"0.001, 0.003, 0.01, each with 33% of the budget"}


def test_a_search_that_was_stopped_goes_on_with_what_it_lacks(tmp_path, monkeypatch):
    real, calls = entries.train, []

    def train(entry):
        calls.append(entry.entrant.label)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(entry)

    monkeypatch.setattr(entries, "train", train)
    with pytest.raises(run.Stopped):
        raced([recall("rnn", "mlp")], tmp_path, Terms(search=2))
    assert list(json.loads((tmp_path / SEARCHES).read_text())) == ["recall/mlp"]
    calls.clear()
    calls += [""] * 3
    raced([recall("rnn", "mlp")], tmp_path, Terms(search=2))
    assert calls[3:] == ["rnn", "rnn", "mlp", "rnn"]


def test_a_search_in_which_all_failed_is_made_anew(tmp_path, monkeypatch, capsys):
    """The user has mended the layer since."""

    def train(entry):
        raise TypeError("unfinished")

    with monkeypatch.context() as broken:
        broken.setattr(entries, "train", train)
        (row,) = raced([recall("rnn")], tmp_path, Terms(search=2), progress=Progress())
    assert row["error"] == "TypeError: unfinished"
    assert "failed: TypeError: unfinished" in capsys.readouterr().err
    (row,) = raced([recall("rnn")], tmp_path, Terms(search=2), progress=Progress())
    assert all(one["value"] is not None for one in row["search"]["tried"])
    assert "on validation, less is better" in capsys.readouterr().err


def test_a_rate_that_does_not_last_is_not_taken():
    answers = [tried(1e-3, 2.0, 3.0), tried(1e-2, None, seconds=2.0, tokens=3, flops=None)]
    assert search._best(answers, 0.5) == {
        "lr": 1e-3, "share": 0.5, "tried": answers, "seconds": 3.0, "tokens": 8, "flops": 1.0,
    }  # fmt: skip


def test_of_rates_that_reach_the_same_the_one_that_was_there_sooner_is_taken():
    assert search._best([tried(1e-3, 0.0, 0.5), tried(3e-3, 0.0, 0.2), tried(1e-2, 0.0, 0.3)], 1.0)["lr"] == 3e-3
    assert search._best([tried(1e-3, 0.0, 0.5), tried(3e-3, 0.1, 0.2)], 1.0)["lr"] == 1e-3


@pytest.mark.parametrize("name", [heat.name for heat in default_heats()])
def test_built_in_heats_have_committed_rates_out_of_what_was_tried(name):
    heat = heats()[name]
    own = rates.committed()[name]
    for entrant in heat.entrants():
        if entrant.model not in task_of(heat).counted:
            rate = rates.rate_of(heat, entrant)
            values = {float(key): value for key, value in own["tried"][entrant.label].items() if value is not None}
            assert values[rate] == min(values.values()), entrant.label
    assert rates.how(heat)
