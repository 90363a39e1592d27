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
    best = min(first["tried"], key=lambda trial: trial["value"])
    assert first["lr"] == best["rate"] == rows[0]["settings"]["train"]["lr"]
    assert first["tokens"] == sum(trial["tokens"] for trial in first["tried"]) == rows[0]["tokens"]  # three thirds
    assert not any((tmp_path / "search").glob("*"))


def tried(rate, value, way=None, **more):
    return {"rate": rate, "value": value, "way": way, "seconds": 1.0, "tokens": 5, "flops": 1.0} | more


def test_an_entrant_without_a_committed_rate_is_searched_as_the_committed_ones_were(tmp_path, monkeypatch):
    """Whenever it was added: what is known of the others stays as it was."""
    real, seen = entries.train, []

    def train(entry):
        seen.append((entry.entrant.label, entry.lr, entry.steps, entry.seed))
        return real(entry)

    monkeypatch.setattr(entries, "train", train)
    raced([recall("rnn", "mlp", steps=3)], tmp_path, Terms())
    before = rows_of(tmp_path)
    assert [trial[0] for trial in seen] == ["mlp", "rnn"], "nothing was searched"
    seen.clear()
    raced([recall("ar", steps=3)], tmp_path, Terms())
    trials = [("ar", rate, 3, 1000) for rate in (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)]
    assert sorted(seen[:-1]) == trials
    after = {row["entry"]: row for row in rows_of(tmp_path)}
    assert {row["fair"]["search"] for row in after.values()} == {
        "0.0003, 0.001, 0.003, 0.01, 0.03, each with the whole budget"
    }
    assert [row["unfair"] for row in after.values()] == [[], [], []]
    for row in before:
        own = after[row["entry"]]
        assert row | {"standing": None} == own | {"standing": None}
    (heat,) = json.loads((tmp_path / "race.json").read_text())["heats"]
    notes = " ".join(heat["notes"])
    assert "Learning rates of rnn, mlp are committed with the package" in notes
    assert "Learning rates of ar by a search: 0.0003, 0.001, 0.003, 0.01, 0.03, each with the whole budget" in notes
    assert "All were searched alike" in notes


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


def test_a_search_in_which_all_failed_is_made_anew(tmp_path, monkeypatch):
    """The user has mended the layer since."""

    def train(entry):
        raise TypeError("unfinished")

    with monkeypatch.context() as broken:
        broken.setattr(entries, "train", train)
        (row,) = raced([recall("rnn")], tmp_path, Terms(search=2))
    assert row["error"] == "TypeError: unfinished"
    (row,) = raced([recall("rnn")], tmp_path, Terms(search=2))
    assert all(one["value"] is not None for one in row["search"]["tried"])


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
