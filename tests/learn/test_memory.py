"""What each memory passes and a lesser one cannot; where the bound is a theorem, it is derived beside it."""

import os

import pytest
import torch

import tiny
from recollect import tasks
from recollect.models import classifier
from recollect.tasks.memory import data as tests
from recollect.tasks.memory.settings import Config
from recollect.training.loop import Trainer
from recollect.training.settings import Settings

pytestmark = pytest.mark.slow  # each trains for a second or two

SEED = int(os.environ.get("RECOLLECT_SEED", "0"))
SIGHT = 8  # words, bits or numbers that one layer of a window model has before it


def learn(test, model, *, steps, lr=1e-2, batch=32, width=32, layers=1, **settings):
    """What a model reaches on the validation rows of a test, trained for a moment."""
    torch.manual_seed(SEED)
    heads = {"heads": 2} if model in tiny.HEADED else {}
    shape = {"inputs": test.inputs, "outputs": test.outputs, "tokens": test.tokens, "pool": "each"}
    built = classifier.Config(model=model, width=width, layers=layers, **shape, **heads | settings).build()
    task = tasks.find(test.kind)(Config(batch=batch, eval_rows=500), test)
    train = Settings(steps=steps, lr=lr, warmup=steps // 10, weight_decay=0.0, eval_every=steps, seed=SEED)
    return Trainer(task, built, train, None, torch.device("cpu")).run()


def noise(share, count):
    """Four standard deviations of a share that was counted."""
    return 4 * (share * (1 - share) / count) ** 0.5


# ------------------------------------------------------------------------------------------------ copy

COPY = tests.Copy(distance=20, load=2)


@pytest.mark.parametrize("model", ["ar", "mlp"])
def test_a_window_knows_when_to_copy_and_not_what(model):
    """The delimiter is in its sight and the symbols are not: it comes to chance, and no further."""
    assert COPY.load < SIGHT < COPY.distance
    found, chance = learn(COPY, model, steps=200), COPY.baselines()["chance"]
    assert 0.98 * chance < found["loss"] < 1.2 * chance
    assert found["accuracy"] < COPY.chance + noise(COPY.chance, found["answers"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("gru", {"width": 64, "steps": 600, "lr": 5e-3}),
        ("lstm", {"width": 64, "steps": 1500, "layer": {"forget_bias": 3.0}}),
        ("tcn", {"layers": 4, "steps": 300, "lr": 5e-3}),
    ],
    ids=["gru", "lstm", "tcn"],
)
def test_what_was_said_twenty_steps_ago_is_said_again(model, settings):
    found = learn(COPY, model, **settings)
    assert found["loss"] < 0.25 * COPY.baselines()["chance"]
    assert found["accuracy"] > 0.85


# ------------------------------------------------------------------------------------------------ adding

ADDING = tests.Adding(length=30)
# The window never sees the first number, and the second only in 8 of its 15 places: what it does not see it
# can do no better than guess, at a variance of 1/12 each.
UNSEEN = (1 + 7 / 15) / 12


@pytest.mark.parametrize("model", ["ar", "mlp"])
def test_a_window_misses_what_lies_before_it(model):
    found = learn(ADDING, model, steps=200)
    assert 0.85 * UNSEEN < found["mse"] < 1.1 / 6


@pytest.mark.parametrize(("model", "steps"), [("gru", 200), pytest.param("lstm", 600, marks=pytest.mark.slow)])
def test_gated_cells_carry_a_number_through_thirty_steps(model, steps):
    assert learn(ADDING, model, steps=steps)["mse"] < 0.01 < 0.1 * UNSEEN


# ------------------------------------------------------------------------------------------------ recall

RECALL = tests.Recall(length=16, load=4, vocab=32)


def recall(model, **settings):
    return learn(RECALL, model, layers=2, width=64, batch=64, lr=3e-3, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["rnn", "lstm", "gru"])
def test_a_recurrent_network_finds_out_which_values_there_are_and_not_whose(model):
    """In the steps that attention needs to know everything."""
    found = recall(model, steps=400)
    assert found["baselines"]["one of the values seen"] == 0.75
    assert found["error"] > 0.5


@pytest.mark.slow
def test_attention_recalls_the_value_of_every_key():
    assert recall("transformer", steps=400)["error"] < 0.02


@pytest.mark.slow
def test_so_does_training_at_test_time():
    assert recall("ttt-linear", steps=200, positions="learned", layer={"mini_batch": 4})["error"] < 0.05


@pytest.mark.slow
def test_a_sum_of_pairs_mixes_them():
    """Linear attention has a matrix for each head as ttt-linear does, but only ever adds to it."""
    assert recall("linear-transformer", steps=200, positions="learned")["error"] > 0.3


# ------------------------------------------------------------------------------------------------ parity

PARITY = tests.Parity(length=20)


@pytest.mark.parametrize("model", ["rnn", "gru"])
def test_recurrence_tracks_parity_and_goes_on_beyond_what_it_was_trained_on(model):
    found = learn(PARITY, model, steps=300)
    assert found["error"] < 0.01
    assert {point["length"]: point["last"] > 0.98 for point in found["points"] if point["length"] >= 20} == {
        20: True,
        40: True,
        80: True,
    }


@pytest.mark.slow
def test_attention_does_not_track_parity():
    found = learn(PARITY, "transformer", layers=2, steps=300, lr=3e-3)
    longest = found["points"][-1]
    assert longest["length"] == 80
    assert abs(longest["last"] - 0.5) < noise(0.5, 500)
    assert found["error"] > 0.25


# ------------------------------------------------------------------------------------------------ gap

GAP = tests.Gap(distance=20, distractors=1)


@pytest.mark.parametrize("model", ["ar", "mlp"])
def test_a_window_does_not_remember_where_somebody_grew_up(model):
    """At best it sees the distractor, which it is not, and guesses among the other eleven."""
    found = learn(GAP, model, steps=200)
    assert GAP.distance > SIGHT
    assert found["accuracy"] < 1 / 11 + noise(1 / 11, 500)


@pytest.mark.slow
def test_a_gated_cell_remembers_it_over_twenty_words_and_a_distractor():
    assert learn(GAP, "gru", steps=700)["accuracy"] > 0.95
