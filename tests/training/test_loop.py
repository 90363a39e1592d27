"""The training loop: accumulation, evaluation, what is kept, patience, and losses that are no numbers."""

import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import tiny
from recollect.core import limits
from recollect.models import language
from recollect.tasks.text import task as text
from recollect.tasks.text.task import TextTask
from recollect.training import checkpoint
from recollect.training import run as runs
from recollect.training.folder import RunFolder
from recollect.training.loop import Trainer, TrainingStopped
from recollect.training.settings import Settings
from training.scripted import Scripted, scripted


def test_accumulated_gradients_are_those_of_one_large_batch(book, tmp_path):
    """The windows of two batches of 4 in one step, against both in one batch of 8."""
    task = tiny.task(tiny.prose(), context=12, batch=4)
    first = [next(task.batches("train", 0, start=i)) for i in range(2)]
    both = text.Batch(*(torch.cat(parts) for parts in zip(*[b[:2] for b in first], strict=True)), True, 0)
    vocab = task.data.tokenizer.size
    found = []
    for batches, accumulate in ((first, 2), ([both], 1)):
        torch.manual_seed(3)
        model = language.Config(vocab=vocab, model="gru", width=8).build()
        given = SimpleNamespace(
            batches=lambda split, seed, start=0, batches=batches: iter(batches),
            backward_parts=task.backward_parts,
            loss=task.loss,
            evaluate=lambda model, split: {"value": 1.0},
            shape=task.shape,
            flops=task.flops,
            metric="value",
            name="given",
            in_nats=True,
        )
        settings = Settings(steps=1, accumulate=accumulate, optimizer="sgd", lr=1.0, warmup=0, clip=None)
        Trainer(given, model, settings, None, torch.device("cpu")).run()
        found.append([p.detach().clone() for p in model.parameters()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("judged", "kept"), [(0.5, -8), (1.5, -4)])
def test_the_mean_of_the_last_evaluations_is_judged_beside_the_best(tmp_path, judged, kept):
    # the weight is −2, −4, −6, −8, −10, the best of them −4; the last three have the mean −8, which is judged sixth
    values = [3.0, 1.0, 2.0, 1.0, 4.0, judged]
    trainer, task, folder = scripted(tmp_path, values, steps=10, eval_every=2, keep=3)
    trainer.run()
    assert task.evaluations[5] == pytest.approx(-8)
    assert checkpoint.read_tensors(folder.model_path)[0]["weight"].item() == pytest.approx(kept)
    assert sorted(p.name for p in folder.last.parent.glob("kept-*")) == [f"kept-{n}.safetensors" for n in (10, 6, 8)]
    assert checkpoint.read_tensors(folder.last)[0]["model.weight"].item() == -10, "training goes on from where it was"


def test_a_graph_needs_a_gpu(tmp_path):
    trainer, _, _ = scripted(tmp_path, [1.0], steps=2, graph=True)
    with pytest.raises(TrainingStopped, match="expected a CUDA device"):
        trainer.run()


def test_the_best_weights_are_what_is_kept(tmp_path):
    trainer, task, folder = scripted(tmp_path, [3.0, 1.0, 2.0, 1.0, 4.0], steps=10, eval_every=2)
    trainer.run()
    assert task.evaluations[:5] == [-2, -4, -6, -8, -10]
    tensors, note = checkpoint.read_tensors(folder.model_path)
    assert tensors["weight"].item() == -4, "the first of the best"
    assert (note["valid"], note["spent"]["step"]) == (1.0, 4)
    assert trainer.model.weight.item() == -4
    assert checkpoint.read_tensors(folder.last)[0]["model.weight"].item() == -10, "and the last is kept apart"


def test_the_best_weights_of_an_averaged_run_are_averages(tmp_path):
    trainer, task, folder = scripted(tmp_path, [3.0, 1.0, 2.0], steps=6, eval_every=2, optimizer="asgd")
    trainer.run()
    assert task.evaluations[:3] == pytest.approx([-1.5, -2.5, -3.5])
    assert checkpoint.read_tensors(folder.model_path)[0]["weight"].item() == pytest.approx(-2.5)


def test_patience_stops_a_run_early(tmp_path):
    trainer, _, folder = scripted(tmp_path, [3.0, 1.0, 2.0, 1.0, 0.5], steps=50, eval_every=2, patience=2)
    trainer.run()
    assert trainer.spent.step == 8, "best at 4, no better at 6 and 8"
    assert checkpoint.read_tensors(folder.model_path)[0]["weight"].item() == -4
    assert trainer.stop == "patience"


def test_a_rate_that_fell_stays_low_when_resumed(tmp_path):
    """Worse at every evaluation: the rate of 1 is halved at steps 4, 6 and 8."""
    settings = {"schedule": "plateau", "plateau_factor": 0.5, "plateau_patience": 0, "eval_every": 2}
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    whole, task, _ = scripted(tmp_path / "whole", values, steps=9, **settings)
    whole.run()
    assert task.evaluations[:5] == [-2, -4, -5, -5.5, -5.625]
    first, _, folder = scripted(tmp_path / "resumed", values, steps=4, **settings)
    first.run()
    again, task, _ = scripted(tmp_path / "unused", values[2:], steps=9, **settings)
    again.folder = folder
    again.resume()
    again.run()
    assert task.evaluations[:3] == [-5, -5.5, -5.625]


def test_a_run_that_lost_patience_stays_stopped_when_resumed(tmp_path):
    trainer, _, folder = scripted(tmp_path, [3.0, 4.0], steps=50, eval_every=2, patience=1)
    trainer.run()
    again = Trainer(Scripted([0.1], 1.0), nn.Linear(1, 1, bias=False), trainer.settings, folder, torch.device("cpu"))
    again.resume()
    again.run()
    assert again.spent.step == trainer.spent.step == 4


def test_the_last_step_is_evaluated_once_wherever_it_falls(tmp_path):
    for steps, expected in ((6, [2, 4, 6]), (7, [2, 4, 6, 7])):
        trainer, _, folder = scripted(tmp_path / str(steps), [5.0, 4.0, 3.0, 2.0], steps=steps, eval_every=2)
        trainer.run()
        assert [row["step"] for row in folder.metrics() if "valid" in row] == expected


def test_a_loss_that_is_not_a_number_stops_the_run_and_keeps_the_last_good_checkpoint(book, tmp_path, monkeypatch):
    real = text.TextTask.loss

    def poisoned(self, model, batch, carry=None):
        loss = real(self, model, batch, carry)
        return replace(loss, value=loss.value * math.nan) if batch.number == 7 else loss

    folder = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(text.TextTask, "loss", poisoned)
        with pytest.raises(TrainingStopped, match=r"step 7: loss nan.*batch 7 of seed 0.*kept") as caught:
            runs.train(TextTask, tiny.configure(book), str(folder.path))
    assert "\n" not in str(caught.value)
    tensors, note = checkpoint.read_tensors(folder.last)
    assert note["spent"]["step"] == 6
    assert all(tensor.isfinite().all() for tensor in tensors.values())
    runs.resume(str(folder.path))  # the poison gone, it goes on as if nothing had been
    runs.train(TextTask, tiny.configure(book), str(tmp_path / "whole"))
    assert tiny.outcome(folder) == tiny.outcome(RunFolder(tmp_path / "whole"))


def test_a_gradient_that_is_not_finite_is_named(book, tmp_path, monkeypatch):
    real = text.TextTask.loss

    def poisoned(self, model, batch, carry=None):
        if batch.number == 4:
            model.head.bias.register_hook(lambda gradient: gradient * math.inf)
        return real(self, model, batch, carry)

    monkeypatch.setattr(text.TextTask, "loss", poisoned)
    with pytest.raises(TrainingStopped, match="step 4: .*in the gradient of head.bias"):
        runs.train(TextTask, tiny.configure(book, clip="none"), str(tmp_path / "run"))


@pytest.mark.parametrize("save_every", [1, 3])
def test_a_rate_that_is_too_high_stops_the_run_before_it_spoils_the_checkpoint(book, tmp_path, save_every):
    folder = RunFolder(tmp_path / "run")
    run = tiny.configure(book, lr="1e38", warmup=0, clip="none", optimizer="sgd", save_every=save_every)
    with pytest.raises(TrainingStopped, match=r"^step \d+: .*not finite.*kept; lower --lr"):
        runs.train(TextTask, run, str(folder.path))
    if folder.last.exists():
        assert all(tensor.isfinite().all() for tensor in checkpoint.read_tensors(folder.last)[0].values())


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    trainer, _, folder = scripted(tmp_path, [1.0], gradient=-1.0, steps=20, lr=1e38, save_every=1)
    with pytest.raises(TrainingStopped, match="step 4: the weights of weight are not finite"):
        trainer.run()
    assert checkpoint.read_tensors(folder.last)[1]["spent"]["step"] == 3


def test_a_validation_that_is_not_finite_stops_the_run(tmp_path):
    trainer, _, folder = scripted(tmp_path, [2.0, math.nan], steps=20, eval_every=3, save_every=2)
    with pytest.raises(TrainingStopped, match="step 6: validation value nan"):
        trainer.run()
    assert checkpoint.read_tensors(folder.last)[1]["spent"]["step"] == 4
    assert checkpoint.read_tensors(folder.best)[1]["spent"]["step"] == 3


def test_a_last_step_into_nonsense_stops_the_run_too(tmp_path):
    """There is no next step whose loss would show it."""
    trainer, _, folder = scripted(tmp_path, [math.nan], steps=1)
    with pytest.raises(TrainingStopped, match="step 1: validation"):
        trainer.run()
    assert not folder.model_path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_DATA")
def test_a_batch_that_does_not_fit_is_a_line_before_the_system_kills_the_process(book, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "free_memory", lambda: 10**8)
    run = tiny.configure(book, batch=10**5)
    with pytest.raises(TrainingStopped, match="step 0: out of memory on cpu .*lower --batch"):
        runs.train(text.TextTask, run, str(tmp_path / "run"))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("tried to allocate 80 GiB\nand more"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1024 bytes.\nand more"),
        MemoryError(),
    ],
)
def test_no_memory_left_is_one_line_with_advice(error, book, tmp_path, monkeypatch):
    def greedy(self, model, batch, carry=None):
        raise error

    monkeypatch.setattr(text.TextTask, "loss", greedy)
    with pytest.raises(TrainingStopped, match="step 0: out of memory on cpu .*lower --batch") as caught:
        runs.train(TextTask, tiny.configure(book), str(tmp_path / "run"))
    assert "\n" not in str(caught.value)
