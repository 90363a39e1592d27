"""The training loop: resuming, schedules, clipping, budgets, stopping, what is kept; and settings at the settings."""

import json
import math
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Literal

import pytest
import torch
from torch import nn

import tiny
from recollect.core import settings
from recollect.core.contract import ContractError
from recollect.core.settings import SettingError
from recollect.core.task import Loss
from recollect.models import language
from recollect.models.size import parameters
from recollect.tasks.text import task as text
from recollect.tasks.text.task import TextTask
from recollect.train import budget, checkpoint
from recollect.train import run as runs
from recollect.train.folder import RunError, RunFolder
from recollect.train.loop import Trainer, TrainingStopped
from recollect.train.optim import Average, Schedule, build_optimizer, clip
from recollect.train.settings import Settings


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text(tiny.prose(), encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------------------ resuming

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


def test_a_taken_place_is_refused_before_data_is_read(book, tmp_path):
    run = tiny.configure(book)
    book.unlink()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="expected a new or empty folder"):
        runs.train(TextTask, run, str(tmp_path / "run"))


def test_a_seed_that_no_flag_can_say_exactly_is_refused():
    assert Settings(seed=2**53 - 1).seed == 2**53 - 1
    with pytest.raises(ContractError, match="expected seed below 2\\^53"):
        Settings(seed=2**53)


# ------------------------------------------------------------------------------------------------ rates


def rates(steps, **settings):
    schedule = Schedule(Settings(steps=steps, **settings))
    return [schedule.rate(step) for step in range(steps)]


def test_the_cosine_schedule_is_its_closed_form():
    found = rates(100, lr=0.5, warmup=10, floor=0.2)
    for step, rate in enumerate(found):
        turn = math.pi * max(0, step - 10) / 90
        expected = 0.5 * min(1, (step + 1) / 10) * (0.2 + 0.8 * (1 + math.cos(turn)) / 2)
        assert rate == pytest.approx(expected, rel=1e-12)
    assert found[9] == found[10] == 0.5, "the top is reached when the warm-up ends"
    assert found[0] == pytest.approx(0.05)
    last = Schedule(Settings(steps=100, lr=0.5, warmup=10, floor=0.2)).rate(100)
    assert last == pytest.approx(0.1), "it ends at floor · lr"
    assert found[55] == pytest.approx(0.5 * 0.6), "half-way it is half-way between"
    assert all(a >= b for a, b in pairwise(found[10:]))


def test_a_cosine_follows_any_budget():
    settings = Settings(tokens=1e6, lr=0.5, warmup=10, floor=0.2)
    assert Schedule(settings).rate(100, 0.5) == pytest.approx(0.5 * 0.6), "half-way it is half-way between"
    assert Schedule(settings).rate(100, 1.0) == pytest.approx(0.1), "it ends at floor · lr"
    assert Schedule(settings).rate(4, 0.0) == pytest.approx(0.25), "the warm-up counts steps"


def test_the_inverse_square_root_is_its_closed_form():
    found = rates(1000, lr=0.5, warmup=100, schedule="inverse-sqrt")
    assert found[99] == pytest.approx(0.5), "the top is reached when the warm-up ends"
    for step, rate in enumerate(found):
        expected = 0.5 * ((step + 1) / 100 if step < 100 else math.sqrt(100 / (step + 1)))
        assert rate == pytest.approx(expected, rel=1e-12)


def test_a_constant_rate_only_warms_up():
    assert rates(6, lr=0.8, warmup=4, schedule="constant") == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.8])
    assert rates(3, lr=0.8, warmup=0, schedule="constant") == [0.8] * 3


