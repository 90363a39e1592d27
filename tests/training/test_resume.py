"""Resuming a run: the bits of the uninterrupted one, and what is refused."""

import pytest

import tiny
from recollect import tasks
from recollect.core.files import FileError
from recollect.tasks.text.task import TextTask
from recollect.training import checkpoint
from recollect.training import run as runs
from recollect.training.folder import RunError, RunFolder
from recollect.training.loop import Trainer
from tasks import cases

WAYS = {
    "adamw": {},
    "sgd": {"optimizer": "sgd", "lr": 0.1},
    "sgd with momentum": {"optimizer": "sgd", "momentum": 0.9, "lr": 0.1},
    "asgd": {"optimizer": "asgd", "lr": 0.3},
    "an exponential average": {"ema": 0.8},
    "a plateau": {"schedule": "plateau", "lr": 0.3, "plateau_patience": 0, "eval_every": 2},
    "inverse square root": {"schedule": "inverse-sqrt"},
    "accumulation": {"accumulate": 3},
    "accumulation of a stream": {"accumulate": 2, "windows": "sequential"},
    "clipping by value": {"clip": 0.01, "clip_by": "value"},
    "noise": {"dropout": 0.3, "word_dropout": 0.2, "variational": True, "weight_dropout": 0.2},
    "label smoothing": {"smoothing": 0.1},
    "untied": {"tie": False, "embed": 4},
    "lengths that vary": {"windows": "sequential", "vary": True},
    "full backpropagation": {"windows": "sequential", "bptt": "full"},
    "truncated backpropagation": {"windows": "sequential", "bptt": "truncated", "segment": 5},
    "random backpropagation": {"windows": "sequential", "bptt": "random", "segment": 5},
    "unbiased backpropagation": {"windows": "sequential", "bptt": "unbiased", "segment": 5},
    "patience": {"patience": 1, "lr": 3.0, "clip": None, "eval_every": 4, "warmup": 0},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_resumed_run_equals_the_uninterrupted_one(book, tmp_path, monkeypatch, way):
    run = tiny.configure(book, **{"steps": 14} | WAYS[way])
    runs.train(TextTask, run, str(tmp_path / "whole"))
    tiny.train_until(TextTask, run, tmp_path / "resumed", 6, monkeypatch)
    runs.resume(str(tmp_path / "resumed"))
    assert tiny.outcome(RunFolder(tmp_path / "resumed")) == tiny.outcome(RunFolder(tmp_path / "whole"))


def test_a_run_whose_weights_include_single_numbers_goes_on(tmp_path, own_cache):
    """The first moment of a weight without axes is without axes too, and may be negative."""
    run = cases.configure(tmp_path, "captions", "attend")
    task = tasks.find("captions")
    runs.train(task, run, str(tmp_path / "run"))
    folder = RunFolder(tmp_path / "run")
    tensors, note = checkpoint.read_tensors(folder.last)
    singles = [name for name, tensor in tensors.items() if name.endswith(".exp_avg") and not tensor.dim()]
    assert singles
    for name in singles:
        tensors[name] = -tensors[name].abs()
    checkpoint.write_tensors(folder.last, tensors, note)
    runs.resume(str(folder.path), longer=10)
    assert folder.metrics()[-1]["step"] == 10


@pytest.mark.parametrize("model", tiny.KINDS)
def test_every_kind_goes_on_with_the_state_that_it_carried(book, tmp_path, monkeypatch, model):
    window = {"window": 5} if model == "transformer" else {}
    run = tiny.configure(book, model, steps=9, windows="sequential", **window)
    runs.train(TextTask, run, str(tmp_path / "whole"))
    tiny.train_until(TextTask, run, tmp_path / "resumed", 6, monkeypatch)
    tensors, note = checkpoint.read_tensors(RunFolder(tmp_path / "resumed").last)
    assert note["carry"]
    assert any(name.startswith("carry.") and tensor.any() for name, tensor in tensors.items())
    runs.resume(str(tmp_path / "resumed"))
    assert tiny.outcome(RunFolder(tmp_path / "resumed")) == tiny.outcome(RunFolder(tmp_path / "whole"))


def test_a_resumed_run_does_not_depend_on_where_tensors_lie_in_the_file(book, tmp_path, monkeypatch):
    """A longer note shifts them in memory, and sums in the last bits depend on that."""
    run = tiny.configure(book, "rnn", steps=24, windows="sequential", bptt="unbiased", segment=4)
    runs.train(TextTask, run, str(tmp_path / "whole"))
    expected = tiny.outcome(RunFolder(tmp_path / "whole"))
    for extra in range(0, 64, 8):
        folder = RunFolder(tmp_path / f"resumed-{extra}")
        tiny.train_until(TextTask, run, folder.path, 3, monkeypatch)
        tensors, note = checkpoint.read_tensors(folder.last)
        checkpoint.write_tensors(folder.last, tensors, note | {"extra": "x" * extra})
        runs.resume(str(folder.path))
        assert tiny.outcome(folder) == expected, f"{extra} characters more"


def test_another_seed_gives_another_run(book, tmp_path):
    """Or the tests above would compare nothing."""
    for seed in (0, 1):
        runs.train(TextTask, tiny.configure(book, seed=seed), str(tmp_path / str(seed)))
    a, b = (tiny.outcome(RunFolder(tmp_path / str(seed))) for seed in (0, 1))
    assert all(a[part] != b[part] for part in a)


def test_a_finished_run_can_be_made_longer(book, tmp_path):
    settings = {"schedule": "constant", "steps": 6}
    runs.train(TextTask, tiny.configure(book, **settings), str(tmp_path / "run"))
    runs.resume(str(tmp_path / "run"), longer=12)
    runs.train(TextTask, tiny.configure(book, **settings | {"steps": 12}), str(tmp_path / "whole"))
    longer, whole = (RunFolder(tmp_path / name) for name in ("run", "whole"))
    assert tiny.digest(longer.last, "model.") == tiny.digest(whole.last, "model.")
    assert longer.config()["train"]["steps"] == 12


def test_a_run_cannot_be_made_shorter_than_it_is(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, steps=6), str(tmp_path / "run"))
    with pytest.raises(RunError, match="expected at least the 6 steps that the run has made, found 4"):
        runs.resume(str(tmp_path / "run"), longer=4)
    assert RunFolder(tmp_path / "run").config()["train"]["steps"] == 6


