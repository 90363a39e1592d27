"""Budgets in steps, tokens, FLOPs and seconds end a run."""

from types import SimpleNamespace

import pytest

from recollect.train import budget
from train.scripted import scripted


def test_a_budget_in_steps_ends_the_run(tmp_path):
    trainer, _, _ = scripted(tmp_path, [1.0], steps=7)
    trainer.run()
    assert (trainer.spent.step, trainer.spent.tokens) == (7, 70)


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
