"""Folders in Hugging Face's layout: read back as the same model, with a card that says what was measured."""

import json
import shutil

import pytest

import recollect
import tiny
from recollect.core.task import RunError
from recollect.export import hub
from recollect.training import evaluation
from recollect.training import run as runs
from recollect.training.folder import RunFolder

CASES = [
    ("text", "lstm", "text-generation"),
    ("text", "ngram", "text-generation"),
    ("translation", "attend", "translation"),
    ("captions", "fixed", "image-to-text"),
    ("series", "gru", "time-series-forecasting"),
    ("labels", "lstm", "text-classification"),
    ("labels", "lstm, images", "image-classification"),
    ("ratings", "dot", None),
    ("transcribe", "ctc", "automatic-speech-recognition"),
    ("copy", "gru", None),
]


def front_of(folder):
    """The front matter of a card, by name; its values are JSON, which YAML includes."""
    lines = (folder / hub.CARD).read_text(encoding="utf-8").split("---\n")[1].splitlines()
    return {name: json.loads(value) for name, value in (line.split(": ", 1) for line in lines)}


def program(folder):
    """The program of a card."""
    return (folder / hub.CARD).read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]


@pytest.mark.parametrize(("task", "model", "tag"), CASES, ids=[f"{task} {model}" for task, model, _ in CASES])
def test_a_folder_is_read_back_and_its_card_has_the_run_s_figure(
    run_of, tmp_path, monkeypatch, capsys, task, model, tag
):
    run, out = run_of(task, model), tmp_path / "mine"
    hub.export(run, out, license="mit")
    expected = evaluation.evaluate(run.path, split="valid")["metric"]
    front = front_of(out)
    assert front["license"] == "mit"
    assert front["library_name"] == "recollect"
    assert front.get("pipeline_tag") == tag
    (found,) = front["model-index"][0]["results"]
    (metric,) = found["metrics"]
    assert {"name": metric["name"], "value": metric["value"], "rule": metric["args"]["rule"]} == expected
    assert expected["rule"] in (out / hub.CARD).read_text(encoding="utf-8")
    assert tiny.digest(out / "model.safetensors") == tiny.digest(run.path / "model.safetensors")
    monkeypatch.chdir(out)
    exec(program(out), {})
    assert capsys.readouterr().out.startswith(f"<{task} model {run.config.model['name']!r} from .: ")
    for name in set(recollect.load(".").methods):
        assert f"`{name}`" in (out / hub.CARD).read_text(encoding="utf-8")


def tables_of(folder):
    """The rows of each table of a card, by the figure in its head."""
    found = {}
    for line in (folder / hub.CARD).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| | "):
            rows = found.setdefault(cells[1], {})
        elif line.startswith("| "):
            rows[cells[0]] = float(cells[1])
    return found


@pytest.mark.parametrize("task", ["translation", "captions"])
def test_nats_of_guesses_stand_beside_the_model_s_nats_and_not_beside_its_score(run_of, tmp_path, task):
    run = run_of(task, "fixed")
    hub.export(run, tmp_path / "mine")
    figures = evaluation.evaluate(run.path, split="valid")
    nats, guesses = figures["forced"]["nats_per_token"], figures["baselines"]
    assert figures["compared"] == {"name": "nats_per_token", "value": nats}
    tables = tables_of(tmp_path / "mine")
    assert tables.pop(figures["metric"]["name"]) == {"this model": pytest.approx(figures["metric"]["value"], rel=1e-4)}
    named = {"this model": nats} | {f"without learning: {name}": value for name, value in guesses.items()}
    assert tables == {"nats_per_token": pytest.approx(named, rel=1e-4)}


def test_guesses_by_the_same_figure_stand_below_the_model(run_of, tmp_path):
    hub.export(run_of("text", "lstm"), tmp_path / "mine")
    (table,) = tables_of(tmp_path / "mine").values()
    assert list(table) == ["this model", "without learning: uniform", "without learning: unigram"]


def test_a_text_model_that_was_read_back_writes_and_measures_the_same(book, tmp_path):
    runs.train(runs.tasks.find("text"), tiny.configure(book), str(tmp_path / "run"))
    hub.export(runs.load(tmp_path / "run"), tmp_path / "mine")
    first, again = (recollect.load(tmp_path / name) for name in ("run", "mine"))
    written = ["".join(model.generate("the", length=30, seed=3)) for model in (first, again)]
    assert written[0] == written[1]
    figures = [model.evaluate(data=str(book))["metric"] for model in (first, again)]
    assert figures[0] == figures[1]
    card = (tmp_path / "mine" / hub.CARD).read_text(encoding="utf-8")
    assert "12 steps, 576 tokens, " in card
    assert '"context": 12' in card


