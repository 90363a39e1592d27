"""Labels as a task: batches, losses and figures by hand, runs."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from recollect.data.files import DataError
from recollect.tasks.labels import data as sets
from recollect.tasks.labels import task as labels
from recollect.tasks.labels.task import LabelsTask
from recollect.tasks.labels.use import Classifier, classify
from recollect.training import evaluation
from recollect.training import run as runs
from recollect.training.folder import RunError, RunFolder
from recollect.training.recipe import read_recipe
from tasks.labels.cases import configure, texts_of, write
from tiny import invoke


def test_the_confusion_matrix_has_a_row_for_each_true_label():
    found = labels.confusion(np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 0, 2]), 3)
    assert found.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]


def test_f1_is_the_mean_over_labels_that_are_there_or_were_said():
    # label 0: 1 hit, 1 miss, 1 false alarm; label 1: 1, 0, 1; label 2: 1, 1, 0; label 3 neither there nor said
    table = np.array([[1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]])
    assert labels.macro_f1(table) == pytest.approx((2 / 4 + 2 / 3 + 2 / 3) / 3)
    assert labels.macro_f1(np.array([[3, 0], [2, 0]])) == pytest.approx((6 / 8 + 0) / 2), "one that is never said"


def test_the_calibration_error_is_the_distance_bin_by_bin():
    right = np.array([True, False, True, True])
    sure = np.array([0.62, 0.64, 0.95, 1.0], np.float32)
    # (9/15, 10/15]: half right at a mean of .63; (14/15, 1]: all right at a mean of .975
    assert labels.calibration_error(right, sure) == pytest.approx((2 * 0.13 + 2 * 0.025) / 4, abs=1e-6)
    assert labels.calibration_error(np.array([True, False]), np.array([0.5, 0.5])) == pytest.approx(0)
    assert labels.calibration_error(np.array([False]), np.array([1.0])) == pytest.approx(1)


def test_a_bin_ends_where_it_should():
    """At 2 bins, .5 is in the lower one and a little more in the upper one."""
    right, sure = np.array([True, False]), np.array([0.5, 0.75])
    assert labels.calibration_error(right, sure, bins=2) == pytest.approx((0.5 + 0.75) / 2)
    assert labels.calibration_error(right, np.array([0.6, 0.75]), bins=2) == pytest.approx(abs(1 - 1.35) / 2)


@pytest.fixture
def task(table):
    return labels.LabelsTask(labels.Config(batch=16, bucket=3), sets.load(table))


def test_an_epoch_has_every_row_once_and_batches_of_like_length(task):
    sizes = task.rows("train").sizes
    plan = task.plan(sizes, 16, np.random.default_rng(0))
    assert len(set(plan.ravel().tolist())) == plan.size == len(sizes) // 16 * 16
    spread = np.ptp(sizes[plan], axis=1).mean()
    assert (
        spread
        < 0.6 * np.ptp(sizes[np.random.default_rng(0).permutation(len(sizes))[:128]].reshape(8, 16), axis=1).mean()
    )


def test_a_batch_larger_than_the_data_is_all_of_it(table):
    task = labels.LabelsTask(labels.Config(batch=10_000), sets.load(table))
    batch = next(task.batches("train", 0))
    assert len(batch.y) == len(task.data.train.labels)


def test_each_row_is_judged_at_its_own_end(task):
    model = LabelsTask.build_model({"name": "gru", "width": 8, "pool": "mean"}, task.data.artifacts, runs.load).eval()
    batch = next(task.batches("train", 0))
    assert len(set(batch.lengths.tolist())) > 1
    expected = []
    for row, length, answer in zip(batch.x, batch.lengths, batch.y, strict=True):
        alone, _ = model(row[None, :length])
        expected.append(-alone[0, -1].log_softmax(-1)[answer])
    found = task.loss(model, batch)
    assert found.value.item() == pytest.approx(torch.stack(expected).mean().item(), rel=1e-5)
    assert found.tokens == sum(batch.lengths.tolist()) < batch.x.numel(), "what was read, without padding"


def test_steps_of_images_are_counted_as_they_are_read(pictures):
    task = labels.LabelsTask(labels.Config(batch=4), sets.load(pictures))
    model = LabelsTask.build_model({"name": "rnn", "width": 8}, task.data.artifacts, runs.load)
    assert task.loss(model, next(task.batches("train", 0))).tokens == 4 * 12


def test_figures_are_those_of_all_rows(task):
    model = LabelsTask.build_model({"name": "rnn", "width": 8}, task.data.artifacts, runs.load).eval()
    part, nats, right = task.data.valid, [], []
    for text, answer in zip(texts_of(task.data, "valid"), part.labels, strict=True):
        said = model(torch.from_numpy(task.data.artifacts.encode(text).astype(np.int64))[None])[0][0, -1].log_softmax(
            -1
        )
        nats.append(-said[answer].item())
        right.append(said.argmax().item() == answer)
    found = task.evaluate(model, "valid")
    assert found["nats"] == pytest.approx(np.mean(nats), rel=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean(right))
    assert found["error"] == pytest.approx(1 - np.mean(right))
    assert np.sum(found["confusion"]) == len(right)
    small = labels.LabelsTask(labels.Config(eval_batch=3), task.data).evaluate(model, "valid")
    assert small["confusion"] == found["confusion"]
    first = labels.LabelsTask(labels.Config(eval_rows=5), task.data).evaluate(model, "valid")
    assert first["nats"] == pytest.approx(np.mean(nats[:5]), rel=1e-5)
    assert first["rule"].startswith(f"the first 5 of {len(right)} rows")


def test_a_part_that_is_not_there_is_told_with_what_to_do(task):
    with pytest.raises(DataError, match="expected a test part, found none; measure a file with --data"):
        task.part("test")
    with pytest.raises(DataError, match="a split out of train, valid, test, found 'tset'"):
        task.part("tset")


def test_the_majority_is_the_commonest_label_of_training(tmp_path):
    rows = [(f"text {n}", "ab"[n % 4 == 0]) for n in range(100)]
    valid = [(f"new {n}", "ab"[n < 4]) for n in range(5)]
    data = sets.load(write(tmp_path / "a.tsv", rows), valid=[write(tmp_path / "v.tsv", valid)])
    found = labels.LabelsTask(labels.Config(), data).guesses("valid")["majority"]
    assert found["accuracy"] == pytest.approx(1 / 5)
    assert found["nats"] == pytest.approx(-(math.log(76 / 102) + 4 * math.log(26 / 102)) / 5)
    nats = labels.LabelsTask(labels.Config(choose="nats"), data).baselines("valid")
    assert nats["majority"] == found["nats"]


def test_a_run_folder_holds_all_that_is_needed(table, tmp_path):
    found = runs.train(LabelsTask, configure(table), str(tmp_path / "run"))
    assert LabelsTask.headline(found).startswith("validation accuracy")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names >= {"config.json", "model.safetensors", "tokenizer.json", "labels.json", "metrics.jsonl"}
    content = RunFolder(tmp_path / "run").config()
    assert content["labels"]["length"] == int(np.median(sets.load(table).train.lengths))
    row = evaluation.result(str(tmp_path / "run"), split="valid", device="cpu")
    assert row["metric"]["name"] == "error"
    assert set(row["baselines"]) == {"majority", "bag of words"}
    assert row["state_bytes"] == 2 * 8 * 4, "two layers of 8 numbers"
    assert any("bag of words" in line for line in LabelsTask.table(row)[2])


def test_a_run_both_ways_is_trained_resumed_measured_verified_and_used(table, tmp_path):
    out = str(tmp_path / "run")
    runs.train(LabelsTask, configure(table, "lstm", both_ways="true"), out)
    runs.resume(out, longer=16)
    row = evaluation.result(out, split="valid", device="cpu")
    assert (row["state_bytes"], row["settings"]["model"]["both_ways"]) == (0, True)
    done = invoke("verify", out)
    assert done.exit_code == 0, done.output
    lines = {line.split()[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines()}
    assert lines["row"].startswith("holds")
    assert lines["ragged"].startswith("holds")
    for law in ("chunk", "cause", "purity", "size", "file"):
        assert lines[law] == "exempt  both_ways=true reads whole rows from both ends; it has no state"
    found = json.loads(invoke("verify", out, "--json").stdout)
    assert found["chunk"] == {"exempt": "both_ways=true reads whole rows from both ends; it has no state"}
    run = runs.load(out)
    used = Classifier.of_run(run)
    some = list(classify(used, ["the film was good", "", "so bad and long"]))
    alone = [next(iter(classify(used, [line]))) for line in ("the film was good", "so bad and long")]
    assert some[1] is None
    for together, one in zip((some[0], some[2]), alone, strict=True):
        assert (together.label, together.probability) == (one.label, pytest.approx(one.probability, rel=1e-5))
    with pytest.raises(RunError, match="found both_ways=true, which reads whole rows and has no state"):
        LabelsTask.law_example(run.model, run.artifacts)


def test_other_data_is_measured_whole_with_the_labels_of_the_run(table, tmp_path):
    runs.train(LabelsTask, configure(table), str(tmp_path / "run"))
    other = write(tmp_path / "other.tsv", [("good", "pos"), ("bad", "neg"), ("so", "neg")], order=(1, 0))
    for split in ("valid", "test"):
        found = evaluation.evaluate(str(tmp_path / "run"), split=split, data=[str(other)])
        assert (found["rows"], found["classes"]) == (3, ["neg", "pos"])
    one = write(tmp_path / "one.tsv", [("good", "pos"), ("fine", "pos")])
    assert evaluation.evaluate(str(tmp_path / "run"), split="valid", data=[str(one)])["rows"] == 2, (
        "one label is enough here"
    )
    strange = write(tmp_path / "strange.tsv", [("good", "1"), ("bad", "0"), ("so", "0")])
    with pytest.raises(DataError, match="found '1' in line 1 of .*strange.tsv"):
        evaluation.evaluate(str(tmp_path / "run"), split="valid", data=[str(strange)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "expected the labels of a run"),
        (
            '{"classes": ["a"], "shape": null, "step": "pixel", "longest": 9, "permute": null}',
            "two or more different classes",
        ),
        ('{"classes": ["a", "b"], "shape": [4], "step": "pixel", "longest": 9, "permute": null}', "labels of a run"),
    ],
)
def test_a_damaged_run_is_told_in_a_line(table, tmp_path, content, message):
    runs.train(LabelsTask, configure(table), str(tmp_path / "run"))
    (tmp_path / "run" / "labels.json").write_text(content)
    with pytest.raises(RunError, match=message) as caught:
        runs.load(tmp_path / "run")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("gru", {"pool": "each"}, "pool last, mean or attention, found 'each'"),
        ("gru", {"inputs": "3"}, "expected settings of 'gru', found others"),
        ("gru", {"smoothing": "1"}, "expected smoothing in"),
        ("gru", {"permute": "-1"}, "permute to be a whole number of at least 0"),
        ("gru", {"step": "column"}, "step: expected one of pixel, row"),
        ("gru", {"poool": "mean"}, "did you mean 'pool'"),
        ("gru", {"bidirectional": "true"}, "bidirectional: expected both_ways=true"),
        ("gru", {"both_ways": "perhaps"}, "both_ways: expected true or false, found 'perhaps'"),
        ("bag", {"both_ways": "true"}, "expected a known setting, found 'both_ways'"),
        ("grru", {}, "did you mean 'gru'"),
        ("bag", {"width": "3"}, "expected a known setting, found 'width'"),
    ],
)
def test_a_run_that_cannot_be_is_refused_in_a_line(table, tmp_path, model, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        runs.train(
            LabelsTask, runs.configure(LabelsTask, settings, model=model, data=[str(table)]), str(tmp_path / "run")
        )
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_recipes_of_permuted_images_permute_them():
    for path in (Path(__file__).parents[3] / "recipes" / "labels").glob("*mnist-*.json"):
        recipe = read_recipe(path)
        found = runs.configure(LabelsTask, recipe.settings, model=str(recipe.model))
        assert (found.data.permute is not None) == path.stem.startswith("pmnist")
