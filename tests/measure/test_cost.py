"""Declared and measured cost."""

import pytest
import torch
from torch import nn

from measure.probes import VOCAB, build, every_kind, subject
from recollect.core.flops import Counter
from recollect.measure import cost


@every_kind
def test_declared_and_measured_stand_side_by_side(kind):
    model, x = build(kind).float(), torch.randint(VOCAB, (1, 12))
    found = cost.measure(model, x, tries=1)
    assert cost.step_flops(model, x, None, [5, 12]) == {steps: model.cost(1, steps).flops for steps in (5, 12)}
    assert found["flops"]["parallel"] >= found["flops"]["declared"]
    assert found["state"]["measured"] == found["state"]["declared"]
    assert all(seconds > 0 for seconds in found["seconds"].values())
    assert found["kept"] > 0


def test_a_cache_takes_two_vectors_a_layer_and_token():
    model = build("transformer", layers=3, width=8).float()
    for length in (4, 16):
        found = cost.measure(model, torch.randint(VOCAB, (1, length)), tries=1)
        assert found["state"]["measured"] == 3 * (2 * length * 8 * 4 + 8)


def test_what_training_keeps_is_what_autograd_saves_of_a_product():
    """y = x·W, z = y²: x is kept for W's gradient and y for the square; W itself is a weight."""
    layer = nn.Linear(4, 5, bias=False)
    x = torch.randn(3, 4)
    assert cost.saved_bytes(layer, lambda: layer(x).square()) == 4 * (3 * 4 + 3 * 5)


def test_exponents_are_those_of_powers():
    lengths = [8, 16, 32, 64]
    assert cost.exponent(lengths, [3 * n**2 for n in lengths]) == pytest.approx(2)
    assert cost.exponent(lengths, [5.0] * 4) == pytest.approx(0)
    assert cost.exponent(lengths, [0.0] * 4) is None


@pytest.mark.slow
def test_attention_costs_more_and_more_a_step_and_recurrence_does_not():
    given = {kind: subject(build(kind, layers=1, width=4).float(), rows=1) for kind in ("transformer", "lstm")}
    found = {kind: cost.read(own, lengths=(64, 128, 256), tries=1).figures for kind, own in given.items()}
    assert found["lstm"]["exponents"]["flops, declared"] == pytest.approx(1)
    assert found["lstm"]["exponents"]["state, measured"] == pytest.approx(0)
    assert found["transformer"]["exponents"]["flops, declared"] > 1.5
    assert found["transformer"]["exponents"]["state, measured"] == pytest.approx(1, abs=0.01)


def test_positions_that_end_are_told_and_what_was_measured_stays():
    model = build("transformer", positions="learned", max_positions=20).float()
    found = cost.read(subject(model), lengths=(8, 16, 32), tries=1)
    assert [row["length"] for row in found.figures["rows"]] == [8, 16]
    assert found.summary[-1].startswith("no further than 16")


def test_the_counter_sees_a_fused_lstm():
    model = build("lstm", layers=1).float()
    x = torch.randint(VOCAB, (1, 9))
    with torch.no_grad(), Counter() as counter:
        model(x)
    assert counter.flops == model.cost(1, 9).flops