def test_a_plateau_lowers_the_rate_after_so_many_evaluations_without_a_better_one():
    schedule = Schedule(Settings(steps=9, lr=1.0, warmup=0, schedule="plateau", plateau_factor=0.5, plateau_patience=1))
    seen = []
    for value in (3.0, 2.0, 2.0, 2.5, 1.0, 1.5, 1.4, 1.3, 1.2):
        schedule.evaluated(value)
        seen.append(schedule.rate(0))
    assert seen == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]
    again = Schedule(schedule.settings)
    again.from_json(json.loads(json.dumps(schedule.to_json())))
    assert vars(again) == vars(schedule)


@pytest.mark.parametrize("optimizer", ["sgd", "asgd"])
def test_each_step_is_taken_at_the_rate_of_that_step(optimizer):
    """On a loss whose gradient is 1, the weights go down by exactly the rate."""
    model = nn.Linear(1, 1, bias=False)
    settings = Settings(steps=8, warmup=4, lr=0.5, optimizer=optimizer, weight_decay=0.0, clip=None)
    task = Scripted(values=[1.0], gradient=1.0)
    before, moved = model.weight.item(), []
    task.seen = lambda: moved.append(model.weight.item())
    trainer = Trainer(task, model, settings, None, torch.device("cpu"))
    trainer.run()
    moved.append(model.weight.item())
    schedule = Schedule(settings)
    assert moved[0] == before
    steps = [a - b for a, b in pairwise(moved)]
    assert steps == pytest.approx([schedule.rate(step) for step in range(8)], abs=1e-6)


def test_matrices_decay_and_vectors_do_not():
    groups = build_optimizer(nn.Linear(3, 2), Settings(weight_decay=0.3)).param_groups
    assert [([p.dim() for p in g["params"]], g["weight_decay"]) for g in groups] == [([2], 0.3), ([1], 0.0)]


def test_adamw_takes_the_steps_of_its_formula():
    torch.manual_seed(0)
    model = nn.Linear(5, 3).double()
    optimizer = build_optimizer(model, Settings(lr=0.1, weight_decay=0.3, beta2=0.9))
    weights = [p.detach().clone() for p in (model.weight, model.bias)]
    means, squares = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    for step in range(1, 6):
        for i, (parameter, decay) in enumerate(((model.weight, 0.3), (model.bias, 0.0))):
            parameter.grad = torch.randn_like(parameter)
            means[i] = 0.9 * means[i] + 0.1 * parameter.grad
            squares[i] = 0.9 * squares[i] + 0.1 * parameter.grad**2
            mean, square = means[i] / (1 - 0.9**step), squares[i] / (1 - 0.9**step)
            weights[i] = weights[i] * (1 - 0.1 * decay) - 0.1 * mean / (square.sqrt() + 1e-8)
        optimizer.step()
    torch.testing.assert_close([model.weight.detach(), model.bias.detach()], weights, rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------------------------ gradients


def with_gradients(*gradients):
    model = nn.ParameterList([nn.Parameter(torch.zeros(len(g))) for g in gradients])
    for parameter, gradient in zip(model, gradients, strict=True):
        parameter.grad = torch.tensor(gradient)
    return model, lambda: [p.grad.tolist() for p in model]


def test_clipping_by_norm_keeps_the_direction():
    model, found = with_gradients([3.0], [0.0, 4.0])
    assert clip(model, Settings(clip=1.0)).item() == pytest.approx(5.0), "the norm before"
    assert found()[0] == pytest.approx([0.6], rel=1e-5)
    assert found()[1] == pytest.approx([0.0, 0.8], rel=1e-5)


def test_clipping_by_value_cuts_each_entry():
    model, found = with_gradients([3.0, -0.5], [0.0, -4.0])
    assert clip(model, Settings(clip=1.0, clip_by="value")).item() == pytest.approx(math.sqrt(9 + 0.25 + 16))
    assert found() == [[1.0, -0.5], [0.0, -1.0]]


@pytest.mark.parametrize("settings", [Settings(clip=None), Settings(clip=100.0), Settings(clip=9.0, clip_by="value")])
def test_a_gradient_within_bounds_is_left_alone(settings):
    model, found = with_gradients([3.0, -0.5], [0.0, -4.0])
    clip(model, settings)
    assert found() == [[3.0, -0.5], [0.0, -4.0]]


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


def test_label_smoothing_is_torchs_and_only_in_training():
    task = tiny.task(tiny.prose(), context=12, batch=4, smoothing=0.2)
    model = language.Config(vocab=task.data.tokenizer.size, model="rnn", width=8).build()
    batch = next(task.batches("train", 0))
    logits, _ = model(batch.x)
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), batch.y.flatten(), label_smoothing=0.2)
    assert task.loss(model, batch).value.item() == pytest.approx(expected.item(), rel=1e-6)
    likely = logits.log_softmax(-1)
    by_hand = -0.8 * likely.gather(-1, batch.y[..., None]).mean() - 0.2 * likely.mean()
    assert expected.item() == pytest.approx(by_hand.item(), rel=1e-5)
    plain = tiny.task(tiny.prose(), context=12, batch=4)
    assert task.evaluate(model, "valid") == plain.evaluate(model, "valid")


