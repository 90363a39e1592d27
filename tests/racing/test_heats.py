"""The built-in heats and ladders."""

import json
from dataclasses import replace

import pytest

from racing.small import OTHERS, raced, texts
from recollect import tasks
from recollect.core.heat import Heat
from recollect.racing.heats import default_heats, heats, ladders
from recollect.racing.notes import write_notes
from recollect.racing.summary import load, summarize
from recollect.racing.terms import Terms, batch_of, task_of
from recollect.training.progress import Progress


@pytest.mark.parametrize("name", ladders())
def test_each_rung_is_one_change(name):
    heat = ladders()[name]
    for before, rung in zip(heat.rungs, heat.rungs[1:], strict=False):
        assert (before.model != rung.model) + len(rung.settings) == 1, rung.name
    gathered = heat.entrants()[-1].settings
    assert set(gathered) == {key for rung in heat.rungs for key in rung.settings}


def test_a_rung_that_sees_the_future_is_judged_by_how_it_writes(tmp_path):
    """Its loss with the whole window in view must not win; for rungs with a mask both figures are one."""
    ladder = ladders()["attention"]
    short = {"steps": 150, "params": None, "step_by_step": True, "metric": ladder.metric, "rungs": ladder.rungs[-2:]}
    heat = texts(tmp_path / "a.txt", **short)
    heat = replace(heat, settings=heat.settings | {"width": "16", "heads": "2", "batch": "16", "lr": "1e-2"})
    causal, blind = raced([heat], tmp_path / "out")
    assert causal["step_by_step"] == pytest.approx(causal["all_at_once"], rel=1e-5)
    assert causal["metric"]["value"] == causal["step_by_step"]
    assert blind["all_at_once"] < causal["all_at_once"] - 0.1
    assert blind["step_by_step"] > causal["step_by_step"]
    (note,) = [note for note in write_notes(heat, [causal, blind]) if "in view" in note]
    assert f"{blind['step_by_step']:.3f} one token at a time" in note
    assert summarize(*load(tmp_path / "out"))[0].in_words().startswith("feed-forward, residual won")


def test_what_nobody_can_get_below_is_no_guess(tmp_path):
    heat = replace(heats()["ratings"], models=("dot",), steps=3)
    terms = Terms(search=0, settings=OTHERS["ratings"] | {"noise": "0.25"})
    (row,) = raced([heat], tmp_path, terms)
    assert row["floor"] == 0.25
    assert set(row["baselines"]) == {"mean", "biases"}
    assert "Nobody can get below 0.250: that much is noise." in write_notes(heat, [row])


@pytest.mark.parametrize("task", heats())
def test_every_task_that_can_be_trained_can_be_raced(task):
    assert task in tasks.names()
    heat = heats()[task]
    assert set(heat.models) <= set(task_of(heat).models)
    assert batch_of(heat)
    assert isinstance(heat, Heat)


def test_there_is_a_heat_for_every_task():
    assert set(heats()) == set(tasks.names())


@pytest.mark.slow
@pytest.mark.parametrize("task", OTHERS)
def test_a_race_of_any_task_leaves_rows_with_its_metric(tmp_path, task):
    heat = heats()[task]
    few = heat.models[-1:] if task != "series" else ("ar", "gru")
    terms = Terms(search=0, budget=3, settings=OTHERS[task])
    rows = raced([replace(heat, models=few)], tmp_path, terms, progress=Progress(quiet=True))
    for row in rows:
        assert "error" not in row, row
        assert row["metric"]["name"] == heat.metric.name
        assert row["metric"]["value"] == heat.metric.of(row)
        assert row["seconds"] is not None
        json.dumps(row, allow_nan=False)


def test_a_race_of_no_task_named_is_where_memory_decides():
    assert [heat.name for heat in default_heats()] == ["recall", "translation"]
