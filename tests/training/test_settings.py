"""Settings of training, and where each setting of a run stands."""

from dataclasses import fields

import pytest

from recollect import tasks
from recollect.core.contract import ContractError
from recollect.training.settings import Settings


def test_a_seed_that_no_flag_can_say_exactly_is_refused():
    assert Settings(seed=2**53 - 1).seed == 2**53 - 1
    with pytest.raises(ContractError, match="expected seed below 2\\^53"):
        Settings(seed=2**53)


def test_with_no_budget_named_a_run_has_a_thousand_steps():
    assert Settings().total_steps == 1000
    assert Settings(tokens=5, schedule="constant").total_steps is None


def test_a_setting_has_one_home():
    """Else --set could not say which is meant. Those of the data that also size a model are the task's to hand on."""
    handed_on = {"vocab", "lookback", "horizon", "tokens", "users", "items", "features", "pixels"}
    for task in tasks.every():
        for model in task.models:
            homes = [Settings, task.task_config, task.data_config, task.model_settings(model)["model"]]
            names = [field.name for home in homes for field in fields(home)]
            twice = {name for name in names if names.count(name) > 1} - handed_on
            assert not twice, f"{task.name} {model}: {twice}"


def test_a_step_of_absurdly_many_passes_is_refused():
    with pytest.raises(ContractError, match="expected accumulate to be a whole number of at most 100,000"):
        Settings(accumulate=10**12)
