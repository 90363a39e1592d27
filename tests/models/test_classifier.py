"""The classifier obeys the contract, whatever it pools and whatever stands between."""

import pytest
import torch

from recollect.core import laws
from recollect.core.contract import ContractError
from recollect.models import classifier
from recollect.models.body import KINDS


def build(model="gru", **settings):
    torch.manual_seed(0)
    given = {"inputs": 7, "outputs": 3, "width": 8, "layers": 2, "heads": 2}
    return classifier.Config(model=model, **given | settings).build().double().eval()


@pytest.mark.parametrize("pool", ["last", "mean", "attention", "each"])
@pytest.mark.parametrize("model", KINDS)
def test_every_pool_over_every_layer_obeys_the_laws(model, pool):
    torch.manual_seed(1)
    laws.check(build(model, pool=pool), torch.randint(7, (3, 10)))


@pytest.mark.parametrize("pool", ["last", "mean", "attention"])
def test_numbers_go_in_as_tokens_do(pool):
    torch.manual_seed(1)
    laws.check(build("lstm", inputs=2, tokens=False, pool=pool), torch.randn(3, 10, 2, dtype=torch.float64))


def test_a_mean_is_the_mean_of_what_was_seen():
    model, x = build(pool="mean"), torch.randint(7, (2, 9))
    hidden, _ = model.body(model.enter(x), model.body.initial_state(2))
    answers, _ = model(x)
    expected = model.head(hidden.cumsum(dim=1) / torch.arange(1, 10)[:, None])
    assert torch.allclose(answers, expected, atol=1e-12)


def test_attention_pools_by_a_softmax_over_what_was_seen():
    model, x = build(pool="attention"), torch.randint(7, (2, 9))
    hidden, _ = model.body(model.enter(x), model.body.initial_state(2))
    weights = (10 * torch.tanh(model.score(hidden)[..., 0] / 10)).softmax(dim=1)
    expected = model.head((weights[..., None] * hidden).sum(dim=1))
    assert torch.allclose(model(x)[0][:, -1], expected, atol=1e-12)


def test_scores_far_apart_lose_nothing():
    model, x = build(pool="attention"), torch.randint(7, (2, 9))
    with torch.no_grad():
        model.score.weight.mul_(1e5)
    assert laws.chunk(model, x, [4, 5]) < 1e-10


def test_each_row_is_answered_at_its_own_end():
    model, x = build(pool="mean"), torch.randint(7, (3, 9))
    lengths = torch.tensor([9, 4, 1])
    found = model.last(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone, _ = model(x[row : row + 1, :length])
        assert torch.allclose(found[row], alone[0, -1], atol=1e-12)


@pytest.mark.parametrize("x", [torch.zeros(2, 3), torch.zeros(2, 3, 4), torch.zeros(2, 0, dtype=torch.int64)])
def test_other_inputs_are_refused_in_a_line(x):
    with pytest.raises(ContractError, match="expected tokens of shape"):
        build()(x)


@pytest.mark.parametrize("spread", [1.0, 0.02])
def test_tokens_start_as_far_apart_as_asked(spread):
    model = build("transformer", inputs=500, width=32, positions="learned", spread=spread)
    assert float(model.enter.weight.detach().std()) == pytest.approx(spread, rel=0.05)


def test_tokens_that_start_nowhere_are_refused():
    with pytest.raises(ContractError, match="expected spread above 0, found 0"):
        build(spread=0.0)
