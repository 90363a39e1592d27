"""What a training will need, by a plan and by the training itself."""

import pytest

import tiny
from recollect.core.settings import ContractError
from recollect.tasks.text import task as text
from recollect.training import planning
from recollect.training import run as runs
from recollect.training.folder import RunFolder


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """A function that gives the plan of a small run, and its settings."""
    monkeypatch.setattr(planning, "SECONDS", 0.2)
    (tmp_path / "text.txt").write_text(tiny.prose(400), encoding="utf-8")

    def make(model="lstm", **settings):
        config = tiny.configure(tmp_path / "text.txt", model, **settings)
        return planning.plan(text.TextTask, config, text.TextTask.load_data(config.data, None), "cpu"), config

    return make


def test_a_plan_counts_what_the_training_then_spends(plan, tmp_path):
    found, config = plan(steps=9)
    runs.train(text.TextTask, config, str(tmp_path / "run"))
    last = [row for row in RunFolder(tmp_path / "run").metrics() if "valid" in row][-1]
    assert (found.steps, found.tokens, found.flops) == (last["step"], last["tokens"], pytest.approx(last["flops"]))
    assert found.weights == 4 * found.parameters
    assert (found.gradients, found.optimizer) == (found.weights, 2 * found.weights)
    assert found.evaluations == 3  # at steps 5 and 9, and the best weights once more


def test_what_a_step_keeps_grows_with_the_batch_and_falls_with_the_segments_of_a_window(plan):
    small, large = plan(batch=2)[0], plan(batch=8)[0]
    assert 3 < large.kept / small.kept < 5
    assert plan(batch=8, bptt="truncated", segment=4)[0].kept < 0.6 * large.kept


def test_a_budget_in_tokens_or_flops_becomes_steps(plan):
    whole = plan(steps=10)[0]
    assert plan(steps="none", tokens=whole.tokens)[0].steps == 10
    assert plan(steps="none", flops=whole.flops)[0].steps == 10


def test_time_on_gpus_is_flops_over_a_share_of_their_peak(plan):
    found, _ = plan()
    one, four = found.on_gpus("h100", 1), found.on_gpus("h100", 4)
    assert one["seconds"] == pytest.approx(found.flops / (989e12 * planning.USED))
    assert four["seconds"] == pytest.approx(one["seconds"] / 4)
    assert one["fits"]
    assert four["bytes_each_sharded"] < four["bytes_each"] < one["bytes_each"]
    with pytest.raises(ContractError, match="expected a kind of GPU out of a100, .* did you mean 'h100'"):
        found.on_gpus("h1000", 1)


def test_a_model_that_is_counted_has_no_plan(plan):
    with pytest.raises(planning.PlanError, match="--model ngram: expected a model that is trained in steps"):
        plan("ngram")
