"""Claims about forecasting, translating, text and ratings: their experiments, and how each verdict is reached."""

import math
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from recollect.claims import (
    arrow,
    biases,
    complement,
    content,
    films,
    k_step,
    stationary,
)
from recollect.claims.claim import Verdict
from recollect.data.tokenizers import Words

HOLDS, LIMITS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.LIMITS, Verdict.FAILS, Verdict.UNDECIDED


# ------------------------------------------------------------------------------------------------ verdicts


@pytest.mark.parametrize(
    ("fed", "once", "free", "mean", "verdict"),
    [
        ([0.05, 0.06, 0.1, 0.5], [0.05, 0.06, 0.08, 0.2], 0.9, 0.5, HOLDS),
        ([0.05, 0.06, 0.1, 0.5], [0.05, 0.06, 0.08, 0.2], 0.4, 0.5, LIMITS),
        ([0.05, 0.06, 0.1, 0.5], [0.05, 0.06, 0.08, 0.49], 0.9, 0.5, LIMITS),
        ([0.05, 0.06, 0.1, 0.09], [0.05, 0.06, 0.08, 0.05], 0.9, 0.5, FAILS),
        ([0.05, 0.06, 0.07, 0.08], [0.05, 0.05, 0.05, 0.05], 0.9, 0.5, FAILS),
    ],
)
def test_feeding_back_is_judged_by_growth_and_by_saying_it_at_once(fed, once, free, mean, verdict):
    errors = {
        "fed back": [dict(zip(k_step.KS, fed, strict=True))] * 3,
        "at once": [dict(zip(k_step.KS, once, strict=True))] * 3,
    }
    assert k_step.judge(errors, [free] * 3, [mean] * 3) == verdict


def test_feeding_back_is_undecided_where_one_seed_at_64_is_as_good_as_one_at_1():
    rows = [dict(zip(k_step.KS, row, strict=True)) for row in ([0.05, 0.06, 0.1, 0.5], [0.05, 0.06, 0.1, 0.5])]
    odd = dict(zip(k_step.KS, [0.05, 0.06, 0.1, 0.05], strict=True))
    assert k_step.judge({"fed back": [*rows, odd], "at once": [odd] * 3}, [1.0] * 3, [0.5] * 3) == UNDECIDED


@pytest.mark.parametrize(
    ("ar", "gru", "fresh", "verdict"),
    [
        ([4, 5], [3, 9], [10, 10], HOLDS),
        ([4, 5], [1, 9], [10, 10], LIMITS),
        ([1, 2], [1, 2], [10, 10], FAILS),
        ([1, 4], [1, 2], [10, 10], UNDECIDED),
        ([4, 5], [3, 9], [1, 1], UNDECIDED),
    ],
)
def test_a_change_is_judged_by_the_errors_around_it(ar, gru, fresh, verdict):
    assert stationary.judge({"ar": ar, "gru": gru}, {"ar": fresh, "gru": [10, 10]}) == verdict


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, HOLDS),
        ({"backward gap": [0.01, 0.05]}, LIMITS),
        ({"backward gap": [0.2, 0.3]}, FAILS),
        ({"backward misled": [0.0, 0.01]}, FAILS),
        ({"past moved": [0.0, 0.1]}, FAILS),
        ({"backward misled": [0.3, 1.0]}, UNDECIDED),
        ({"forward misled": [0.0, 0.2]}, UNDECIDED),
        ({"forward gap": [0.0, 0.2]}, UNDECIDED),
        ({"backward gap": [0.01, 0.2]}, UNDECIDED),
    ],
)
def test_the_arrow_is_judged_by_likelihood_and_by_setting_a_letter(changes, verdict):
    found = {
        "forward gap": [0.0, 0.01],
        "backward gap": [0.01, 0.01],
        "forward misled": [0.0, 0.01],
        "backward misled": [1.0, 2.0],
        "past moved": [0.0, 0.0],
    }
    assert arrow.judge(found | changes) == verdict


