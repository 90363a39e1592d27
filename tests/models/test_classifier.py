"""The classifier obeys the contract, whatever it pools and whatever stands between."""

import pytest
import torch
from torch import nn

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


# ------------------------------------------------------------------------------------------------- both ways


@pytest.mark.parametrize("pool", ["last", "mean", "attention"])
@pytest.mark.parametrize("model", KINDS)
def test_reading_both_ways_keeps_rows_and_padding_apart(model, pool):
    torch.manual_seed(1)
    both = build(model, pool=pool, both_ways=True)
    assert laws.whole_rows(both, torch.randint(7, (3, 9)), [9, 5, 1]) < 1e-10
    assert laws.whole_rows(both, torch.randint(7, (3, 9)), [9, 9, 9]) < 1e-10
    numbers = build(model, inputs=2, tokens=False, pool=pool, both_ways=True)
    assert laws.whole_rows(numbers, torch.randn(3, 9, 2, dtype=torch.float64), [9, 5, 1]) < 1e-10


class ReadsPadding(classifier.BothWays):
    def forward(self, x, lengths=None):
        return super().forward(x)


class MixesRows(classifier.BothWays):
    def forward(self, x, lengths=None):
        y = super().forward(x, lengths)
        return y - y.mean(dim=0)


@pytest.mark.parametrize(("broken", "lengths"), [(ReadsPadding, [9, 5, 1]), (MixesRows, [9, 9, 9])])
def test_a_reader_of_whole_rows_that_breaks_their_law_is_caught(broken, lengths):
    torch.manual_seed(1)
    model = broken(build(both_ways=True).config).double().eval()
    with pytest.raises(laws.LawBroken, match=f"broken by {broken.__name__}"):
        laws.whole_rows(model, torch.randint(7, (3, 9)), lengths)


@pytest.mark.parametrize(("model", "theirs"), [("rnn", nn.RNN), ("lstm", nn.LSTM), ("gru", nn.GRU)])
def test_both_ways_are_the_final_outputs_of_the_two_directions_of_torch(model, theirs):
    torch.manual_seed(1)
    both = build(model, layers=1, both_ways=True)
    module = theirs(8, 8, bidirectional=True, batch_first=True).double()
    ways = {"": both.body.forwards[0].layers[0], "_reverse": both.body.backwards[0].layers[0]}
    with torch.no_grad():
        for suffix, layer in ways.items():
            for name, weight in layer.named_parameters():
                getattr(module, name + suffix).copy_(weight)
    x = torch.randint(7, (2, 9))
    y, _ = module(both.enter(x))
    expected = both.head(torch.cat([y[:, -1, :8], y[:, 0, 8:]], dim=-1))
    assert torch.allclose(both.last(x), expected, atol=1e-12)


def test_a_mean_both_ways_is_over_the_steps_of_the_row():
    both, x = build(pool="mean", both_ways=True), torch.randint(7, (1, 9))
    onward, back = (
        way[0].unroll(rows, way[0].initial_state(1))[0]
        for way, rows in (
            (both.body.forwards, both.enter(x[:, :5])),
            (both.body.backwards, both.enter(x[:, :5].flip(1))),
        )
    )
    expected = both.head(torch.cat([onward, back.flip(1)], dim=-1).mean(dim=1))
    assert torch.allclose(both.last(x, torch.tensor([5])), expected, atol=1e-12)


def test_both_ways_have_no_state_and_their_cost_is_that_of_two_stacks():
    one, both = build("lstm"), build("lstm", both_ways=True)
    assert both.cost(2, 9).state_bytes == 0
    assert both.cost(1, 9).flops == 2 * one.body.cost(1, 9).flops + 2 * both.head.weight.numel()


def test_answers_step_by_step_cannot_be_both_ways():
    with pytest.raises(ContractError, match="expected one answer a row with both_ways, found pool=each"):
        build(pool="each", both_ways=True)


@pytest.mark.parametrize("x", [torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.int64)])
def test_other_inputs_of_both_ways_are_refused_in_a_line(x):
    with pytest.raises(ContractError, match="expected tokens of shape"):
        build(both_ways=True)(x)