def test_an_exponential_average_is_its_closed_form_once_it_has_caught_up():
    model = nn.Linear(1, 1, bias=False)
    average = Average(model, 0.75)
    expected = None
    for step, value in enumerate((4.0, 8.0, 1.0, 2.0, 7.0, 5.0)):
        nn.init.constant_(model.weight, value)
        average.update(model)
        new = max(0.25, 1 / (step + 1))
        expected = value if expected is None else (1 - new) * expected + new * value
        assert average.weights["weight"].item() == pytest.approx(expected)
    with average.swapped(model):
        assert model.weight.item() == pytest.approx(expected)
    assert model.weight.item() == 5.0


def test_averaged_sgd_evaluates_the_mean_of_all_weights_so_far():
    model = nn.Linear(1, 1, bias=False)
    average = Average(model, None)
    for value in (1.0, 2.0, 6.0):
        nn.init.constant_(model.weight, value)
        average.update(model)
    assert average.weights["weight"].item() == pytest.approx(3.0)


# ------------------------------------------------------------------------------------------------ a task by script


class Scripted:
    """A task whose loss is gradient · weight and whose evaluations give the values of a list, the last for ever."""

    name, metric, repeats, in_nats = "scripted", "value", True, True

    price = 0  # FLOPs of a batch

    def __init__(self, values, gradient=0.0):
        self.values, self.gradient = list(values), gradient
        self.evaluations = []  # the weight at each evaluation
        self.seen = lambda: None

    def batches(self, split, seed, start=0):
        while True:
            yield SimpleNamespace(number=start, x=torch.zeros(2, 5))
            start += 1

    def shape(self, batch):
        return tuple(batch.x.shape)

    def flops(self, model, *shape):
        return self.price

    def loss(self, model, batch, carry=None):
        self.seen()
        return Loss(model.weight.sum() * self.gradient, 10)

    def evaluate(self, model, split):
        value = self.values[min(len(self.evaluations), len(self.values) - 1)]
        self.evaluations.append(model.weight.item())
        return {"value": value}


def scripted(tmp_path, values, gradient=1.0, **settings):
    """A trainer of one weight that falls by lr · gradient a step, into a folder."""
    given = {"optimizer": "sgd", "lr": 1.0, "warmup": 0, "schedule": "constant", "weight_decay": 0.0, "clip": None}
    task, model = Scripted(values, gradient), nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    folder = RunFolder.create(tmp_path / "run", {})
    return Trainer(task, model, Settings(**given | settings), folder, torch.device("cpu")), task, folder