@pytest.mark.parametrize(
    ("right", "verbs", "articles", "verdict"),
    [
        ([1.0, 0.95], True, True, HOLDS),
        ([1.0, 0.95], True, False, LIMITS),
        ([1.0, 0.95], True, None, LIMITS),
        ([1.0, 0.95], None, True, LIMITS),
        ([1.0, 0.95], False, False, FAILS),
        ([1.0, 0.95], None, False, UNDECIDED),
        ([1.0, 0.95], False, None, UNDECIDED),
        ([1.0, 0.5], True, True, Verdict.NOT_LEARNT),
        ([0.2, 0.3], False, False, Verdict.NOT_LEARNT),
    ],
)
def test_looks_are_judged_by_verbs_and_articles(right, verbs, articles, verdict):
    assert content.judge(right, verbs, articles) is verdict


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        ([3.0, 2.0], [2.0, 1.5], True),
        ([1.0, 1.9], [2.0, 2.0], None),  # the second order is as it should be
        ([3.0, 3.0], [2.0, 1.0], None),
    ],
)
def test_verbs_must_look_at_the_subject_wherever_it_stands(first, other, expected):
    found = {"verb to subject, subject first": first, "subject to other, subject first": other}
    found |= {"verb to subject, place first": [3.0, 3.0], "subject to other, place first": [2.0, 2.0]}
    assert content.verbs_attend_to_nouns(found) is expected
    nowhere = {name: [1.0, 1.0] for name in found}
    assert content.verbs_attend_to_nouns(nowhere) is False


@pytest.mark.parametrize(
    ("idle", "telling", "right", "expected"),
    [
        ([0.2, 0.5], [0.9, 0.8], [1.0, 1.0], True),
        ([0.2, 0.5], [0.9, 0.4], [1.0, 1.0], None),  # no less than where articles decide
        ([0.2, 0.5], [0.9, 0.8], [1.0, 0.5], None),  # where that was not learnt
        ([0.2, 0.6], [0.9, 0.8], [1.0, 1.0], None),
        ([0.8, 0.6], [0.9, 0.8], [1.0, 1.0], False),
    ],
)
def test_articles_must_get_little_and_less_than_where_they_decide(idle, telling, right, expected):
    control = {"to article": telling, "right": right}
    assert content.articles_are_passed_over({"to article": idle}, control) is expected


@pytest.mark.parametrize(
    ("short", "long", "verdict"),
    [
        ([0.02, 0.03], [0.02, 0.02], HOLDS),
        ([0.0, 0.0], [0.02, 0.02], LIMITS),
        ([0.0, 0.01], [-0.1, 0.0], FAILS),
        ([0.0, 0.02], [0.0, 0.0], UNDECIDED),
    ],
)
def test_a_mixture_is_judged_by_its_gain_at_each_budget(short, long, verdict):
    assert complement.judge({100: short, 400: long}) == verdict


@pytest.mark.parametrize(
    ("canonical", "alone", "verdict"),
    [
        ([0.99, 0.99], [0.95, 0.9], HOLDS),
        ([0.99, 0.95], [0.8, 0.95], LIMITS),
        ([0.5, 0.8], [0.4, 0.5], FAILS),
        ([0.5, 0.95], [0.4, 0.5], UNDECIDED),
    ],
)
def test_features_are_judged_as_a_space_and_one_by_one(canonical, alone, verdict):
    assert films.judge(canonical, alone) == verdict


@pytest.mark.parametrize(
    ("off", "worse", "floor", "verdict"),
    [
        ({0.0: [0.01, 0.02], 0.8: [0.0, 0.05]}, {0.8: [0.03, 0.1]}, 1.1, HOLDS),
        ({0.0: [0.01, 0.02], 0.8: [0.0, 0.05]}, {0.2: [0.0, 0.01], 0.8: [0.03, 0.1]}, 1.1, LIMITS),
        ({0.0: [0.01, 0.2], 0.8: [0.0, 0.05]}, {0.8: [0.03, 0.1]}, 1.1, LIMITS),
        ({0.0: [0.06, 0.2], 0.8: [0.0, 0.05]}, {0.8: [0.0, 0.01]}, 1.1, FAILS),
        ({0.0: [0.01, 0.2], 0.8: [0.0, 0.05]}, {0.8: [0.0, 0.1]}, 1.1, UNDECIDED),
        ({0.0: [0.01, 0.02], 0.8: [0.0, 0.05]}, {0.8: [0.03, 0.1]}, 1.2, Verdict.NOT_LEARNT),
    ],
)
def test_biases_are_judged_by_the_share_they_find_and_by_vectors_without_them(off, worse, floor, verdict):
    assert biases.judge(off, worse, [1.0, floor])[0] is verdict


# ------------------------------------------------------------------------------------------------ chains and sines


def test_the_chain_is_as_regular_backwards():
    chances = arrow.chain()
    assert np.allclose(chances.sum(axis=1), 1)
    assert np.allclose(chances.sum(axis=0), 1)  # so all letters are equally frequent, and the reverse is the transpose
    assert not np.allclose(chances, chances.T)
    assert chances[5, 0] == pytest.approx(arrow.STEP)
    assert chances[2, 2] == pytest.approx(arrow.STAY)