def test_a_refused_resumption_leaves_the_config_as_it_was(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, steps=6), str(tmp_path / "run"))
    book.write_text(tiny.prose(700), encoding="utf-8")
    with pytest.raises(RunError, match="found other data"):
        runs.resume(str(tmp_path / "run"), longer=12)
    assert RunFolder(tmp_path / "run").config()["train"]["steps"] == 6


def test_a_run_started_from_another_and_killed_at_once_still_starts_there(book, tmp_path, monkeypatch):
    runs.train(TextTask, tiny.configure(book, seed=1), str(tmp_path / "first"))
    run = tiny.configure(book)
    runs.train(TextTask, run, str(tmp_path / "whole"), init=str(tmp_path / "first"))

    def die(self):
        raise tiny.Killed

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "run", die)
        with pytest.raises(tiny.Killed):
            runs.train(TextTask, run, str(tmp_path / "killed"), init=str(tmp_path / "first"))
    runs.resume(str(tmp_path / "killed"))
    assert tiny.outcome(RunFolder(tmp_path / "killed")) == tiny.outcome(RunFolder(tmp_path / "whole"))


def test_two_cannot_train_in_one_folder(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, steps=3), str(tmp_path / "run"))
    with RunFolder(tmp_path / "run").locked(), pytest.raises(FileError, match="nobody trains"):
        runs.resume(str(tmp_path / "run"), longer=6)
    runs.resume(str(tmp_path / "run"), longer=6)


def test_a_run_goes_on_from_another_folder(book, tmp_path, monkeypatch):
    monkeypatch.chdir(book.parent)
    runs.train(TextTask, tiny.configure(book.name, steps=3), str(tmp_path / "run"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    runs.resume(str(tmp_path / "run"), longer=6)