def test_the_mean_of_the_last_evaluations_is_judged_beside_the_best(tmp_path):
    # the weight is −2, −4, −6, −8, −10; the last three have the mean −8, which is judged sixth
    values = [3.0, 1.0, 2.0, 1.0, 4.0, 0.5]
    trainer, task, folder = scripted(tmp_path, values, steps=10, eval_every=2, keep=3)
    trainer.run()
    assert task.evaluations[5] == pytest.approx(-8)
    assert checkpoint.read_tensors(folder.model_path)[0]["weight"].item() == pytest.approx(-8)
    assert sorted(p.name for p in folder.last.parent.glob("kept-*")) == [f"kept-{n}.safetensors" for n in (10, 6, 8)]
    assert checkpoint.read_tensors(folder.last)[0]["model.weight"].item() == -10, "training goes on from where it was"


def test_a_mean_that_is_worse_changes_nothing(tmp_path):
    trainer, _, folder = scripted(tmp_path, [3.0, 1.0, 2.0, 1.0, 4.0, 1.5], steps=10, eval_every=2, keep=3)
    trainer.run()
    assert checkpoint.read_tensors(folder.model_path)[0]["weight"].item() == -4


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


# ------------------------------------------------------------------------------------------------ budgets


def test_a_budget_in_steps_ends_the_run(tmp_path):
    trainer, _, _ = scripted(tmp_path, [1.0], steps=7)
    trainer.run()
    assert (trainer.spent.step, trainer.spent.tokens) == (7, 70)


def test_with_no_budget_named_a_run_has_a_thousand_steps():
    assert Settings().total_steps == 1000
    assert Settings(tokens=5, schedule="constant").total_steps is None


def test_a_budget_in_tokens_ends_the_run_when_it_is_spent(tmp_path):
    trainer, _, _ = scripted(tmp_path, [1.0], tokens=41)
    trainer.run()
    assert (trainer.spent.step, trainer.spent.tokens) == (5, 50)


def test_a_budget_in_flops_ends_the_run_when_it_is_spent(tmp_path):
    trainer, task, _ = scripted(tmp_path, [1.0], flops=2500.0)
    task.price = 2 * 5 * 10
    trainer.run()
    assert trainer.spent.flops == 3 * 100 * trainer.spent.step, "a backward pass counts as two forward ones"
    assert trainer.spent.step == 9


def test_a_budget_in_seconds_ends_the_run_and_does_not_count_evaluation(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(budget.time, "monotonic", lambda: clock.now)
    trainer, task, _ = scripted(tmp_path, [1.0], seconds=10.0, eval_every=2)

    def later(seconds):
        clock.now += seconds

    task.seen = lambda: later(1.5)
    real = task.evaluate
    task.evaluate = lambda model, split: (later(100), real(model, split))[1]
    trainer.spent.skip()
    trainer.run()
    assert trainer.spent.step == 7
    assert trainer.spent.seconds == pytest.approx(10.5)


def test_the_first_budget_spent_ends_the_run(tmp_path):
    trainer, _, _ = scripted(tmp_path, [1.0], steps=100, tokens=30.0, flops=1e30)
    trainer.run()
    assert trainer.spent.step == 3


# ------------------------------------------------------------------------------------------------ what goes wrong


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


def test_no_memory_left_is_one_line_with_advice(book, tmp_path, monkeypatch):
    def greedy(self, model, batch, carry=None):
        raise torch.OutOfMemoryError("tried to allocate 80 GiB\nand more")

    monkeypatch.setattr(text.TextTask, "loss", greedy)
    with pytest.raises(TrainingStopped, match="step 0: out of memory on cpu .*lower --batch") as caught:
        runs.train(TextTask, tiny.configure(book), str(tmp_path / "run"))
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------ starting


def test_a_run_can_start_from_the_weights_of_another(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, seed=1), str(tmp_path / "first"))
    start = tiny.digest(tmp_path / "first" / "model.safetensors")
    run = tiny.configure(book, steps=1, lr="1e-30", weight_decay=0, eval_every=1)
    runs.train(TextTask, run, str(tmp_path / "second"), init=str(tmp_path / "first"))
    assert tiny.digest(tmp_path / "second" / "model.safetensors") == start
    runs.train(TextTask, run, str(tmp_path / "third"))
    assert tiny.digest(tmp_path / "third" / "model.safetensors") != start


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