def test_a_walk_follows_its_chances_and_a_letter_set_moves_nothing_before_it():
    draw = np.random.default_rng(0)
    noise, first = draw.random((3000, 10)), draw.integers(6, size=3000)
    seen = arrow.walk(noise, first, arrow.chain())
    counts = np.zeros((6, 6))
    np.add.at(counts, (seen[:, :-1].ravel(), seen[:, 1:].ravel()), 1)
    assert np.allclose(counts / counts.sum(axis=1, keepdims=True), arrow.chain(), atol=0.02)
    done = arrow.walk(noise, first, arrow.chain(), {4: 3})
    assert (done[:, :4] == seen[:, :4]).all()
    assert (done[:, 4] == 3).all()
    assert (done[:, 5] != seen[:, 5]).mean() > 0.5


def test_errors_of_a_stretch_are_those_of_its_forecasts():
    values = torch.arange(10.0)
    window = lambda rows: SimpleNamespace(x=values[list(rows)], y=values[list(rows)] + 2)  # noqa: E731
    made: Any = SimpleNamespace(
        task=SimpleNamespace(window=window), model=SimpleNamespace(forecast=lambda x: SimpleNamespace(mean=x))
    )
    assert stationary.error(made, range(2, 5)) == pytest.approx(4)


def test_a_wandering_sine_has_many_rates_and_a_little_noise():
    found = stationary.wandering(400, 3)
    assert len(found) == 400
    assert 0.9 < np.abs(found).max() < 1.4
    assert not np.array_equal(found, stationary.wandering(400, 4))


# ------------------------------------------------------------------------------------------------ looks


class Even:
    """A model that looks evenly at all it has seen, and says the food of a noun of the last sentence."""

    def __init__(self, tokenizer, noun, articles_decide):
        self.tokenizer, self.noun, self.articles_decide = tokenizer, noun, articles_decide

    def initial_state(self, batch):
        return 0

    def explain(self, state, x):
        return {"1.weights": torch.full((len(x), 2, state + 1), 1 / (state + 1)), "1.gates": torch.ones(len(x), 3)}

    def __call__(self, x, state=0):
        def number(word):
            return int(self.tokenizer.encode(word)[0])

        logits = torch.zeros(*x.shape, self.tokenizer.size)
        nouns, places = [number(noun) for noun in content.NOUNS], {number(word) for word in content.PLACES}
        for row, tokens in enumerate(x.tolist() if x.shape[1] > 1 else []):
            last = tokens[-content.VERB - 1 :]
            order = content.ORDERS["place first" if last[0] in places else "subject first"]
            at = getattr(order, self.noun)
            shift = self.articles_decide and last[at - 1] == number("a")
            food = content.FOODS[(nouns.index(last[at]) + shift) % len(nouns)]
            logits[row, -1, number(food)] = 50
        return logits, state + x.shape[1]


@pytest.mark.parametrize("articles_decide", [False, True])
def test_even_looks_are_one_everywhere_and_the_forecast_hangs_on_its_noun_alone(articles_decide):
    draw = random.Random(0)
    texts = [[content.compose(draw, articles_decide, list(content.ORDERS)) for _ in range(3)] for _ in range(30)]
    words = sorted({word for text in texts for line in text for word in line.words} | set(content.NOUNS))
    tokenizer = Words(["<unk>", "<eos>", *words])
    model = Even(tokenizer, "subject", articles_decide)
    found = content.measure_attention(model, texts, tokenizer, torch.device("cpu"))
    for kind in content.KINDS:
        assert found[f"to {kind}"] == pytest.approx(1, rel=1e-5)
        assert found[f"verb to {kind}"] == pytest.approx(1, rel=1e-5)
        assert found[f"entropy of {kind}"] == pytest.approx(1, rel=1e-5)
    for order in content.ORDERS:
        assert found[f"verb to subject, {order}"] == pytest.approx(1, rel=1e-5)
        assert found[f"subject to other, {order}"] == pytest.approx(1)
        assert np.shape(found[f"map, {order}"]) == (8, 8)
    assert found["right"] == 1
    assert found["moved by other"] == pytest.approx(0)
    assert found["moved by article"] == pytest.approx(float(articles_decide))
    if not articles_decide:  # else another noun with its article may have the same food
        assert found["moved by subject"] == pytest.approx(1)
    other = content.measure_attention(Even(tokenizer, "other", articles_decide), texts, tokenizer, torch.device("cpu"))
    assert other["right"] < 0.3
    assert other["moved by subject"] == pytest.approx(0)


