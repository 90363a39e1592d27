"""Widths solved for a number of parameters."""

from dataclasses import replace

import pytest
import torch

import tiny
from recollect.core.contract import ContractError
from recollect.models import language
from recollect.models.size import parameters

TOO_COARSE = ("mlp", 50_000, 256)  # each step of its width is much for a narrow MLP over 8 tokens


SIZES = [(model, params, vocab) for model in tiny.KINDS for params in (50_000, 1_000_000) for vocab in (65, 256)]


def size_of(config):
    with torch.device("meta"):
        return parameters(config.build())


@pytest.mark.parametrize(("model", "params", "vocab"), SIZES)
def test_the_parameters_asked_for_are_met_within_two_in_a_hundred(model, params, vocab):
    config = language.Config(vocab=vocab, model=model)
    found = language.width_for(config, params)
    near = 0.04 if (model, params, vocab) == TOO_COARSE else 0.02
    assert size_of(found) == pytest.approx(params, rel=near)
    assert found == replace(config, width=found.width, hidden=found.hidden)
    if model in tiny.HEADED:
        assert found.width % 8 == 0
        hidden = found.hidden or 4 * found.width
        assert 2.5 * found.width < hidden < 6 * found.width, "feed-forward networks keep about their share"


def test_a_width_that_was_asked_for_stays():
    config = language.Config(vocab=65, model="transformer", hidden=64)
    assert language.width_for(config, 100_000).hidden == 64


def test_too_few_parameters_are_refused_with_the_least_that_is_possible():
    with pytest.raises(ContractError, match="params: expected at least .* for lstm"):
        language.width_for(language.Config(vocab=1000, model="lstm"), 100)
