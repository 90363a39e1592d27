"""The floor below which a claim gives no verdict."""

import pytest

from recollect.claims.claim import Verdict
from recollect.claims.laboratory.floor import Floor
from recollect.report.pages.claims import VERDICTS

RIGHT = Floor(easy="at a gap of 0 words", figure="right answers", least=0.9)
ERROR = Floor(easy="on 4 steps", figure="squared error", most=0.01, models="the cell")


def test_one_seed_below_the_floor_is_enough_to_say_that_a_model_has_not_learnt():
    assert RIGHT.missing({"rnn": [0.9, 1.0], "gru": [0.95, 0.97]}) == ""
    told = RIGHT.missing({"rnn": [0.89, 1.0], "gru": [0.95, 0.97]})
    assert told.startswith("not learnt at a gap of 0 words (right answers, at least 0.9 with every seed): rnn 0.945")
    assert "gru" not in told


def test_a_loss_must_stay_below_its_floor():
    assert ERROR.missing({"rnn": [0.01, 0.0]}) == ""
    assert "rnn 0.011" in ERROR.missing({"rnn": [0.011, 0.011]})


def test_the_rule_in_words_has_the_figures_of_the_floor():
    assert str(ERROR) == "Not learnt unless the cell reaches at most 0.01 squared error on 4 steps with every seed."


def test_a_floor_has_one_bound():
    with pytest.raises(ValueError, match="least or most"):
        Floor(easy="", figure="")


def test_the_page_knows_how_every_verdict_is_shown():
    assert set(VERDICTS) == set(Verdict)
