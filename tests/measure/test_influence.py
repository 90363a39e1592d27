"""Influence by gradient and by ablation against brute force."""

import pytest
import torch
from torch import nn

from measure.probes import VOCAB, build, counting, every_kind, subject
from recollect.core.attribution import normalize_rows
from recollect.core.contract import ContractError
from recollect.core.inspection import Probe
from recollect.measure import gradient_flow, horizon, influence
from recollect.models import classifier
from recollect.tasks.series import model as forecaster
from recollect.tasks.series.probe import Whole


@every_kind
def test_no_input_matters_to_an_output_before_it_by_either_measure(kind):
    given = subject(build(kind))
    above = torch.ones(10, 10).triu(1).bool()
    for found in (influence.by_gradient(given), influence.by_ablation(given), influence.by_ablation(given, by="zero")):
        assert float(found[above].max()) < 1e-12
        assert float(found.diagonal().min()) > 0


def test_a_text_too_long_for_a_map_is_refused_before_any_gradient(monkeypatch):
    monkeypatch.setattr(influence, "by_gradient", None)
    monkeypatch.setattr(influence, "MOST_STEPS", 5)
    with pytest.raises(ContractError, match="expected at most 5 steps, .* found 6; lower --steps or shorten --text"):
        influence.read(subject(build("rnn"), rows=1, steps=6))


@every_kind
def test_influence_is_the_gradient_of_what_came(kind):
    given = subject(build(kind), rows=1, steps=5)
    found = influence.by_gradient(given)
    model = given.model
    vectors = model.embedding(given.x).detach().requires_grad_()
    likely = model.head(model.body(vectors, model.initial_state(1))[0])[0].log_softmax(dim=-1)
    for t in range(5):
        (slope,) = torch.autograd.grad(likely[t, given.y[0, t]], vectors, retain_graph=True)
        assert torch.allclose(found[t], slope[0].norm(dim=-1).float(), atol=1e-6)


@pytest.mark.parametrize("kind", ["ngram", "gru", "transformer"])
def test_ablation_is_what_replacing_each_token_by_hand_does(kind):
    """With two kinds of tokens there is only one other to draw."""
    model = counting() if kind == "ngram" else build(kind)
    x = torch.tensor([[1, 4, 4, 1, 4, 1, 1]])
    given = Probe(**vars(subject(model, rows=1, steps=6)) | {"x": x[:, :-1], "y": x[:, 1:]})
    found = influence.by_ablation(given, draws=3)
    with torch.no_grad():
        before = model(x[:, :-1])[0].log_softmax(dim=-1)[0]
        for s in range(6):
            other = x[:, :-1].clone()
            other[0, s] = 5 - other[0, s]
            after = model(other)[0].log_softmax(dim=-1)[0]
            expected = (before.exp() * (before - after)).sum(dim=-1)
            assert torch.allclose(found[:, s], expected.float(), atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_an_ngram_model_rests_on_its_last_tokens_alone(order):
    found = influence.by_ablation(subject(counting(order), steps=8), draws=2)
    for t in range(8):
        assert not found[t, : max(0, t - order + 2)].any()
    if order > 1:
        assert float(found.diagonal().min()) > 0


def test_influence_on_numbers_is_a_length():
    """A forecaster that says twice its last value."""

    class Twice(nn.Module):
        config = forecaster.Config(lookback=4, horizon=2)

        def forward(self, past):
            return 2 * past[:, -1:].expand(-1, 2, -1)[..., None]

    x = torch.randn(2, 4, 1, dtype=torch.float64)
    names = ["a", "b", "c", "d"]
    given = Probe(
        model=Whole(Twice()),
        x=x,
        y=x[:, :2],
        places=range(2),
        inputs=names,
        outputs=names[:2],
        categorical=False,
        ahead=True,
    )
    assert influence.by_gradient(given).tolist() == [[0, 0, 0, 2], [0, 0, 0, 2]]
    found = influence.by_ablation(given, by="zero")
    assert torch.allclose(found, torch.tensor([0, 0, 0, 2 * abs(float(x[0, -1, 0]))]).expand(2, -1).float())
    assert horizon.by_gradient(gradient_flow.flow_of(given)).reach == 1
    assert horizon.by_ablation(given).reach == 1, "what lies before is not missed"


def test_rows_become_shares_and_nothing_stays_nothing():
    found = normalize_rows(torch.tensor([[1.0, 3.0], [0.0, 0.0]]))
    assert found.tolist() == [[0.25, 0.75], [0, 0]]


@pytest.mark.parametrize("pool", ["last", "mean", "attention"])
def test_a_classifier_is_looked_at_as_any_other_model(pool):
    torch.manual_seed(0)
    config = classifier.Config(model="gru", inputs=VOCAB, outputs=3, width=8, layers=1, pool=pool)
    model = config.build().double().eval()
    given = Probe(**vars(subject(model)) | {"y": torch.ones(2, 10, dtype=torch.int64)})
    found = influence.by_gradient(given)
    assert not found.triu(1).any()
    assert found.diagonal().all()
    with torch.no_grad():
        expected = -model(given.x)[0][:, -1].log_softmax(dim=-1)[:, 1].mean()
    assert horizon.by_ablation(given).curve[-1] == pytest.approx(float(expected))
    assert gradient_flow.spectrum(given).size == 8 + (0 if pool == "last" else 9)
