"""Mixtures of two language models."""

import math

import pytest
import torch

import tiny
from models.small import built, counted, tokens
from recollect.core import laws
from recollect.core.contract import ContractError
from recollect.tasks.text.mixture import Mixture, best_share, mix
from recollect.tasks.text.task import TextTask
from recollect.training import evaluation
from recollect.training import run as runs


@pytest.mark.parametrize("other", ["lstm", "transformer", "ttt-linear"])
def test_a_mixture_keeps_the_laws(other):
    model = Mixture(counted(), built(other), 0.3).double().eval()
    laws.check(model, tokens(3, 8))
    laws.buffered(model, tokens(3, 8), [3, 1, 1, 3])


def test_a_mixture_is_a_distribution_between_its_parts():
    first, second = counted(), built("gru")
    for share in (1e-6, 0.3, 0.9):
        model = Mixture(first, second, share).double().eval()
        mixed = model(tokens())[0].exp()
        torch.testing.assert_close(mixed.sum(-1), torch.ones_like(mixed.sum(-1)), rtol=1e-12, atol=1e-12)
        a, b = first(tokens())[0].exp(), second(tokens())[0].softmax(-1)
        torch.testing.assert_close(mixed, share * a + (1 - share) * b, rtol=1e-10, atol=1e-12)
        x, y = tokens()[:, :-1], tokens()[:, 1:]
        found, _ = model.nll(x, y)
        expected = -model(x)[0].gather(-1, y[..., None])[..., 0]
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, 2.0, math.nan])
def test_a_share_outside_zero_and_one_is_refused(share):
    with pytest.raises(ContractError, match="share between 0 and 1"):
        Mixture(counted(), counted(), share)


def loss_of(a, b, share):
    return float(-mix(-a, -b, share).mean())


@pytest.mark.parametrize("seed", range(6))
def test_the_fitted_share_is_the_best_there_is(seed):
    draw = torch.Generator().manual_seed(seed)
    a, b = (torch.rand(400, generator=draw, dtype=torch.float64) * 4 for _ in range(2))
    b = b + 0.15 * seed  # the second is worse and worse
    share = best_share(a, b)
    least = min(loss_of(a, b, s / 2000) for s in range(1, 2000))
    assert loss_of(a, b, share) <= least + 1e-9
    assert loss_of(a, b, share) < min(a.mean(), b.mean()), "both together know more than either"


def test_a_model_that_adds_nothing_gets_nothing():
    a = torch.rand(100, dtype=torch.float64)
    for worse in (a + 1, torch.full_like(a, 800), torch.full_like(a, math.inf)):
        share = best_share(a, worse)
        assert share > 1 - 1e-5
        assert loss_of(a, worse, share) == pytest.approx(float(a.mean()), abs=1e-5)
        assert best_share(worse, a) == pytest.approx(1 - share, abs=1e-9)


@pytest.fixture
def folder(tmp_path, own_cache):
    """A counted run and a trained one of the same text."""
    (tmp_path / "book.txt").write_text(tiny.prose(800), encoding="utf-8")
    for model, settings in (("ngram", {"order": 3}), ("gru", {"steps": 60, "lr": 0.03, "context": 24, "batch": 8})):
        run = tiny.configure(tmp_path / "book.txt", model, **settings)
        runs.train(TextTask, run, str(tmp_path / model))
    return tmp_path


def mix_runs(folder, *names):
    return runs.combine(TextTask, "mixture", [str(folder / name) for name in names], str(folder / "mixture"))


def test_a_mixture_of_two_runs_is_no_worse_than_the_better_one_and_loads_again(folder):
    alone = [
        evaluation.evaluate(str(folder / name), split="valid", rules=["stateful"])["metric"]["value"]
        for name in ("ngram", "gru")
    ]
    found = mix_runs(folder, "ngram", "gru")
    assert found["nats_per_token"] <= min(alone) + 1e-5
    assert 0 < found["share"] < 1
    again = evaluation.evaluate(str(folder / "mixture"), split="valid", rules=["stateful"])["rules"]["stateful"]
    assert again["nats_per_token"] == pytest.approx(found["nats_per_token"], rel=1e-6)
    assert all(isinstance(error, float) for error in evaluation.verify(str(folder / "mixture")).values())


def test_runs_with_different_tokenizers_do_not_mix(folder):
    other = tiny.configure(folder / "book.txt", "ngram", tokenizer="bytes")
    runs.train(TextTask, other, str(folder / "bytes"))
    with pytest.raises(ValueError, match="expected two runs with one tokenizer"):
        mix_runs(folder, "ngram", "bytes")
    assert not (folder / "mixture").exists()


def test_the_laws_hold_on_a_trained_run(folder):
    found = evaluation.verify(str(folder / "gru"))
    steps = {law: error for law, error in found.items() if law.startswith("step")}
    assert max(error for law, error in found.items() if law not in steps) < 1e-10
    assert 0 < steps["step"] <= laws.STEP_TOLERANCE["float32"]


def test_a_mixture_has_the_state_and_the_cost_of_both():
    first, second = counted(), built("lstm")
    model = Mixture(first, second)
    assert model.cost(2, 5).state_bytes == first.cost(2, 5).state_bytes + second.cost(2, 5).state_bytes
    assert model.cost(2, 5).flops == second.cost(2, 5).flops > 0
