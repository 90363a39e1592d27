"""The horizon of memory: windows, orders and brute force."""

import math

import pytest
import torch

from measure.probes import VOCAB, build, subject
from recollect.core.inspection import Probe
from recollect.measure import gradient_flow, horizon
from recollect.models import ngram


@pytest.mark.parametrize("tau", [1, 2, 4])
def test_the_horizon_of_a_window_is_at_most_the_window(tau):
    given = subject(build("ar", layers=1, layer={"tau": tau}), rows=40, steps=12)
    assert horizon.by_gradient(gradient_flow.flow_of(given)).reach <= tau
    found = horizon.by_ablation(given)
    assert found.lengths == [1, 2, 4, 8, 12]
    assert found.reach <= tau
    beyond = [loss for k, loss in zip(found.lengths, found.curve, strict=True) if k >= tau]
    assert beyond == pytest.approx([found.curve[-1]] * len(beyond))


def test_the_horizon_of_an_ngram_model_is_its_order_less_one():
    """A text in which each token follows from the two before it: with fewer, nothing is sure."""
    draw = torch.Generator().manual_seed(0)
    table = torch.stack([torch.randperm(VOCAB, generator=draw) for _ in range(VOCAB)])
    tokens = [0, 1]
    while len(tokens) < 3000:
        if len(tokens) % 6 < 2:
            tokens.append(int(torch.randint(VOCAB, (), generator=draw)))
        else:
            tokens.append(int(table[tokens[-2], tokens[-1]]))
    model = ngram.Config(order=3, vocab=VOCAB).build().train_on(torch.tensor(tokens).numpy()).eval()
    rows = torch.tensor(tokens[: 12 * 200]).view(200, 12)[:, :9]
    given = Probe(**vars(subject(model, steps=8)) | {"x": rows[:, :-1], "y": rows[:, 1:]})
    found = horizon.by_ablation(given)
    assert found.reach == 2
    assert found.curve[0] > 1.5 * found.curve[1]
    assert found.curve[1] == pytest.approx(found.curve[-1])


def test_the_horizon_by_ablation_is_brute_force_over_windows():
    given = subject(build("lstm"), rows=5, steps=6)
    found = horizon.by_ablation(given)
    for k, loss in zip(found.lengths, found.curve, strict=True):
        each = []
        for row in range(5):
            with torch.no_grad():
                logits, _ = given.model(given.x[row : row + 1, 6 - k :])
            each.append(-float(logits[0, -1].log_softmax(dim=-1)[given.y[row, -1]]))
        assert loss == pytest.approx(sum(each) / 5)


@pytest.mark.parametrize(
    ("curve", "reach"),
    [
        ([2.0, 1.5, 1.01, 1.0], 4),
        ([2.0, 1.5, 1.011, 1.0], 8),
        ([1.005, 1.01, 1.0, 1.0], 1),  # nothing is gained by more
        ([20.0, 5.0, 0.002, 0.0007], 4),  # of a loss near 0, 1 % would be nothing
        ([20.0, 5.0, 0.3, 0.0007], 8),
        ([1.0, 1.2, 1.1, 1.0], 1),
        ([0.0, 0.0, 0.0, 0.0], 1),
        ([math.nan] * 4, 8),
    ],
)
def test_enough_is_within_a_hundredth_of_the_loss_or_of_what_all_inputs_save(curve, reach):
    assert horizon.enough([1, 2, 4, 8], curve) == reach


def test_the_horizon_by_gradient_is_where_the_share_is_reached():
    found = horizon.by_gradient(torch.tensor([[80.0, 10.0, 5.0, 4.0, 1.0]]))
    assert found.reach == 3
    assert found.curve == pytest.approx([0.8, 0.9, 0.95, 0.99, 1.0])
