"""Budgets in steps, tokens, FLOPs and seconds end a run."""

from types import SimpleNamespace

import pytest

from recollect.training import budget
from training.scripted import scripted


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"steps": 7}, 7),
        ({"tokens": 41}, 5),  # a step reads 10
        ({"flops": 2500.0}, 9),  # a step costs 300
        ({"steps": 100, "tokens": 30.0, "flops": 1e30}, 3),  # the first that is spent
    ],
)
def test_a_budget_ends_the_run_when_it_is_spent(tmp_path, settings, steps):
    trainer, task, _ = scripted(tmp_path, [1.0], **settings)
    task.price = 2 * 5 * 10
    trainer.run()
    assert (trainer.spent.step, trainer.spent.tokens) == (steps, 10 * steps)
    assert trainer.spent.flops == 3 * 100 * steps, "a backward pass counts as two forward ones"


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
