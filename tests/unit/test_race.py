"""The race: the same terms for all, the same rows from the same seed, and what happens when something goes wrong."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recollect import tasks
from recollect.cli import app
from recollect.core.contract import ContractError
from recollect.core.heat import Heat
from recollect.core.metric import Metric
from recollect.core.settings import SettingError
from recollect.models.size import parameters
from recollect.race import entry as entries
from recollect.race import rates, run, search
from recollect.race.heats import default_heats, heats, ladders
from recollect.race.notes import write_notes
from recollect.race.summary import SIZE_TOLERANCE, load, summarize
from recollect.race.terms import Terms, accepted, batch_of, task_of, with_models
from recollect.train import run as training
from recollect.train.progress import Progress
from tiny import prose

TIMES = ("seconds", "peak_bytes", "machine", "commit")
SMALL = {"length": "8", "load": "2", "vocab": "12", "batch": "4", "eval_rows": "20", "layers": "1", "heads": "1"}


def recall(*models, **changes):
    """A heat of a moment."""
    usual = {"models": models or ("rnn", "mlp"), "params": 1_500, "steps": 6, "settings": SMALL}
    return replace(heats()["recall"], **usual | changes)


def texts(path, *models, **changes):
    path.write_text(prose(1200))
    settings = {"batch": "4", "context": "12", "eval_tokens": "200", "layers": "1"}
    usual = {"models": models, "params": 3_000, "steps": 6, "settings": settings}
    return replace(heats()["text"], **usual | changes, data={"data": (str(path),), "tokenizer": "chars"})


def raced(heats, out, terms=None, **options):
    return run.run(heats, terms or Terms(search=0), out, title="a race", command="recollect race", **options)


def timeless(content):
    """All but what the clock and the machine say."""
    if isinstance(content, dict):
        return {name: timeless(value) for name, value in content.items() if name not in TIMES}
    if isinstance(content, list):
        return [timeless(value) for value in content]
    return content


def rows_of(out):
    found = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    for row in found:
        row["learning"] = [[step, tokens, value] for step, tokens, _, value in row.get("learning", [])]
    return timeless(found)


# ---------------------------------------------------------------------------------------------- what a race leaves


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
        raced([heat], tmp_path / str(jobs), jobs=jobs)
    assert rows_of(tmp_path / "1") == rows_of(tmp_path / "2")


def test_another_seed_gives_other_figures(tmp_path):
    rows = raced([recall("rnn")], tmp_path, Terms(search=0, seeds=2))
    assert [row["seed"] for row in rows] == [0, 1]
    assert rows[0]["end"]["train"] != rows[1]["end"]["train"]


def test_a_finished_entry_is_a_run_that_loads_and_keeps_the_laws(tmp_path):
    (row,) = raced([recall("gru")], tmp_path)
    folder = tmp_path / row["run"]
    assert parameters(training.load(folder).model) == row["params"]
    found = training.verify(str(folder))
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


# ---------------------------------------------------------------------------------------------------- equal terms


@pytest.mark.parametrize(
    "name", [*(heat.name for heat in default_heats()), pytest.param("captions", marks=pytest.mark.slow), "series"]
)
def test_every_model_of_a_built_in_heat_has_the_parameters_of_the_others(name):
    heat = heats()[name]
    seen = set()
    for entrant in heat.entrants():
        if entrant.model in task_of(heat).unsized:
            continue
        one = entries.Entry(heat=heat, terms=Terms(), entrant=entrant, seed=0, folder=Path("nowhere"))
        settings = entries.configure(one)
        data = task_of(heat).load_data(settings.data, None)
        resolved = task_of(heat).resolve(settings, data, heat.params)
        count = parameters(task_of(heat).build_model(resolved.model, task_of(heat).artifacts_of(data), training.load))
        assert abs(count / heat.params - 1) < SIZE_TOLERANCE, (entrant.label, count)
        seen.add((settings.task.batch, settings.train.steps, data.fingerprint))
    assert len(seen) == 1


def test_in_recall_every_memory_stands_in_the_same_block():
    heat = heats()["recall"]
    for entrant in heat.entrants():
        one = entries.Entry(heat=heat, terms=Terms(), entrant=entrant, seed=0, folder=Path("nowhere"))
        model = entries.configure(one).model
        assert (model["block"], model["taps"]) == ("residual", 2), entrant.label


@pytest.mark.slow
def test_what_attention_recalls_is_no_luck_of_a_seed(tmp_path):
    """Half of the heat's steps are enough, with seeds that once ended at 34 and 82 % after all of them."""
    heat = with_models(replace(heats()["recall"], steps=200), ["transformer"])
    for seed in (1, 3):
        (entrant,) = heat.entrants()
        lr = rates.rate_of(heat, entrant)
        one = entries.Entry(heat=heat, terms=Terms(), entrant=entrant, seed=seed, folder=tmp_path / str(seed), lr=lr)
        entries.train(one)
        assert training.result(str(one.folder), split="valid", device="cpu")["accuracy"] > 0.95


