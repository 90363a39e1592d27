"""What each word contributes, against what the classifier says of other texts."""

import math

import numpy as np
import pytest
import torch

import recollect
from recollect.core.errors import RecollectError
from recollect.tasks.labels.contributions import log_odds

TEXT = "although the acting was superb the plot is not bad"


@pytest.fixture(scope="module")
def model():
    return recollect.load("demo-opinions", engine="torch")


def test_a_word_left_out_contributes_what_the_text_without_it_lacks(model):
    found = model.contributions(TEXT)
    words = TEXT.split()
    assert found.words == tuple(words)
    for place in range(len(words)):
        (after,) = model.probabilities([" ".join(words[:place] + words[place + 1 :])])
        wanted = log_odds(found.probabilities) - log_odds(after)
        np.testing.assert_allclose(found.values[place], wanted, atol=2e-3)
    assert np.isnan(found.start).all()


def test_parts_along_the_path_sum_to_the_whole(model):
    for text in (TEXT, "the film was good", "we never did love this song although the room is ugly"):
        found = model.contributions(text, "path")
        np.testing.assert_allclose(found.start + found.values.sum(axis=0), found.odds, atol=0.02)
        (alone,) = model.probabilities([text])
        np.testing.assert_allclose(found.probabilities, alone, atol=1e-6)


def test_the_path_leaves_the_model_as_it_was(model):
    before = model.probabilities([TEXT])
    model.contributions(TEXT, "path")
    assert not model.module.enter._forward_hooks
    np.testing.assert_array_equal(before, model.probabilities([TEXT]))


def test_after_each_word_it_says_what_it_says_of_the_text_so_far(model):
    found = model.contributions(TEXT)
    words = TEXT.split()
    for place in range(len(words)):
        (wanted,) = model.probabilities([" ".join(words[: place + 1])])
        np.testing.assert_allclose(found.so_far[place], wanted, atol=1e-5)


def test_not_turns_a_word_round(model):
    place = model.labels.index("positive")
    plain, denied = (model.contributions(text) for text in ("the film was bad", "the film was not bad"))
    assert plain.probabilities[place] < 0.1 < 0.9 < denied.probabilities[place]
    assert denied.values[denied.words.index("not"), place] == denied.values[:, place].max() > 3


def test_words_that_the_run_does_not_know_are_named_as_they_were_written(model):
    found = model.contributions("the Foo was bad")
    assert found.words == ("the", "Foo", "was", "bad")
    assert found.known == (True, False, True, True)


def test_a_single_word_falls_back_to_even_odds(model):
    found = model.contributions("great")
    np.testing.assert_allclose(found.values[0], found.odds, atol=1e-9)


def test_log_odds_are_those_of_the_textbook():
    np.testing.assert_allclose(log_odds(np.array([0.9, 0.1])), [math.log(9), -math.log(9)])
    np.testing.assert_allclose(log_odds(np.array([0.5, 0.25, 0.25])), [0, -math.log(3), -math.log(3)])


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        ("", "without", "a word that the run knows"),
        ("Foo Bar", "without", "a word that the run knows"),
        ("good " * 201, "without", "at most 200 words"),
        ("the film was good", "shapley", "rule"),
    ],
)
def test_what_cannot_be_explained_is_one_line(model, text, rule, words):
    with pytest.raises(RecollectError, match=words) as caught:
        model.contributions(text, rule)
    assert "\n" not in str(caught.value)


def test_counted_words_have_no_gradient(model, monkeypatch):
    monkeypatch.setattr(type(model), "module", torch.nn.Linear(1, 1))
    with pytest.raises(RecollectError, match="use without"):
        model.contributions(TEXT, "path")