class Pointed(Even):
    """A model whose every look goes to the token `back` before it."""

    back = 1

    def explain(self, state, x):
        weights = torch.zeros(len(x), 2, state + 1)
        weights[:, :, state - self.back] = 1
        return {"1.weights": weights}


def test_a_look_at_one_place_is_found_there():
    """One word back from the verb stands the second noun of a sentence: the subject in one order, not in the other."""
    draw = random.Random(0)
    texts = [[content.compose(draw, False, list(content.ORDERS)) for _ in range(2)] for _ in range(20)]
    words = sorted({word for text in texts for line in text for word in line.words} | set(content.NOUNS))
    tokenizer = Words(["<unk>", "<eos>", *words])
    found = content.measure_attention(Pointed(tokenizer, "subject", False), texts, tokenizer, torch.device("cpu"))
    seen = 8 + content.VERB + 1
    assert found["verb to subject, place first"] == pytest.approx(seen)
    assert found["verb to subject, subject first"] == 0
    assert found["verb to article"] == 0
    assert found["verb to noun"] == pytest.approx(seen / 4)
    assert found["entropy of verb"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("articles_decide", [False, True])
def test_a_sentence_names_the_food_of_its_subject_in_either_order(articles_decide):
    draw = random.Random(1)
    seen = set()
    for _ in range(300):
        words, order = content.compose(draw, articles_decide, list(content.ORDERS))
        kinds, subject, other = content.ORDERS[order]
        seen.add((order, words[subject - 1]))
        assert len(words) == len(kinds) - 1
        assert [kind for kind, word in zip(kinds, words, strict=False) if word in content.ARTICLES] == ["article"] * 2
        own = content.NOUNS.index(words[subject]) + (articles_decide and words[subject - 1] == "a")
        assert words[-1] == content.FOODS[own % 8]
        assert words[other] != words[subject]
        assert {words[subject], words[other]} <= set(content.NOUNS)
        assert words[content.VERB] in content.VERBS
    assert len(seen) == 4
    plain = content.compose(draw, False, [content.PLAIN]).words
    assert len(plain) == 4
    assert plain[-1] == content.FOOD[plain[1]]


# ------------------------------------------------------------------------------------------------ text and ratings


def test_a_mixture_of_two_is_measured_with_the_share_that_validation_likes():
    a, b = torch.tensor([0.1, 3.0], dtype=torch.float64), torch.tensor([3.0, 0.1], dtype=torch.float64)
    task: Any = SimpleNamespace(losses=lambda model, split, rule: b)
    found = complement.mixed(task, None, {"valid": a, "test": a})
    assert found["share of the n-gram"] == pytest.approx(0.5, abs=1e-6)
    assert found["n-gram"] == found["network"] == pytest.approx(1.55)
    expected = -math.log(0.5 * math.exp(-0.1) + 0.5 * math.exp(-3.0))
    assert found["mixture"] == pytest.approx(expected, abs=1e-6)


def test_no_file_is_in_two_parts_of_the_text(tmp_path):
    data = complement.text(16, tmp_path)
    parts = [data.train, data.valid, data.test]
    assert all(len(part) > complement.LEAST for part in parts)
    assert len(data.train) > len(data.valid)
    heads = {bytes(np.asarray(part[:4000], dtype=np.int32)) for part in parts}
    assert len(heads) == 3


def test_rotations_are_rotations_and_leave_axes_to_chance():
    """In the plane the better of |cos| and |sin| of a random angle is 2√2/π in the mean."""
    draw = torch.Generator().manual_seed(0)
    turns = torch.stack([films.rotation(2, draw) for _ in range(4000)])
    assert torch.allclose(turns @ turns.mT, torch.eye(2, dtype=torch.float64).expand(4000, 2, 2), atol=1e-12)
    best = turns.abs().max(dim=1).values.mean()
    assert float(best) == pytest.approx(2 * math.sqrt(2) / math.pi, abs=0.005)


def test_perfect_models_share_the_work_as_the_truth_does():
    noise, bias, spread = 0.3, 0.4, 0.8
    row = {
        "mean": math.sqrt(2 * bias**2 + spread**2 + noise**2),
        "biases": math.sqrt(spread**2 + noise**2),
        "both": noise,
    }
    assert biases.share(row) == pytest.approx(2 * bias**2 / (2 * bias**2 + spread**2))