def test_a_task_with_its_own_data_measures_the_same_after_the_way_there_and_back(run_of, tmp_path):
    run = run_of("copy", "lstm")
    hub.export(run, tmp_path / "mine")
    assert recollect.load(tmp_path / "mine").evaluate()["metric"] == recollect.load(run.path).evaluate()["metric"]


def test_without_its_data_a_card_says_that_nothing_was_measured(book, tmp_path):
    runs.train(runs.tasks.find("text"), tiny.configure(book, tokenizer="bytes"), str(tmp_path / "run"))
    book.unlink()
    card = hub.export(runs.load(tmp_path / "run"), tmp_path / "mine")
    assert card.metric is None
    assert "model-index" not in front_of(tmp_path / "mine")
    assert "no figure of the model: its data could not be read" in (tmp_path / "mine" / hub.CARD).read_text("utf-8")


def test_data_that_changed_since_training_are_named_on_the_card(book, tmp_path):
    runs.train(runs.tasks.find("text"), tiny.configure(book, tokenizer="bytes"), str(tmp_path / "run"))
    book.write_text(tiny.prose(700, seed=1), encoding="utf-8")
    card = hub.export(runs.load(tmp_path / "run"), tmp_path / "mine")
    assert any("changed since training" in note for note in card.notes)


def test_the_card_of_imported_weights_says_where_they_are_from(run_of, tmp_path):
    run = run_of("text", "transformer", positions="learned", max_positions=20)
    folder = RunFolder(run.path)
    origin = {"layout": "gpt2", "sha256": {"model.safetensors": "ab" * 32}}
    folder.write_json("config.json", folder.config() | {"imported": origin})
    card = hub.export(run, tmp_path / "mine")
    assert card.metric is None
    text = (tmp_path / "mine" / hub.CARD).read_text("utf-8")
    assert "- `model.safetensors`: sha256 abab" in text
    assert "trained elsewhere" in text
    assert "at most 20 steps" in text


def test_a_run_of_other_runs_is_refused(run_of, tmp_path):
    run = run_of("text", "lstm")
    run.config.model["name"] = "mixture"
    with pytest.raises(RunError, match="expected a run with weights of its own, found a mixture"):
        hub.export(run, tmp_path / "mine")


@pytest.fixture
def run(run_of):
    return run_of("copy", "lstm").path


def test_the_command_prints_files_figure_and_what_is_missing(run, tmp_path):
    found = tiny.invoke("export", run, "--out", tmp_path / "mine", "--to", "hub")
    assert found.exit_code == 0, found.exception
    assert "KiB  README.md" in found.stdout
    assert "note: the license is unknown; give --license" in found.stdout
    found = tiny.invoke("export", run, "--out", tmp_path / "other", "--to", "hub", "--license", "mit", "--json")
    content = json.loads(found.stdout)
    assert content["license"] == "mit"
    assert set(content["files"]) == {path.name for path in (tmp_path / "other").iterdir()}
    assert content["metric"] == front_metric(tmp_path / "other")


def front_metric(folder):
    (metric,) = front_of(folder)["model-index"][0]["results"][0]["metrics"]
    return {"name": metric["name"], "value": metric["value"], "rule": metric["args"]["rule"]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "hub", "--precision", "int8"], "--precision: expected it with --to onnx, found int8"),
        (["--license", "mit"], "--license: expected it with --to hub"),
        (["--to", "hubb"], "hub"),
    ],
)
def test_options_of_the_other_layout_are_refused(run, tmp_path, words, said):
    found = tiny.invoke("export", run, "--out", tmp_path / "mine", *words)
    assert said in str(found.exception)
    assert not (tmp_path / "mine").exists()


def test_files_in_the_way_are_left_alone(run, tmp_path):
    (tmp_path / "mine").mkdir()
    shutil.copy(run / "config.json", tmp_path / "mine" / "notes.json")
    found = tiny.invoke("export", run, "--out", tmp_path / "mine", "--to", "hub")
    assert "expected a new or empty folder" in str(found.exception)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.json"]