def test_the_weights_of_another_size_are_no_start(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, width=4), str(tmp_path / "first"))
    with pytest.raises(checkpoint.CheckpointError, match="expected this model's weights"):
        runs.train(TextTask, tiny.configure(book), str(tmp_path / "second"), init=str(tmp_path / "first"))
    assert not (tmp_path / "second").exists()


TOO_COARSE = ("mlp", 50_000, 256)  # each step of its width is much for a narrow MLP over 8 tokens
SIZES = [(model, params, vocab) for model in tiny.KINDS for params in (50_000, 1_000_000) for vocab in (65, 256)]


def size_of(config):
    with torch.device("meta"):
        return parameters(config.build())


@pytest.mark.parametrize(("model", "params", "vocab"), SIZES)
def test_the_parameters_asked_for_are_met_within_two_in_a_hundred(model, params, vocab):
    config = language.Config(vocab=vocab, model=model)
    found = language.width_for(config, params)
    near = 0.04 if (model, params, vocab) == TOO_COARSE else 0.02
    assert size_of(found) == pytest.approx(params, rel=near)
    assert found == replace(config, width=found.width, hidden=found.hidden)
    if model in tiny.HEADED:
        assert found.width % 8 == 0
        hidden = found.hidden or 4 * found.width
        assert 2.5 * found.width < hidden < 6 * found.width, "feed-forward networks keep about their share"


def test_a_width_that_was_asked_for_stays():
    config = language.Config(vocab=65, model="transformer", hidden=64)
    assert language.width_for(config, 100_000).hidden == 64


def test_params_reach_the_run(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, steps=1), str(tmp_path / "run"), params=20_000)
    model = runs.load(tmp_path / "run").model
    assert parameters(model) == pytest.approx(20_000, rel=0.02)
    assert RunFolder(tmp_path / "run").config()["model"]["width"] == model.config.width > 8


def test_too_few_parameters_are_refused_with_the_least_that_is_possible():
    with pytest.raises(ContractError, match="params: expected at least .* for lstm"):
        language.width_for(language.Config(vocab=1000, model="lstm"), 100)


# ------------------------------------------------------------------------------------------------ metrics


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
        "config.json", "model.safetensors", "tokenizer.json", "metrics.jsonl", "checkpoints", "manifest.json",
    }  # fmt: skip
    manifest = RunFolder(tmp_path / "run").read_json("manifest.json")
    assert manifest["seed"] == 5
    assert set(manifest) == {"command", "commit", "machine", "seed"}
    content = RunFolder(tmp_path / "run").config()
    assert runs.to_json(TextTask, runs.from_json(TextTask, content, tmp_path)) == {
        name: content[name] for name in ("task", "data", "text", "model", "train")
    } | {"data": content["data"] | {part: tuple(content["data"][part]) for part in ("data", "valid", "test")}}


def test_a_transformer_with_a_carried_state_needs_a_window(book, tmp_path):
    with pytest.raises(ContractError, match="needs a window"):
        runs.train(TextTask, tiny.configure(book, "transformer", windows="sequential"), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_two_cannot_train_in_one_folder(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, steps=3), str(tmp_path / "run"))
    with RunFolder(tmp_path / "run").locked(), pytest.raises(RunError, match="nobody trains"):
        runs.resume(str(tmp_path / "run"), longer=6)
    runs.resume(str(tmp_path / "run"), longer=6)


def test_a_run_of_another_version_is_refused(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, steps=3), str(tmp_path / "run"))
    folder = RunFolder(tmp_path / "run")
    folder.write_json("config.json", folder.config() | {"version": 3})
    with pytest.raises(RunError, match="version 2, found 3"):
        runs.load(tmp_path / "run")


