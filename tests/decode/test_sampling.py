"""Settings of generation that no text comes of."""

import math

import pytest

from recollect.core.contract import ContractError
from recollect.decode import beam, sampling


@pytest.mark.parametrize("temperature", [1e-300, 1e300, math.inf, math.nan, 0.0, -1.0])
def test_a_temperature_at_which_logits_are_no_numbers_is_refused(temperature):
    for config in (sampling.Config, lambda **given: beam.Config(beam=1, **given)):
        with pytest.raises(ContractError, match="expected temperature"):
            config(temperature=temperature)
    assert sampling.Config(temperature=1e-8).temperature == 1e-8


@pytest.mark.parametrize("penalty", [math.inf, math.nan, 0.0])
def test_a_penalty_that_is_no_number_is_refused(penalty):
    with pytest.raises(ContractError, match="expected penalty above 0"):
        sampling.Config(penalty=penalty)


@pytest.mark.parametrize("name", ["beam", "nbest"])
def test_a_beam_of_millions_is_refused(name):
    with pytest.raises(ContractError, match=f"expected {name} to be a whole number of at most 10,000, found 1000000"):
        beam.Config(**{name: 10**6})


def test_every_seed_that_a_generator_takes_is_taken():
    assert sampling.Config(seed=2**63 - 1).seed == beam.Config(seed=2**63 - 1).seed
