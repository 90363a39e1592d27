"""Each memory learns, in seconds, what a lesser one cannot; where the bound is a theorem, it is derived beside it."""

import math
import os

import numpy as np
import pytest
import torch

import tiny
from recollect.models import language, ngram
from recollect.tasks.text import task as text
from recollect.training.loop import Trainer
from recollect.training.settings import Settings

SEED = int(os.environ.get("RECOLLECT_SEED", "0"))


class Pages(text.TextTask):
    """A text in pages of `context` tokens, each read from nothing: windows begin where pages do."""

    def _random(self, split, seed, start):
        tokens, steps, rows = self.tokens(split), self.config.context, self.config.batch
        while True:
            page = np.random.default_rng([seed, start]).integers(0, (len(tokens) - 1) // steps, size=rows)
            window = np.stack([tokens[i * steps : i * steps + steps + 1] for i in page])
            yield self._batch(window.astype(np.int64), True, start)
            start += 1


def learn(model, task, *, layers=1, lr=1e-2, steps=300, tie=False, **settings):
    """Nats per token on validation of a model 16 wide, trained for a moment."""
    torch.manual_seed(SEED)
    heads = {"heads": 2} if model in tiny.HEADED else {}
    config = language.Config(
        vocab=task.data.tokenizer.size, model=model, width=16, layers=layers, tie=tie, **heads | settings
    )
    train = Settings(steps=steps, lr=lr, warmup=steps // 10, weight_decay=0.0, eval_every=steps, seed=SEED)
    return Trainer(task, config.build(), train, None, torch.device("cpu")).run()["nats_per_token"]


def entropy(*shares):
    return -sum(share * math.log(share) for share in shares)


# ------------------------------------------------------------------------------------------------ a long period

PERIOD = 16
UNIGRAM = entropy(1 / PERIOD, 1 - 1 / PERIOD)
# With 8 tokens in sight, the 8 places whose last b is further back look alike, and b follows one of them.
WINDOW = 0.5 * entropy(1 / 8, 7 / 8)


@pytest.fixture(scope="module")
def period():
    """Fifteen a and one b, for ever: who counts to fifteen knows everything."""
    tokens = np.tile([0] * (PERIOD - 1) + [1], 400)
    return tiny.task(
        tokens, tokens[: PERIOD * 40], size=2, context=48, batch=16, windows="sequential", eval_rule="stateful"
    )


@pytest.mark.parametrize("model", ["ar", "mlp"])
def test_a_window_beats_frequencies_and_ends_where_it_ends(period, model):
    assert period.baselines("valid")["unigram"] == pytest.approx(UNIGRAM, abs=0.01)
    found = learn(model, period)
    assert 0.99 * WINDOW < found < 0.2 < UNIGRAM


@pytest.mark.slow
@pytest.mark.parametrize(("model", "lr", "bound"), [("rnn", 1e-2, 0.12), ("lstm", 3e-2, 0.05), ("gru", 2e-2, 0.05)])
def test_recurrence_counts_further_than_a_window_sees(period, model, lr, bound):
    assert learn(model, period, lr=lr, steps=500, tie=True) < bound < 0.64 * WINDOW


def test_the_count_of_long_ngrams_is_a_window_too(period):
    for order, bound in ((9, WINDOW), (16, 0.0)):
        model = ngram.Config(vocab=2, order=order).build().train_on(period.tokens("train"))
        found = period.evaluate(model, "valid")["nats_per_token"]
        assert bound * 0.99 < found < bound + 0.02


# ------------------------------------------------------------------------------------------------ exclusive or


@pytest.fixture(scope="module")
def exclusive():
    """Two random bits and their exclusive or, each in letters of its own: 2 bits of news in 3 tokens."""

    def draw(count, seed):
        bits = np.random.default_rng(seed).integers(0, 2, size=(count, 2))
        return np.stack([bits[:, 0], 2 + bits[:, 1], 4 + (bits[:, 0] ^ bits[:, 1])], axis=1).ravel()

    return tiny.task(draw(4000, 0), draw(500, 1), size=6, context=24, batch=16)


def test_a_hidden_layer_computes_what_a_linear_map_cannot(exclusive):
    """Logits that are linear in the window leave the third token at one bit; a hidden layer knows it."""
    assert learn("ar", exclusive) > 0.98 * math.log(2)
    assert learn("mlp", exclusive) < 0.5
    assert 2 / 3 * math.log(2) < 0.5


def test_counting_learns_it_too(exclusive):
    model = ngram.Config(vocab=6, order=3).build().train_on(exclusive.tokens("train"))
    assert exclusive.evaluate(model, "valid")["nats_per_token"] < 0.5


# ------------------------------------------------------------------------------------------------ recall


def recall(gap, pages_in_sight=1):
    """Pages that begin with one of four digits, go on with `gap` letters that are always the same, and end with it."""

    def draw(count, seed):
        pages = np.tile(np.arange(gap + 2) + 3, (count, 1))
        pages[:, 0] = pages[:, -1] = np.random.default_rng(seed).integers(0, 4, size=count)
        return np.append(pages, 0)

    context = (gap + 2) * pages_in_sight
    batch = 32 if pages_in_sight == 1 else 16
    return Pages(text.Config(context=context, batch=batch), tiny.corpus(draw(4000, 0), draw(400, 1), gap + 6))


def bounds(gap):
    """Nats per token with the digit forgotten, twice ln 4 a page, and remembered, once."""
    return 2 * math.log(4) / (gap + 2), math.log(4) / (gap + 2)


@pytest.mark.parametrize("model", ["ar", "mlp"])
def test_what_lies_before_the_window_is_forgotten(model):
    forgotten, _ = bounds(8)
    assert learn(model, recall(8)) > 0.98 * forgotten


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("tcn", {"layers": 2}),
        ("transformer", {}),
        ("linear-transformer", {}),
        ("ttt-linear", {"layer": {"mini_batch": 5}}),
        pytest.param("ttt-mlp", {"layer": {"mini_batch": 5}}, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_memory_that_looks_back_recalls_over_a_longer_gap(model, settings):
    forgotten, remembered = bounds(8)
    assert learn(model, recall(8), **settings) < 0.6 * forgotten
    assert remembered < 0.6 * forgotten


@pytest.mark.slow
def test_a_recurrent_network_of_the_same_width_does_not_learn_it_in_the_same_time():
    forgotten, _ = bounds(8)
    for model in ("rnn", "lstm", "gru"):
        assert learn(model, recall(8)) > 0.9 * forgotten


@pytest.mark.parametrize(
    ("model", "settings"),
    [("transformer", {}), pytest.param("ttt-linear", {"layer": {"mini_batch": 5}}, marks=pytest.mark.slow)],
    ids=["transformer", "ttt-linear"],
)
def test_the_latest_of_several_digits_is_found_where_a_sum_mixes_them(model, settings):
    """Four pages in sight: linear attention adds the digits up; attention sees places, and training overwrites."""
    forgotten, remembered = bounds(3)
    task = recall(3, pages_in_sight=4)
    assert learn("linear-transformer", task, lr=5e-3, steps=400) > 0.65 * forgotten
    assert learn(model, task, lr=5e-3, steps=400, **settings) < 0.57 * forgotten
    assert remembered < 0.57 * forgotten