def test_an_n_gram_counts_as_many_tokens_as_networks_read(tmp_path):
    counted, trained = raced([texts(tmp_path / "a.txt", "ngram", "rnn")], tmp_path / "out")
    assert counted["tokens"] == trained["tokens"] == 6 * 4 * 12


@pytest.mark.parametrize(("equal", "budget"), [("tokens", 40.0), ("flops", 1e7), ("seconds", 0.05)])
def test_a_budget_ends_every_entry(tmp_path, equal, budget):
    """Spent within one step: a step more would have gone beyond by more than a step's worth."""
    rows = raced([recall("rnn", "mlp")], tmp_path, Terms(search=0, equal=equal, budget=budget))
    for row in rows:
        spent = row[equal]
        steps = row["curve"][-1][0]
        assert spent >= budget
        assert spent * (steps - 1) / steps < budget or equal == "seconds"
        assert row["settings"]["train"]["schedule"] == "cosine"


def test_a_budget_must_be_named():
    with pytest.raises(SettingError, match="--equal flops: expected --budget"):
        Terms(equal="flops")
    with pytest.raises(SettingError, match="--equal: expected one of params, tokens, flops, seconds, found 'time'"):
        Terms(equal="time", budget=3)


def test_no_parameters_is_no_size():
    with pytest.raises(SettingError, match="--params: expected at least 1, found 0"):
        Terms(params=0)


def test_a_setting_reaches_those_who_have_it():
    heat = recall("rnn", "ttt-linear")
    assert accepted(heat, "ttt-linear", {"mini_batch": "4", "batch": "8"}) == {"mini_batch": "4", "batch": "8"}
    assert accepted(heat, "rnn", {"mini_batch": "4", "batch": "8"}) == {"batch": "8"}
    with pytest.raises(SettingError, match="did you mean 'mini_batch'"):
        Terms(settings={"mini_bath": "4"}).of(heat)
    with pytest.raises(SettingError, match="--params: expected a heat with one size for all"):
        Terms(params=100).of(ladders()["attention"])
    with pytest.raises(ContractError, match="did you mean 'lstm'"):
        with_models(heat, ["lstmm"])


def test_data_of_the_users_own_are_measured_as_is_usual_there():
    heat = heats()["translation"]
    assert Terms().of(heat).metric.name == "exact"
    assert Terms(data={"data": ("some",)}).of(heat).metric.name == "bleu"


def test_committed_rates_are_for_the_data_they_were_found_on():
    heat = heats()["translation"]
    entrant = heat.entrants()[0]
    assert rates.rate_of(heat, entrant) is not None
    assert rates.rate_of(Terms(data={"data": ("some",)}).of(heat), entrant) is None


def test_a_model_that_is_named_twice_runs_once():
    assert with_models(recall(), ["rnn", "mlp", "rnn"]).models == ("rnn", "mlp")


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


# ----------------------------------------------------------------------------------------- stopped, failed, gone on


def test_a_race_goes_on_with_what_it_lacks(tmp_path, monkeypatch):
    raced([recall("rnn")], tmp_path)
    before = (tmp_path / "runs" / "recall-rnn-0" / "model.safetensors").stat().st_mtime_ns
    rows = raced([recall("rnn", "mlp")], tmp_path)
    assert [row["entry"] for row in rows] == ["rnn", "mlp"]
    assert (tmp_path / "runs" / "recall-rnn-0" / "model.safetensors").stat().st_mtime_ns == before


def test_a_race_on_other_terms_is_refused(tmp_path):
    raced([recall("rnn")], tmp_path)
    with pytest.raises(ValueError, match="same terms to go on with, found one with steps 6, budget 6; use"):
        raced([recall("rnn", steps=7)], tmp_path)
    with pytest.raises(ValueError, match="expected a race with the heats text, found recall"):
        raced([texts(tmp_path / "a.txt", "rnn")], tmp_path)


def test_a_race_that_nobody_finished_gives_way_to_one_on_other_terms(tmp_path):
    rows = raced([recall("rnn", params=10)], tmp_path)
    assert all("error" in row for row in rows)
    kept = {"recall/rnn": {"lr": 0.1, "tried": [{"rate": 0.1, "value": 0.5}]}}
    (tmp_path / search.FILE).write_text(json.dumps(kept))
    with pytest.raises(ValueError, match="same terms"):  # what a search has found is not thrown away
        raced([recall("rnn")], tmp_path)
    kept["recall/rnn"]["tried"][0]["value"] = None
    (tmp_path / search.FILE).write_text(json.dumps(kept))
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


