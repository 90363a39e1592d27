"""The terms of a race: the same for all."""

import pytest

from racing.small import raced, recall
from recollect.core.contract import ContractError
from recollect.core.settings import SettingError
from recollect.racing.heats import heats, ladders
from recollect.racing.terms import Terms, accepted, with_models


@pytest.mark.parametrize(("equal", "budget"), [("tokens", 40.0), ("flops", 1e7), ("seconds", 0.05)])
def test_a_budget_ends_every_entry(tmp_path, equal, budget):
    """Spent within one step: a step more would have gone beyond by more than a step's worth."""
    rows = raced([recall("rnn", "mlp")], tmp_path, Terms(search=0, equal=equal, budget=budget))
    for row in rows:
        spent = row[equal]
        steps = row["curve"][-1][0]
        assert spent >= budget
        assert spent * (steps - 1) / steps < budget or equal == "seconds"
        assert row["settings"]["train"]["schedule"] == "cosine"


def test_a_budget_must_be_named():
    with pytest.raises(SettingError, match="--equal flops: expected --budget"):
        Terms(equal="flops")
    with pytest.raises(SettingError, match="--equal: expected one of params, tokens, flops, seconds, found 'time'"):
        Terms(equal="time", budget=3)


def test_no_parameters_is_no_size():
    with pytest.raises(SettingError, match="--params: expected at least 1, found 0"):
        Terms(params=0)


def test_a_setting_reaches_those_who_have_it():
    heat = recall("rnn", "ttt-linear")
    assert accepted(heat, "ttt-linear", {"mini_batch": "4", "batch": "8"}) == {"mini_batch": "4", "batch": "8"}
    assert accepted(heat, "rnn", {"mini_batch": "4", "batch": "8"}) == {"batch": "8"}
    with pytest.raises(SettingError, match="did you mean 'mini_batch'"):
        Terms(settings={"mini_bath": "4"}).of(heat)
    with pytest.raises(SettingError, match="--params: expected a heat with one size for all"):
        Terms(params=100).of(ladders()["attention"])
    with pytest.raises(ContractError, match="did you mean 'lstm'"):
        with_models(heat, ["lstmm"])


def test_data_of_the_users_own_are_measured_as_is_usual_there():
    heat = heats()["translation"]
    assert Terms().of(heat).metric.name == "exact"
    assert Terms(data={"data": ("some",)}).of(heat).metric.name == "bleu"


def test_a_model_that_is_named_twice_runs_once():
    assert with_models(recall(), ["rnn", "mlp", "rnn"]).models == ("rnn", "mlp")


def test_steps_among_the_settings_are_the_budget_and_the_race_says_so():
    heat = Terms(settings={"steps": "60", "batch": "8"}).of(recall("rnn"))
    assert (heat.steps, heat.settings["batch"], "steps" in heat.settings) == (60, "8", False)
    assert Terms().to_json(heat)["steps"] == 60
    assert heat == Terms(budget=60, settings={"batch": "8"}).of(recall("rnn"))
    with pytest.raises(SettingError, match="--budget: expected it or --set steps, found both"):
        Terms(settings={"steps": "60"}, budget=60).of(recall("rnn"))
    for steps, message in (("none", "steps: expected"), ("0", "steps: expected at least 1, found 0")):
        with pytest.raises(SettingError, match=message):
            Terms(settings={"steps": steps}).of(recall("rnn"))
