"""Learning rates, optimizers, clipping and averaging against their formulas."""

import json
import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from recollect.core import typed
from recollect.training.loop import Trainer
from recollect.training.optim import Average, Schedule, ScheduleState, build_optimizer, clip
from recollect.training.settings import Settings
from training.scripted import Scripted


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
    again.restore(typed.read(json.loads(json.dumps(schedule.to_json())), ScheduleState))
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


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"clip": 1.0}, [[0.6, 0.0], [0.0, 0.8]]),  # by norm: the direction stays
        ({"clip": 1.0, "clip_by": "value"}, [[1.0, 0.0], [0.0, 1.0]]),
        ({"clip": 3.5, "clip_by": "value"}, [[3.0, 0.0], [0.0, 3.5]]),
        ({"clip": None}, [[3.0, 0.0], [0.0, 4.0]]),
        ({"clip": 100.0}, [[3.0, 0.0], [0.0, 4.0]]),
        ({"clip": 9.0, "clip_by": "value"}, [[3.0, 0.0], [0.0, 4.0]]),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_clipping_by_norm_and_by_value(settings, expected, sign):
    model = nn.ParameterList([nn.Parameter(torch.zeros(2)) for _ in range(2)])
    for parameter, gradient in zip(model, ([3.0, 0.0], [0.0, 4.0]), strict=True):
        parameter.grad = sign * torch.tensor(gradient)
    assert clip(model, Settings(**settings)).item() == pytest.approx(5.0), "the norm before"
    found = [parameter.grad.tolist() for parameter in model]
    assert found == [pytest.approx([sign * entry for entry in row], rel=1e-5) for row in expected]


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
