"""What holds for every task, by being registered: its data, artifacts, batches, runs, figures, recipes and heats."""

import copy
import json
import math
import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

import tiny
from recollect import tasks
from recollect.core.inspection import Probe, Request
from recollect.core.laws import Exempt
from recollect.core.settings import number
from recollect.core.task import RunError
from recollect.data.cache import Entry
from recollect.data.files import DataError
from recollect.measure.instruments import instruments
from recollect.measure.probes import probe_of
from recollect.models.size import parameters
from recollect.racing import run as races
from recollect.racing.heats import heats, ladders
from recollect.racing.terms import Terms
from recollect.training import checkpoint, config_file, evaluation
from recollect.training import run as runs
from recollect.training.folder import RunFolder
from recollect.training.recipe import read_recipe
from tasks.cases import CASES, CHANGES, FROM_FILES, NAMES, OUTSIDE, SMALL, Small, configure, write_data

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*/*.json"))
LAWS = {"chunk", "cause", "row", "ragged", "purity", "size", "file", "cost"}
ROW = {
    "schema", "task", "model", "settings", "seed", "data", "split", "params", "metric", "entries", "tokens", "flops",
    "seconds", "peak_bytes", "state_bytes", "curve", "learning", "end", "commit", "command", "machine",
}  # fmt: skip
every_task = pytest.mark.parametrize("name", NAMES)


def parametrize(cases):
    names = ["-".join(filter(None, (name, label.replace(", ", "-")))) for name, label in cases]
    return pytest.mark.parametrize(("name", "label"), cases, ids=names)


every_case, every_source = parametrize(CASES), parametrize(FROM_FILES)


@pytest.fixture(autouse=True, scope="module")
def _registered():
    """The task outside the package stands in the registry beside the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(tasks.VARIABLE, str(OUTSIDE))
        tasks.folders.cache_clear()
        yield
    for cached in (tasks.folders, heats, ladders, instruments):
        cached.cache_clear()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The data of all runs; their cache lies beside them."""
    folder = tmp_path_factory.mktemp("files")
    write_data(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(folder / "cache"))
        patch.delenv("RECOLLECT_DATA", raising=False)
        yield folder


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    """A function that gives the folder of a case's run and the evaluation that its training ended with."""
    folder, found = tmp_path_factory.mktemp("runs"), {}

    def run_of(name, label=None):
        label = next(iter(SMALL.get(name, Small()).models)) if label is None else label
        if (name, label) not in found:
            torch.set_num_threads(1)
            out = folder / f"{name}-{label}"
            found[name, label] = out, runs.train(tasks.find(name), configure(files, name, label), str(out))
        return found[name, label]

    return run_of


def one_line(caught):
    return "\n" not in str(caught.value)


def solution_of(out):
    """How a run's model is fitted in closed form; None where it is trained."""
    run = runs.load(out)
    return run.task.solve(run.model, None)


def has_state(out):
    """Whether the model of a run goes step by step."""
    run = runs.load(out)
    return run.kind.sequential and run.config.model.get("attention") != "full" and not reads_both_ways(run)


def reads_both_ways(run):
    """Whether a classifier reads its rows from both ends (translators do so with their sources alone)."""
    reads_whole = run.kind.name == "labels" or run.config.model["name"] == "ctc"
    return reads_whole and run.config.model.get("both_ways", False)


def leaves(batch):
    """The tensors and numbers of a batch."""
    return [batch] if isinstance(batch, torch.Tensor) else list(batch)


def same(a, b):
    return all(
        torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
        for one, other in zip(leaves(a), leaves(b), strict=True)
    )


# ------------------------------------------------------------------------------------------------ settings


@every_case
def test_settings_come_back_from_the_config_of_a_run(trained, files, name, label):
    out, _ = trained(name, label)
    kind, content = tasks.find(name), RunFolder(out).config()
    config = config_file.from_json(kind, content, out)
    spelt = json.loads(json.dumps(config_file.to_json(kind, config)))
    assert spelt == {key: content[key] for key in spelt}
    assert config == runs.load(out).config
    assert config.train == configure(files, name, label).train
    assert runs.task_of(out) is kind
    before = runs.configure(kind, {}, model=kind.default)
    assert config_file.from_json(kind, json.loads(json.dumps(config_file.to_json(kind, before))), out) == before


@every_task
@pytest.mark.parametrize(
    ("settings", "model", "given", "message"),
    [
        ({"bacth": "3"}, None, {}, "did you mean 'batch'"),
        ({"batch": "0"}, None, {}, "expected batch to be a whole number of at least 1, found 0"),
        ({"batch": "many"}, None, {}, "batch: expected"),
        ({"nothing": "3"}, None, {}, "expected a known setting, found 'nothing'"),
        ({"model": ""}, None, {}, "expected .* found (it among the settings|'model')"),
        ({}, "nothing", {}, "expected a model .*out of .*, found 'nothing'"),
        ({}, None, {"nothing": "x"}, "--nothing: expected a flag of the task"),
    ],
    ids=["misspelt", "zero", "no number", "unknown", "a model among settings", "model", "flag"],
)
def test_a_setting_that_cannot_be_is_one_line(name, settings, model, given, message):
    kind = tasks.find(name)
    settings = {key: value or kind.default for key, value in settings.items()}
    with pytest.raises(ValueError, match=message) as caught:
        runs.configure(kind, settings, model=model or kind.default, **given)
    assert one_line(caught)


READERS = ("labels", "translation", "transcribe")  # of whole sequences


@pytest.mark.parametrize("name", [name for name in tasks.names() if name not in READERS])
def test_both_ways_are_refused_where_no_whole_sequence_is_given(name):
    with pytest.raises(ValueError, match="both_ways") as caught:
        runs.configure(tasks.find(name), {"both_ways": "true"}, model=tasks.find(name).default)
    assert one_line(caught)


@pytest.mark.parametrize("name", READERS)
def test_a_reader_of_whole_sequences_says_how_both_ways_are_called(name):
    kind = tasks.find(name)
    assert runs.configure(kind, {"both_ways": "true"}, model=kind.default).model["both_ways"] is True
    with pytest.raises(ValueError, match="bidirectional: expected both_ways=true"):
        runs.configure(kind, {"bidirectional": "true"}, model=kind.default)


# ------------------------------------------------------------------------------------------------ data and artifacts


@every_case
def test_data_are_made_once_and_anew_where_the_cache_is_damaged(files, tmp_path, monkeypatch, name, label):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path))
    kind, config = tasks.find(name), configure(files, name, label)
    made, write = [], Entry.write
    monkeypatch.setattr(Entry, "write", lambda self, *how: made.append(self.name) or write(self, *how))

    def load():
        """What is known of the data, and copies of some batches, since the data may lie in the cache's files."""
        data = kind.load_data(config.data, None)
        batches = [copy.deepcopy(next(kind(config.task, data).batches(split, 0))) for split in ("train", "valid")]
        return (kind.describe_data(data), data.name, data.fingerprint, list(data.notes)), batches

    first, batches = load()
    once = list(made)
    again, others = load()
    assert made == once
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        path.write_bytes(path.read_bytes()[:-5])
    anew, repaired = load()
    assert made == 2 * once
    assert first == again == anew
    about, title, fingerprint, notes = first
    assert (about["name"], about["fingerprint"]) == (title, fingerprint)
    json.dumps(about, allow_nan=False)
    assert all(note and "\n" not in note for note in notes)
    assert all(map(same, batches * 2, others + repaired))


@every_source
def test_a_changed_source_is_read_anew_and_a_moved_one_is_the_same(files, tmp_path, monkeypatch, name, label):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    shutil.copytree(files, tmp_path / "here")
    kind, source = tasks.find(name), configure(tmp_path / "here", name, label).data
    before = kind.load_data(source, None).fingerprint
    assert before == kind.load_data(configure(files, name, label).data, None).fingerprint
    for file, (old, new) in CHANGES.items():
        path = tmp_path / "here" / file
        path.write_bytes(path.read_bytes().replace(old, new))
    assert kind.load_data(source, None).fingerprint != before


@every_case
def test_artifacts_come_back_from_their_files(trained, tmp_path, name, label):
    run = runs.load(trained(name, label)[0])  # its data are read with the artifacts that it has stored
    assert run.data.fingerprint == RunFolder(run.path).config()["corpus"]["fingerprint"]
    assert "\n" not in run.kind.summarize_data(run.data)
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, artifacts in ((first, run.kind.artifacts_of(run.data)), (second, run.artifacts)):
        folder.mkdir()
        run.kind.save_artifacts(artifacts, folder)
    written = {path.name: path.read_bytes() for path in first.iterdir()}
    assert written
    assert written == {path.name: path.read_bytes() for path in second.iterdir()}
    assert written == {file: (run.path / file).read_bytes() for file in written}


@every_case
def test_a_run_holds_what_was_said_of_its_data_before_training(trained, name, label):
    run = runs.load(trained(name, label)[0])
    found = run.kind.data_summary(run.data)
    stored = RunFolder(run.path).read_json("data.json")
    assert (stored["name"], stored["splits"]) == (run.data.name, found.to_json()["splits"])
    assert all(line and "\n" not in line for line in found.lines())
    assert stored["facts"] or stored["splits"]
    assert all(count >= 0 for row in stored["splits"].values() for count in row.values())


@every_case
def test_an_artifact_that_is_missing_or_damaged_is_one_line(trained, tmp_path, name, label):
    run = runs.load(trained(name, label)[0])
    run.kind.save_artifacts(run.artifacts, tmp_path)
    for path in list(tmp_path.iterdir()):
        whole = path.read_bytes()
        for content in (None, b"", b"\xff", b"{", b"[1]", b"[" * 100_000):
            path.unlink() if content is None else path.write_bytes(content)
            with pytest.raises((RunError, DataError), match=path.name) as caught:
                run.kind.load_artifacts(tmp_path)
            assert one_line(caught)
        path.write_bytes(whole)
    run.kind.load_artifacts(tmp_path)


@every_case
def test_a_run_does_not_go_on_with_other_data_and_a_measurement_says_so(trained, tmp_path, name, label):
    shutil.copytree(trained(name, label)[0], tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["corpus"]["fingerprint"] = "that of other data"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RunError, match="expected the data that the run began with, found other data") as caught:
        runs.resume(str(tmp_path / "run"))
    assert one_line(caught)
    found = evaluation.data_change(runs.load(tmp_path / "run"))
    assert "changed since training: as much as before, but other content" in found
    assert evaluation.data_change(runs.load(trained(name, label)[0])) is None


# ------------------------------------------------------------------------------------------------ batches


@every_case
def test_any_batch_is_reached_by_its_number_and_can_be_learned_from(trained, name, label):
    run = runs.load(trained(name, label)[0])
    task = run.task
    batches = list(islice(task.batches("train", 3), 40))  # more than an epoch of most
    for start in (0, 1, 9, 39):
        assert same(next(task.batches("train", 3, start=start)), batches[start])
    assert not same(batches[0], batches[1])
    assert not all(map(same, batches, islice(task.batches("train", 4), 40))), "another seed"
    shape = task.shape(batches[0])
    assert all(type(size) is int and size > 0 for size in shape)
    assert task.flops(run.model, *shape) >= 0
    if run.config.model["name"] not in run.kind.counted:
        found = task.loss(run.model, batches[0])
        assert bool(found.value.isfinite())
        assert found.tokens > 0
        found.value.backward()
        assert any(p.grad is not None and bool(p.grad.any()) for p in run.model.parameters())


# ------------------------------------------------------------------------------------------------ runs


@every_case
def test_a_loaded_run_is_measured_as_at_the_end_of_its_training(trained, name, label):
    out, last = trained(name, label)
    run = runs.load(out)
    solution = solution_of(out)
    options = {} if solution is None else solution.evaluation
    found = run.task.evaluate(run.model, "valid", **options)
    assert found[run.task.metric] == pytest.approx(last[run.task.metric], rel=1e-6)
    assert math.isfinite(found[run.task.metric])
    assert "\n" not in run.kind.headline(last)
    beside = run.task.compare_to_baselines(last)
    assert not set(beside["baselines"]) & set(run.kind.bounds)
    assert any(f"{name} " in beside["beside_baselines"] for name in beside["baselines"])
    for words in run.kind.instead.values():
        assert not words.startswith("--model") or words.split()[1] in run.kind.models


@every_case
def test_a_resumed_run_equals_the_uninterrupted_one(trained, files, tmp_path, monkeypatch, name, label):
    out, last = trained(name, label)
    kind, config = tasks.find(name), configure(files, name, label)
    if solution_of(out) is not None:
        shutil.copytree(out, tmp_path / "again")
        assert runs.resume(str(tmp_path / "again")) == last, "fitted again"
        return
    tiny.train_until(kind, config, tmp_path / "resumed", 3, monkeypatch)
    runs.resume(str(tmp_path / "resumed"))
    assert tiny.outcome(RunFolder(tmp_path / "resumed")) == tiny.outcome(RunFolder(out))


@every_task
def test_another_seed_gives_another_run(trained, files, tmp_path, name):
    """Or the test above would compare nothing."""
    runs.train(tasks.find(name), configure(files, name, seed=1), str(tmp_path / "run"))
    a, b = (tiny.outcome(RunFolder(out)) for out in (trained(name)[0], tmp_path / "run"))
    assert all(a[part] != b[part] for part in a)


@every_task
def test_a_run_is_made_again_from_its_config(trained, tmp_path, name):
    out, _ = trained(name)
    config = config_file.from_json(tasks.find(name), RunFolder(out).config(), out)
    runs.train(tasks.find(name), config, str(tmp_path / "again"))
    assert tiny.outcome(RunFolder(tmp_path / "again")) == tiny.outcome(RunFolder(out))


@every_source
def test_a_run_finds_its_data_from_another_folder(files, tmp_path, monkeypatch, name, label):
    monkeypatch.chdir(files)
    runs.train(tasks.find(name), configure(Path(), name, label, steps=1), str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)
    assert "changed" not in evaluation.evaluate(tmp_path / "run", split="valid")


@every_task
def test_a_run_is_refused_as_one_of_another_task(trained, name):
    other = tasks.find(next(found for found in NAMES if found != name))
    message = f'expected the run of a {other.name} task, found one of "{name}"'
    with pytest.raises(RunError, match=message) as caught:
        runs.load(trained(name)[0], task=other)
    assert one_line(caught)


@every_task
def test_a_run_killed_before_it_stored_its_artifacts_can_go_on(trained, tmp_path, name):
    out, _ = trained(name)
    shutil.copytree(out, tmp_path / "run")
    run = runs.load(out)
    (tmp_path / "saved").mkdir()
    run.kind.save_artifacts(run.artifacts, tmp_path / "saved")
    for path in (tmp_path / "saved").iterdir():
        (tmp_path / "run" / path.name).unlink()
    runs.resume(str(tmp_path / "run"), longer=9)
    for path in (tmp_path / "saved").iterdir():
        assert (tmp_path / "run" / path.name).read_bytes() == path.read_bytes()


@every_task
def test_a_run_starts_with_the_weights_of_another(trained, files, tmp_path, name):
    out, _ = trained(name)
    config = configure(files, name, steps=1, lr="1e-12", seed=1)
    runs.train(tasks.find(name), config, str(tmp_path / "run"), init=str(out))
    assert RunFolder(tmp_path / "run").config()["init"] == str(out)
    before, after = (checkpoint.read_tensors(RunFolder(path).model_path)[0] for path in (out, tmp_path / "run"))
    fitted = {"spread"}  # what is calibrated after training
    assert all(torch.allclose(before[key], after[key], atol=1e-6) for key in before if key not in fitted)
    with pytest.raises(RunError, match="expected a run folder, found nothing") as caught:
        runs.train(tasks.find(name), config, str(tmp_path / "other"), init=str(tmp_path / "nothing"))
    assert one_line(caught)


@every_case
def test_the_row_of_a_run_and_its_table_say_everything(trained, name, label):
    out, _ = trained(name, label)
    kind = tasks.find(name)
    row = evaluation.result(out, split="valid", device="cpu")
    assert set(row) >= ROW
    assert (row["task"], row["split"]) == (name, "valid")
    assert set(row["metric"]) == {"name", "value", "rule"}
    assert math.isfinite(row["metric"]["value"])
    assert row["params"] == parameters(runs.load(out).model)
    assert row["tokens"] > 0
    assert (row["state_bytes"] > 0) == has_state(out)
    assert row["flops"] > 0 or not kind.sequential or solution_of(out) is not None
    json.loads(json.dumps(row))
    run = runs.load(out)
    costs = [run.task.declared_cost(run, length) for length in (4, 8, 16)]
    if None not in costs:
        assert costs == sorted(costs)
        assert all((state > 0) == has_state(out) for _, state in costs)
    columns, rows, below = kind.table(evaluation.evaluate(out, split="valid"))
    assert rows
    for line in (columns, *rows):
        assert len(line) == len(columns)
        assert all(isinstance(cell, str) and "\n" not in cell for cell in line)
    assert all(isinstance(line, str) and "\n" not in line for line in below)


@every_case
def test_the_laws_hold_on_trained_weights_or_one_line_says_why_they_do_not_bind(trained, name, label):
    out, _ = trained(name, label)
    if not has_state(out) and not reads_both_ways(runs.load(out)):
        with pytest.raises(RunError, match="expected a (model that reads a sequence|forecaster that)") as caught:
            evaluation.verify(out)
        assert one_line(caught)
        return
    found = evaluation.verify(out)
    exempt = {law for law, error in found.items() if isinstance(error, Exempt)}
    binding = LAWS if has_state(out) else LAWS - {"cost"}
    assert exempt == (set() if has_state(out) else binding - {"row", "ragged"})
    assert set(found) >= binding
    assert max(found[law] for law in binding - exempt) < 1e-10


@every_case
def test_instruments_have_rows_to_read_or_one_line_says_why_not(trained, name, label):
    run = runs.load(trained(name, label)[0])
    if not run.kind.sequential:
        with pytest.raises(RunError, match="expected a model that reads a sequence") as caught:
            probe_of(run, Request(rows=2))
        assert one_line(caught)
        return
    probe = probe_of(run, Request(rows=2))
    assert isinstance(probe, Probe)
    assert 1 <= len(probe.x) == len(probe.y) <= 2
    assert len(probe.outputs) == len(probe.places)
    with torch.no_grad():
        said = probe.answers(probe.x)
        losses = probe.losses(said, probe.y)
    assert losses.shape == (len(probe.x),)
    assert bool(losses.isfinite().all())


# ------------------------------------------------------------------------------------------------ recipes and heats


STAND_INS = {  # for known sets, by task: small data and settings
    "text": {"data": "text.txt", "share": 0.5},
    "translation": {"data": "pairs.tsv", "held_out": 0.2, "vocab": 300, "count": 200},
    "series": {"data": "hours.csv"},
    "captions": {"data": "shapes", "count": 24},
    "films": {"data": "moving", "count": 24},
    "labels": {"data": "films.tsv"},
    "transcribe": {"data": "tones"},
}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_recipe_can_be_built_at_the_size_it_names(files, path):
    """Small data stand in for known sets; nothing else is changed."""
    recipe = read_recipe(str(path), path.parent.name)
    assert recipe.about
    kind = tasks.find(recipe.task)
    run = runs.configure(kind, recipe.settings, model=recipe.model, **recipe.data_settings())
    small = STAND_INS.get(recipe.task, {})
    if recipe.data == ("mnist",):
        small = small | {"data": "images"}
    own = {name: value for name, value in small.items() if getattr(run.data, name)}
    if "data" in own:
        own["data"] = (str(files / own["data"]) if (files / own["data"]).exists() else own["data"],)
    data = kind.load_data(replace(run.data, **own), None)
    params = None if recipe.params is None else int(number(recipe.params))
    run = kind.resolve(run, data, params)
    with torch.device("meta"):
        model = kind.build_model(run.model, kind.artifacts_of(data), runs.load)
    if params is not None:
        assert parameters(model) == pytest.approx(params, rel=0.15), "as near as whole heads allow"


@pytest.mark.slow
@every_task
def test_the_heat_of_a_task_leaves_rows_with_evidence(files, tmp_path, name):
    """Every model of the task, two steps each."""
    (heat,) = [heat for _, group in tasks.declared("heat", "HEATS") for heat in group if heat.task == name]
    config = configure(files, name)
    small = {key: str(value) for key, value in SMALL.get(name, Small()).settings.items()}
    data = {place: getattr(config.data, place, ()) for place in ("data", "valid")}
    terms = Terms(search=0, budget=2, settings=small, data={place: value for place, value in data.items() if value})
    rows = races.run([heat], terms, tmp_path / "race", title="a race", command="recollect race")
    assert [row["model"] for row in rows] == list(heat.models)
    for row in rows:
        assert "error" not in row, row
        assert {"heat", "entry", "card", "learning", "sample", "gradient", "costs", "search"} <= set(row)
        assert row["metric"]["name"] == terms.of(heat).metric.name
        assert row["metric"]["value"] == terms.of(heat).metric.of(row)
        assert row["seconds"] is not None
        json.dumps(row, allow_nan=False)