@pytest.mark.parametrize(
    ("error", "marked"),
    [
        ("step 3: out of memory on cuda (…); lower --batch", ["memory"]),
        ("DefaultCPUAllocator: can't allocate memory", ["memory"]),
        ("soft-align: expected a memory, found none", []),
    ],
)
def test_a_run_without_room_is_marked(error, marked):
    heat = recall("rnn")
    one = entries.Entry(heat=heat, terms=Terms(), entrant=heat.entrants()[0], seed=0, folder=Path("nowhere"))
    assert entries.failed(one, error)["unfair"] == marked


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


# --------------------------------------------------------------------------------------------------------- rates


def test_the_grid_is_one_for_all_and_evenly_spread():
    assert entries.grid(1) == [3e-3]
    assert entries.grid(3) == [1e-3, 3e-3, 1e-2]
    assert entries.grid(5) == [3e-4, 1e-3, 3e-3, 1e-2, 3e-2]


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
    assert list(json.loads((tmp_path / search.FILE).read_text())) == ["recall/mlp"]
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


# ------------------------------------------------------------------------------------------------------- ladders


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


# -------------------------------------------------------------------------------------------------- table and words


def test_what_nobody_can_get_below_is_no_guess(tmp_path):
    heat = replace(heats()["ratings"], models=("dot",), steps=3)
    terms = Terms(search=0, settings=OTHERS["ratings"] | {"noise": "0.25"})
    (row,) = raced([heat], tmp_path, terms)
    assert row["floor"] == 0.25
    assert set(row["baselines"]) == {"mean", "biases"}
    assert "Nobody can get below 0.250: that much is noise." in write_notes(heat, [row])


# ------------------------------------------------------------------------------------------------------ every task


@pytest.mark.parametrize("task", heats())
def test_every_task_that_can_be_trained_can_be_raced(task):
    assert task in tasks.names()
    heat = heats()[task]
    assert set(heat.models) <= set(task_of(heat).models)
    assert batch_of(heat)
    assert isinstance(heat, Heat)


def test_there_is_a_heat_for_every_task():
    assert set(heats()) == set(tasks.names())


OTHERS = {
    "copy": {"distance": "4", "load": "2"},
    "adding": {"length": "10"},
    "parity": {"length": "6"},
    "gap": {"distance": "8"},
    "series": {"lookback": "12", "horizon": "2"},
    "ratings": {"users": "20", "items": "20", "ratings": "200"},
    "translation": {"count": "200", "highest": "999"},
    "captions": {"count": "64", "pixels": "32"},
}


@pytest.mark.slow
def test_a_picture_does_not_grow_with_its_caption(tmp_path):
    heat = replace(heats()["captions"], models=("attend",))
    (row,) = raced([heat], tmp_path, Terms(search=0, budget=2, settings=OTHERS["captions"]))
    assert len({cost["state_bytes"] for cost in row["costs"]}) == 1
    assert {*row["sample"][0]} == {"source", "reference", "output", "right"}


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


# --------------------------------------------------------------------------------------------------- command line


def test_the_command_prints_the_table_the_winner_and_where_all_is(tmp_path):
    out = tmp_path / "race"
    flags = [f"--set={name}={value}" for name, value in SMALL.items()]
    words = ["race", "recall", "--models", "rnn,mlp", "--budget", "4", "--params", "1500", "--search", "0"]
    words += ["--jobs", "1", "--device", "cpu"]
    done = CliRunner().invoke(app, [*words, "--out", str(out), *flags])
    assert done.exit_code == 0, done.output
    assert "share recalled" in done.output
    assert "One seed shows no spread" in done.output
    assert f"{out}/results.jsonl" in done.output.replace("\n", "")
    page = out / "report.html"
    assert page.is_file()
    page.unlink()
    assert CliRunner().invoke(app, ["report", str(out)]).exit_code == 0
    assert page.is_file()


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_a_race_that_nobody_finished_has_failed(tmp_path, flag):
    words = ["race", "recall", "--models", "transformer", "--budget", "2", "--params", "40", "--search", "0"]
    words += ["--jobs", "1", "--device", "cpu", "--out", str(tmp_path / "race"), *flag]
    done = CliRunner().invoke(app, words)
    assert "expected an entry that finishes, found that all 1 failed; params: expected" in str(done.exception)
    assert (tmp_path / "race" / "report.html").is_file()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["race", "recal"], "did you mean 'recall'"),
        (["race", "--ladder", "attentoin"], "did you mean 'attention'"),
        (["race", "text", "--ladder", "state"], "a ladder names its own"),
        (["race", "recall", "--models", "ngram"], "(or a layer that RECOLLECT_LAYERS names) out of ar,"),
        (["report", "nowhere"], "expected the folder of a race"),
    ],
)
def test_errors_are_one_line(words, told):
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, ValueError)
    assert told in str(done.exception)
    assert "\n" not in str(done.exception)
