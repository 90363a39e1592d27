"""What a folder of runs lists, and what a run remembers."""

import json

import pytest

import recollect
import tiny
from recollect.tasks.text.task import TextTask
from recollect.training import checkpoint, listing
from recollect.training import run as runs
from recollect.training.folder import RunFolder, shipped
from recollect.training.run import RunError


@pytest.fixture
def place(book, tmp_path, monkeypatch):
    """A finished run, one that was stopped before its first validation, and a folder that is no run."""
    monkeypatch.chdir(tmp_path)
    config = tiny.configure(book, steps=6)
    for name in ("one", "two"):
        runs.train(TextTask, config, f"runs/{name}", data_dir=str(tmp_path))
    two = RunFolder("runs/two")
    two.model_path.unlink()
    two.best.unlink()
    (tmp_path / "runs" / "other").mkdir()
    (tmp_path / "runs" / "other" / "config.json").write_text("{}")
    return tmp_path / "runs"


def test_runs_are_listed_with_what_they_reached(place):
    found = json.loads(tiny.invoke("runs", place, "--json").stdout)
    one, two = sorted(found, key=lambda entry: entry["run"])
    assert (one["task"], one["model"], one["metric"], one["state"]) == ("text", "lstm", "nats_per_token", "finished")
    reached = min(row["valid"] for row in RunFolder(place / "one").metrics() if "valid" in row)
    assert one["value"] == pytest.approx(reached)
    model = runs.load(place / "one").model
    assert one["params"] == two["params"] == sum(each.numel() for each in checkpoint.weights(model).values())
    assert two["state"] == "no validation yet"
    assert one["date"].endswith("+00:00")
    shown = tiny.invoke("runs").stdout
    assert shown.startswith(f"{2 + len(shipped())} runs")
    assert "expected a folder with runs, found none" in str(tiny.invoke("runs", place / "nowhere").exception)


def test_a_figure_that_training_turned_round_is_shown_as_it_is_known(monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    shown = tiny.invoke("runs").stdout
    assert "minus_bleu" not in shown
    assert "bleu 37.3178" in " ".join(shown.split())


def test_a_damaged_run_is_listed_with_what_can_be_read_of_it(place):
    RunFolder(place / "one").model_path.write_bytes(b"\xff" * 40)
    (place / "one" / "manifest.json").unlink()
    one, _ = sorted(listing.list_runs(place), key=lambda entry: entry.run)
    assert (one.params, one.date, one.value is None) == (None, None, False)


def test_a_run_stopped_before_its_first_validation_is_used_with_its_last_weights(place):
    run, last = runs.load(place / "two"), RunFolder(place / "two").last
    wanted = checkpoint.read_weights(last)
    assert all(own.equal(wanted[name]) for name, own in checkpoint.weights(run.model).items())
    early = f"{place / 'two'} was stopped before its first validation; its last weights are used"
    assert recollect.load(place / "two").notes == tuple(run.notes) == (early,)
    for words in (("generate", place / "two", "--length", 3), ("eval", place / "two")):
        done = tiny.invoke(*words)
        assert (done.exit_code, done.stderr) == (0, f"note: {early}\n"), words
    assert recollect.load(place / "one").notes == () == tuple(runs.load(place / "one").notes)
    last.unlink()
    with pytest.raises(RunError, match="expected weights"):
        runs.load(place / "two")


def test_a_run_remembers_the_folder_of_its_data(place, tmp_path, monkeypatch):
    assert runs.load(place / "one").data_dir == str(tmp_path)
    assert runs.load(place / "one", data_dir="other").data_dir == "other"
    monkeypatch.setenv("RECOLLECT_DATA", "named")
    assert runs.load(place / "one").data_dir is None  # read off the variable where it is needed
    monkeypatch.delenv("RECOLLECT_DATA")
    folder = RunFolder(place / "one")
    folder.write_json("config.json", folder.config() | {"data_dir": str(tmp_path / "gone")})
    assert runs.load(place / "one").data_dir is None


def test_every_shipped_run_names_its_metric():
    assert all(entry.metric for entry in listing.list_runs(None) if entry.run.startswith("demo-"))
