"""The instrument that tells the four ways of cutting backpropagation apart."""

import pytest
import torch

from recollect.measure import estimators
from recollect.models import language


@pytest.fixture(scope="module")
def found():
    torch.manual_seed(11)
    model = language.Config(vocab=5, model="rnn", width=6, layers=1).build().double()
    with torch.no_grad():
        recurrent = model.body.layers[0].weight_hh_l0
        recurrent.copy_(torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))[0] * 0.98)
    tokens = torch.randint(5, (150, 2, 13))
    batches = [(window[:, :-1], window[:, 1:]) for window in tokens]
    return estimators.compare(model, batches, segment=3, cut=0.5, draws=4)


def test_the_full_gradient_has_no_bias_and_only_the_datas_variance(found):
    assert found["full"].bias == pytest.approx(0)
    assert found["full"].slope == pytest.approx(1)
    assert found["full"].variance > 0


def test_the_unbiased_estimator_has_no_bias_that_could_be_told_from_noise(found):
    assert abs(found["unbiased"].bias) < 4 * found["unbiased"].error + 1e-3
    assert found["unbiased"].variance > found["full"].variance


@pytest.mark.parametrize("kind", ["truncated", "random"])
def test_cutting_off_is_biased(found, kind):
    assert found[kind].bias > 4 * found[kind].error
    assert found[kind].bias > 10 * abs(found["unbiased"].bias)


def test_the_square_of_a_mean_is_freed_of_its_noise():
    torch.manual_seed(0)
    rows = torch.randn(20_000, 3, dtype=torch.float64) + torch.tensor([1.0, 0.0, 0.0])
    few = torch.stack([estimators.squared_mean(part) for part in rows.split(10)])
    assert float(few.mean()) == pytest.approx(1, abs=0.05), "ten rows at a time: no bias"
    assert float(rows[:10].mean(dim=0).square().sum()) != pytest.approx(1, abs=1e-3)
