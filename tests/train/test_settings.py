"""Settings of training that are refused."""

import pytest

from recollect.core.contract import ContractError
from recollect.train.settings import Settings


def test_a_seed_that_no_flag_can_say_exactly_is_refused():
    assert Settings(seed=2**53 - 1).seed == 2**53 - 1
    with pytest.raises(ContractError, match="expected seed below 2\\^53"):
        Settings(seed=2**53)


def test_with_no_budget_named_a_run_has_a_thousand_steps():
    assert Settings().total_steps == 1000
    assert Settings(tokens=5, schedule="constant").total_steps is None
