"""A run: settings to their places, a model and a folder, where it starts and what it leaves."""

import math
from itertools import pairwise

import pytest

import recollect
import tiny
from recollect.core.contract import ContractError
from recollect.models.size import parameters
from recollect.tasks.text.task import TextTask
from recollect.training import checkpoint, config_file, evaluation
from recollect.training import run as runs
from recollect.training.folder import RunError, RunFolder, commit


def test_a_taken_place_is_refused_before_data_is_read(book, tmp_path):
    run = tiny.configure(book)
    book.unlink()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="expected a new or empty folder"):
        runs.train(TextTask, run, str(tmp_path / "run"))


def test_a_run_can_start_from_the_weights_of_another(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, seed=1), str(tmp_path / "first"))
    start = tiny.digest(tmp_path / "first" / "model.safetensors")
    run = tiny.configure(book, steps=1, lr="1e-30", weight_decay=0, eval_every=1)
    runs.train(TextTask, run, str(tmp_path / "second"), init=str(tmp_path / "first"))
    assert tiny.digest(tmp_path / "second" / "model.safetensors") == start
    runs.train(TextTask, run, str(tmp_path / "third"))
    assert tiny.digest(tmp_path / "third" / "model.safetensors") != start


def test_the_weights_of_another_size_are_no_start(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, width=4), str(tmp_path / "first"))
    with pytest.raises(checkpoint.CheckpointError, match="expected this model's weights"):
        runs.train(TextTask, tiny.configure(book), str(tmp_path / "second"), init=str(tmp_path / "first"))
    assert not (tmp_path / "second").exists()


def test_params_reach_the_run(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, steps=1), str(tmp_path / "run"), params=20_000)
    model = runs.load(tmp_path / "run").model
    assert parameters(model) == pytest.approx(20_000, rel=0.02)
    assert RunFolder(tmp_path / "run").config()["model"]["width"] == model.config.width > 8


def test_metrics_have_a_row_for_each_log_and_each_evaluation(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, steps=12, log_every=5, eval_every=4), str(tmp_path / "run"))
    rows = RunFolder(tmp_path / "run").metrics()
    assert [(row["step"], "valid" in row) for row in rows] == [
        (1, False), (4, True), (6, False), (8, True), (11, False), (12, True),
    ]  # fmt: skip
    spent = {"step", "tokens", "flops", "seconds"}
    for row in rows:
        assert set(row) == spent | (
            {"valid"} if "valid" in row else {"loss", "lr", "norm", "tokens_per_second", "memory"}
        )
        assert row["tokens"] == row["step"] * 4 * 12
        assert all(math.isfinite(value) for value in row.values())
    assert rows[0]["lr"] == pytest.approx(1e-3 / 3)
    assert rows[0]["loss"] == pytest.approx(math.log(tiny_vocab(tmp_path / "run")), rel=0.1)
    assert all(a["seconds"] <= b["seconds"] for a, b in pairwise(rows))


def tiny_vocab(path):
    return RunFolder(path).config()["corpus"]["vocab"]


def test_a_run_folder_says_where_it_came_from(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, steps=3, seed=5), str(tmp_path / "run"))
    names = {p.name for p in (tmp_path / "run").iterdir()}
    assert names == {
        "config.json", "data.json", "model.safetensors", "tokenizer.json", "metrics.jsonl", "checkpoints",
        "manifest.json",
    }  # fmt: skip
    manifest = RunFolder(tmp_path / "run").read_json("manifest.json")
    assert manifest["seed"] == 5
    assert set(manifest) == {"command", "commit", "machine", "date", "seed"}
    content = RunFolder(tmp_path / "run").config()
    assert config_file.to_json(TextTask, config_file.from_json(TextTask, content, tmp_path)) == {
        name: content[name] for name in ("task", "data", "text", "model", "train")
    } | {"data": content["data"] | {part: tuple(content["data"][part]) for part in ("data", "valid", "test")}}


def test_a_transformer_with_a_carried_state_needs_a_window(book, tmp_path):
    with pytest.raises(ContractError, match="needs a window"):
        runs.train(TextTask, tiny.configure(book, "transformer", windows="sequential"), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_run_of_another_version_is_refused(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, steps=3), str(tmp_path / "run"))
    folder = RunFolder(tmp_path / "run")
    folder.write_json("config.json", folder.config() | {"version": 3})
    with pytest.raises(RunError, match="version 2, found 3"):
        runs.load(tmp_path / "run")


def test_all_of_another_text_is_measured(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, steps=3), str(tmp_path / "run"))
    other = tmp_path / "other.txt"
    other.write_text(tiny.prose(words=100, seed=3), encoding="utf-8")
    found = evaluation.evaluate(str(tmp_path / "run"), split="valid", data=[str(other)])
    assert found["rules"]["windows"]["tokens"] == len(other.read_text(encoding="utf-8")) - 1


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("lstn", {}, "did you mean 'lstm'"),
        ("lstm", {"widht": "8"}, "did you mean 'width'"),
        ("lstm", {"optimizer": "adam"}, "did you mean 'adamw'"),
        ("lstm", {"steps": "0"}, "steps to be a whole number of at least 1"),
        ("lstm", {"lr": "0"}, "expected lr above 0"),
        ("lstm", {"lr": "-1"}, "expected lr above 0"),
        ("lstm", {"ema": "1"}, "ema between 0 and 1"),
        ("lstm", {"vary": "true"}, "needs windows=sequential"),
        ("lstm", {"smoothing": "1"}, "smoothing in"),
        ("lstm", {"model": "gru"}, "as --model"),
        ("lstm", {"tau": "4"}, "expected a known setting, found 'tau'"),
        ("ngram", {"width": "4"}, "expected a known setting, found 'width'"),
        ("lstm", {"batch": "none"}, "batch: expected a number"),
        ("lstm", {"both_ways": "true"}, "both_ways: expected it with whole sequences .*, found text, which is written"),
        ("lstm", {"bidirectional": "true"}, "bidirectional: expected it with whole sequences .*; leave it out"),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_it_begins(model, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        runs.configure(TextTask, settings, model=model, data=(), valid=(), tokenizer="chars")
    assert "\n" not in str(caught.value)


def test_settings_find_their_own_home():
    given = {"width": "16", "lr": "1e-2", "context": "7", "share": "0.2", "forget_bias": "1", "test": "a.txt,b.txt"}
    run = runs.configure(TextTask, given, model="lstm", data=["x.txt"], valid=["y.txt"], tokenizer="bytes")
    assert run.model == {"name": "lstm", "width": 16, "layer": {"forget_bias": 1.0}}
    assert (run.train.lr, run.task.context, run.data.share) == (0.01, 7, 0.2)
    assert (run.data.data, run.data.valid, run.data.test) == (("x.txt",), ("y.txt",), ("a.txt", "b.txt"))
    assert (
        runs.configure(TextTask, {"order": "3"}, model="ngram", data=(), valid=(), tokenizer="chars").model["order"]
        == 3
    )
    post = runs.configure(TextTask, {"order": "post"}, model="transformer", data=(), valid=(), tokenizer="chars")
    assert post.model["order"] == "post"


def test_a_machine_without_git_has_the_version_for_a_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("RECOLLECT_COMMIT", raising=False)
    assert commit() == recollect.__version__
