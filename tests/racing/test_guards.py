"""What a race refuses before it begins, and what may break in it without stopping the others."""

import json
import multiprocessing
import time
from dataclasses import dataclass

import pytest

from racing.small import SMALL, raced, recall, rows_of
from recollect.core.files import FileError, locked
from recollect.core.settings import SettingError
from recollect.layers import LAYERS, rnn
from recollect.racing import entry as entries
from recollect.racing.heats import heats
from recollect.racing.run import check_cost
from recollect.racing.terms import Terms, task_of, with_models
from recollect.racing.workers import Local
from tiny import invoke

TOO_MANY = {
    "a million seeds": (
        ["--models", "rnn,gru", "--seeds", "1000000"],
        r"at most 10,000 trainings, found 2,000,000 \(models: 2, --seeds: 1,000,000",
    ),
    "as many rates": (
        ["--search", "1000000000"],
        "--search: expected at most 25 rates, .*found 1,000,000,000, which is as many trainings of each model",
    ),
    "seeds and rates": (["--models", "rnn", "--seeds", "9990", "--search", "25"], "found 10,015 .*trials of rates: 25"),
    "jobs": (["--models", "rnn", "--jobs", "1000000"], "--jobs: expected at most .* entries at a time, .*1,000,000"),
    "steps": (["--models", "rnn", "--budget", "1e18"], r"at most 1e\+09 steps .*found 1e\+18 for each of 3 trainings"),
    "seconds": (["--models", "rnn", "--equal", "seconds", "--budget", "1e18"], r"at most 1e\+08 seconds"),
}


@pytest.mark.parametrize("case", TOO_MANY)
def test_absurd_counts_are_refused_with_what_they_would_take(tmp_path, case):
    words, message = TOO_MANY[case]
    found = invoke("race", "recall", *words, "--out", tmp_path / "out")
    assert found.exit_code == 1
    with pytest.raises(SettingError, match=message):
        raise found.exception
    assert not (tmp_path / "out").exists()


def test_a_large_budget_of_flops_is_none_that_is_absurd():
    """An hour of a GPU is more than 1e18 of them."""
    check_cost([recall("rnn")], Terms(equal="flops", budget=1e20), Local())


def test_a_name_that_stands_a_thousand_times_is_checked_once(monkeypatch):
    heat, calls = heats()["recall"], []
    task = task_of(heat)
    real = task.check_model
    monkeypatch.setattr(task, "check_model", lambda model: calls.append(model) or real(model))
    assert with_models(heat, ["rnn", "gru"] * 1000).models == ("rnn", "gru")
    assert calls == ["rnn", "gru"]


def test_a_second_race_in_the_same_folder_is_refused_and_writes_nothing(tmp_path):
    with locked(tmp_path, wait=False), pytest.raises(FileError, match="no other race writes to, found one in use"):
        raced([recall("rnn")], tmp_path)
    assert list(tmp_path.iterdir()) == []
    raced([recall("rnn")], tmp_path)  # the lock ends with its holder
    assert len(rows_of(tmp_path)) == 1


def _race(folder):
    raced([recall("rnn", "mlp", steps=400)], folder)


@pytest.mark.slow
def test_while_one_process_races_another_is_refused_and_nothing_is_mixed(tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=_race, args=(tmp_path,))
    process.start()
    while not (tmp_path / "race.json").exists() and process.is_alive():
        time.sleep(0.05)
    with pytest.raises(FileError, match="found one in use"):
        raced([recall("gru", steps=400)], tmp_path)
    process.join()
    assert process.exitcode == 0
    assert [row["entry"] for row in rows_of(tmp_path)] == ["rnn", "mlp"]


# A layer of one's own that breaks


@dataclass(frozen=True, kw_only=True)
class Broken(rnn.Config):
    def build(self):
        raise self.error


class NoDataclass(rnn.Config):
    """Its fields cannot be asked for."""

    __dataclass_fields__ = None


@pytest.fixture
def mine(monkeypatch):
    """Puts a layer `mine` into the registry, as if RECOLLECT_LAYERS named its file."""

    def put(config):
        monkeypatch.setenv("RECOLLECT_LAYERS", "/some/place/mine.py")
        monkeypatch.setitem(LAYERS, "mine", config)

    return put


@pytest.mark.parametrize(
    ("error", "search"), [(TypeError("bad operand"), 0), (SystemExit("done"), 1), (KeyError("/home/x/y"), 0)]
)
def test_a_layer_that_cannot_be_built_leaves_the_others_running(tmp_path, mine, error, search):
    mine(type("Mine", (Broken,), {"error": error}))
    good, bad = raced([recall("rnn", "mine")], tmp_path, Terms(search=search))
    assert "error" not in good
    assert type(error).__name__ in bad["error"] or str(error) in bad["error"]
    assert "/home" not in bad["error"]


@pytest.mark.parametrize("settings", [{}, {"width": "4"}])
def test_a_layer_whose_settings_cannot_be_asked_for_leaves_the_others_running(tmp_path, mine, settings):
    mine(NoDataclass)
    heat = with_models(recall("rnn", "mlp", params=None), ["rnn", "mine"])
    good, bad = raced([heat], tmp_path, Terms(search=0, settings=settings))
    assert "error" not in good
    assert bad["error"]


def test_a_layer_that_is_not_the_users_own_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setitem(LAYERS, "mine", NoDataclass)
    with pytest.raises(AttributeError, match="values"):
        raced([recall("rnn", "mine")], tmp_path)


def test_a_wrong_setting_is_still_refused_before_anything_runs(tmp_path, mine):
    mine(rnn.Config)
    with pytest.raises(SettingError, match="eval_rows"):
        raced([recall("mine", "rnn", settings=SMALL | {"eval_rows": "many"})], tmp_path)
    assert not (tmp_path / "results.jsonl").exists()


def test_a_row_that_could_not_be_read_again_is_a_failure(tmp_path, monkeypatch):
    """What a layer says of itself goes into its row."""
    monkeypatch.setattr(entries.evidence, "layer_card", lambda run: {"name": object()})
    (row,) = raced([recall("rnn")], tmp_path)
    assert "not JSON serializable" in row["error"]
    monkeypatch.setattr(entries.evidence, "layer_card", lambda run: {"name": 5})
    (row,) = raced([recall("rnn")], tmp_path)
    assert row["error"].startswith("card.name: expected a string, found 5")
    json.loads((tmp_path / "results.jsonl").read_text())
