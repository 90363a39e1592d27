"""Where a figure stands beside its baselines, in a line."""

from recollect.core.baselines import compare

GUESSES = {"uniform": 4.17, "unigram": 3.58}
SERIES = {"mean": 1.0, "naive": 0.5, "linear": 0.31}
INSTEAD = {"linear": "--model ar", "naive": "forecast the last value"}


def test_who_is_not_below_a_guess_has_learnt_nothing_yet():
    assert compare(3.6, GUESSES, {}) == "unigram 3.58, this 3.6: it has learnt nothing yet"
    assert compare(3.581, GUESSES, {}) == "unigram 3.58, this 3.581: it has learnt nothing yet"


def test_who_is_below_all_is_told_what_they_reach():
    assert compare(1.53, GUESSES, {}) == (
        "this 1.53; none of what needs no training is better: uniform 4.17, unigram 3.58"
    )


def test_a_better_baseline_that_is_a_model_is_named_with_how_to_use_it():
    assert compare(0.4, SERIES, INSTEAD) == "linear is better, 0.31 against 0.4: --model ar"
    assert compare(1.2, SERIES, INSTEAD) == (
        "mean 1, this 1.2: it has learnt nothing yet; linear is better, 0.31 against 1.2: --model ar"
    )
    assert "none of what needs no training is better" in compare(0.31, SERIES, INSTEAD)  # it is that very model


def test_where_there_is_no_baseline_nothing_is_said():
    assert compare(1.0, {"unknown": float("nan")}, {}) == ""