def test_a_run_goes_on_from_another_folder(book, tmp_path, monkeypatch):
    monkeypatch.chdir(book.parent)
    runs.train(TextTask, tiny.configure(book.name, steps=3), str(tmp_path / "run"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    runs.resume(str(tmp_path / "run"), longer=6)


def test_all_of_another_text_is_measured(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, steps=3), str(tmp_path / "run"))
    other = tmp_path / "other.txt"
    other.write_text(tiny.prose(words=100, seed=3), encoding="utf-8")
    found = runs.evaluate(str(tmp_path / "run"), split="valid", data=[str(other)])
    assert found["rules"]["windows"]["tokens"] == len(other.read_text(encoding="utf-8")) - 1


# ------------------------------------------------------------------------------------------------ settings at the edge


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500", 500), ("10k", 10_000), ("1M", 1_000_000), ("1e6", 1e6), ("2.5e9", 2.5e9), ("1.5m", 1.5e6),
        ("3B", 3e9), ("2g", 2e9), ("1T", 1e12), ("1_000", 1000), (" 7 ", 7), ("-2", -2), ("+4", 4), (".5", 0.5),
        ("1e-3", 1e-3),
    ],
)  # fmt: skip
def test_a_number_is_read_as_people_write_it(text, value):
    assert settings.number(text) == value


@pytest.mark.parametrize("text", ["", "many", "1.2.3", "1Q", "1 000", "nan", "inf", "0x10", "1e", "_", ".", "1e999"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(SettingError, match="expected a number such as 500, 10k or 1M"):
        settings.number(text)


@dataclass(frozen=True)
class Home:
    count: int = 1
    maybe: int | None = None
    rate: float = 0.1
    flag: bool = False
    kind: Literal["red", "green"] = "red"
    word: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Other:
    count: str = ""
    own: float | None = None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "10k", 10_000), ("count", "1e3", 1000), ("maybe", "none", None), ("maybe", "3", 3),
        ("rate", "1", 1.0),
        ("flag", "yes", True), ("flag", "Off", False), ("flag", "0", False), ("kind", "green", "green"),
        ("word", "none", "none"), ("files", "a.txt, b.txt", ("a.txt", "b.txt")), ("files", "a", ("a",)),
        ("own", "None", None),
    ],
)  # fmt: skip
def test_a_setting_takes_the_type_of_its_field(name, text, value):
    found = settings.distribute({name: text}, {"home": Home, "other": Other})
    home = "other" if name == "own" else "home"
    assert found[home] == {name: value}
    assert type(found[home][name]) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cuont", "3", "expected a known setting, found 'cuont'; did you mean 'count'?"),
        ("zzzzzz", "3", "found 'zzzzzz'; there are count, files, flag, kind, maybe, own, rate, word"),
        ("kind", "gren", "kind: expected one of red, green, found 'gren'; did you mean 'green'?"),
        ("kind", "8", "kind: expected one of red, green, found '8'$"),
        ("count", "1.5", "count: expected a whole number, found '1.5'"),
        ("count", "none", "count: expected a number"),
        ("rate", "fast", "rate: expected a number"),
        ("flag", "maybe", "flag: expected true or false, found 'maybe'"),
    ],
)
def test_a_setting_that_is_none_gets_a_line_and_where_possible_a_suggestion(name, text, message):
    with pytest.raises(SettingError, match=message.replace("?", r"\?")) as caught:
        settings.distribute({name: text}, {"home": Home, "other": Other})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pair", ["width", "=3", " =3", ""])
def test_a_pair_without_its_halves_is_refused(pair):
    with pytest.raises(SettingError, match="--set: expected key=value"):
        settings.split([pair])


def test_pairs_keep_what_stands_after_the_first_equals_sign():
    assert settings.split(["a = b=c", "d="]) == {"a": "b=c", "d": ""}


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
