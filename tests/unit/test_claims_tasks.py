"""Claims about forecasting, translating, text and ratings: their experiments, and how each verdict is reached."""

import json
import math
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from recollect.claims import (
    _copying,
    arrow,
    biases,
    bottleneck,
    complement,
    content,
    fading,
    films,
    k_step,
    load,
    recency,
    reverse,
    stationary,
)
from recollect.claims._limits import limits
from recollect.claims.claim import Effort, Verdict
from recollect.data.tokenize import Words

IDS = (
    "k-step",
    "stationary",
    "arrow",
    "bottleneck",
    "recency",
    "fading",
    "reverse",
    "content",
    "complement",
    "films",
    "biases",
)
HOLDS, LIMITS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.LIMITS, Verdict.FAILS, Verdict.UNDECIDED


@pytest.mark.parametrize("name", IDS)
def test_every_claim_says_what_it_is(name):
    claim = load(name)
    assert claim.id == name
    assert claim.sources
    assert claim.experiment
    assert claim.decided
    assert claim.statement.endswith(".")
    assert claim.statement.count(". ") == 0
    assert not claim.deterministic


# ------------------------------------------------------------------------------------------------ verdicts


@pytest.mark.parametrize(
    ("fixed", "attend", "short", "verdict"),
    [
        ([0.03, 0.05], [0.0, 0.004], 0.1, HOLDS),
        ([0.03, 0.05], [0.01, 0.02], 0.1, LIMITS),
        ([0.01, 0.015], [0.0, 0.001], 0.1, LIMITS),
        ([0.01, 0.02], [0.03, 0.04], 0.1, FAILS),
        ([0.01, 0.03], [0.0, 0.02], 0.1, UNDECIDED),
        ([0.03, 0.05], [0.0, 0.004], 0.6, UNDECIDED),
    ],
)
def test_the_bottleneck_is_judged_by_its_slopes(fixed, attend, short, verdict):
    assert bottleneck.decide(fixed, attend, short) == verdict


@pytest.mark.parametrize(
    ("both", "early", "late", "right", "verdict"),
    [
        ([0.1, 0.2], [0.1, 0.1], [0.0, 0.2], [0.6, 0.7], HOLDS),
        ([0.1, 0.2], [0.5, 0.5], [-0.2, -0.1], [0.6, 0.7], LIMITS),
        ([0.0, 0.05], [0.1, 0.1], [0.0, 0.0], [0.6, 0.7], FAILS),
        ([0.0, 0.1], [0.1, 0.1], [0.0, 0.0], [0.6, 0.7], UNDECIDED),
        ([0.1, 0.2], [0.1, 0.1], [0.1, 0.1], [0.2, 0.2], UNDECIDED),
    ],
)
def test_recency_is_judged_by_the_ends_of_the_source(both, early, late, right, verdict):
    assert recency.decide(both, early, late, right) == verdict


@pytest.mark.parametrize(
    ("fixed", "context", "attend", "first", "verdict"),
    [
        ([0.3, 0.4], [0.1, 0.2], [0.0, 0.0], [0.8, 0.9], HOLDS),
        ([0.3, 0.4], [0.4, 0.5], [0.0, 0.0], [0.8, 0.9], LIMITS),
        ([0.3, 0.4], [0.4, 0.5], [0.4, 0.4], [0.8, 0.9], FAILS),
        ([0.0, 0.05], [-0.1, -0.1], [-0.1, -0.1], [0.8, 0.9], FAILS),
        ([0.0, 0.3], [-0.1, -0.1], [-0.1, -0.1], [0.8, 0.9], UNDECIDED),
        ([0.3, 0.4], [0.2, 0.35], [0.0, 0.0], [0.8, 0.9], UNDECIDED),
        ([0.3, 0.4], [0.1, 0.2], [0.0, 0.0], [0.2, 0.2], UNDECIDED),
    ],
)
def test_fading_is_judged_by_the_losses_of_all_three(fixed, context, attend, first, verdict):
    assert fading.decide({"fixed": fixed, "context": context, "attend": attend}, first) == verdict


@pytest.mark.parametrize(
    ("fixed", "attend", "errors", "verdict"),
    [
        ([0.1, 0.2], [0.0, 0.03], [0.1, 0.1], HOLDS),
        ([0.1, 0.2], [0.05, 0.06], [0.1, 0.1], LIMITS),
        ([0.0, 0.03], [0.0, 0.0], [0.1, 0.1], FAILS),
        ([0.1, 0.2], [0.2, 0.3], [0.1, 0.1], FAILS),
        ([0.0, 0.2], [0.0, 0.0], [0.1, 0.1], UNDECIDED),
        ([0.1, 0.2], [0.05, 0.15], [0.1, 0.1], UNDECIDED),
        ([0.1, 0.2], [0.0, 0.0], [0.7, 0.6], UNDECIDED),
    ],
)
def test_reversal_is_judged_by_what_it_saves_with_and_without_attention(fixed, attend, errors, verdict):
    assert reverse.decide({"fixed": fixed, "attend": attend}, errors) == verdict


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
    assert k_step.decide(errors, [free] * 3, [mean] * 3) == verdict


def test_feeding_back_is_undecided_where_one_seed_at_64_is_as_good_as_one_at_1():
    rows = [dict(zip(k_step.KS, row, strict=True)) for row in ([0.05, 0.06, 0.1, 0.5], [0.05, 0.06, 0.1, 0.5])]
    odd = dict(zip(k_step.KS, [0.05, 0.06, 0.1, 0.05], strict=True))
    assert k_step.decide({"fed back": [*rows, odd], "at once": [odd] * 3}, [1.0] * 3, [0.5] * 3) == UNDECIDED


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
    assert stationary.decide({"ar": ar, "gru": gru}, {"ar": fresh, "gru": [10, 10]}) == verdict


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
    assert arrow.decide(found | changes) == verdict


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, HOLDS),
        ({"to article": [0.9, 0.8]}, LIMITS),
        ({"subject to other": [1.0, 1.0]}, LIMITS),
        ({"verb to subject": [1.0, 1.0], "to article": [0.9, 0.8]}, FAILS),
        ({"verb to subject": [1.0, 3.0], "to article": [0.9, 0.8]}, UNDECIDED),
        ({"right": [0.5, 0.9]}, UNDECIDED),
    ],
)
def test_looks_are_judged_by_verbs_and_articles(changes, verdict):
    found = {
        "right": [1.0, 1.0],
        "verb to subject": [3.0, 4.0],
        "subject to other": [2.0, 2.0],
        "to article": [0.2, 0.5],
    }
    assert content.decide(found | changes) == verdict


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
    assert complement.decide({100: short, 400: long}) == verdict


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
    assert films.decide(canonical, alone) == verdict


@pytest.mark.parametrize(
    ("small", "large", "verdict"),
    [
        ([0.6, 0.7], [0.8, 0.9], HOLDS),
        ([0.1, 0.2], [0.8, 0.9], LIMITS),
        ([0.1, 0.2], [0.3, 0.5], FAILS),
        ([0.1, 0.2], [0.3, 0.6], UNDECIDED),
    ],
)
def test_biases_are_judged_by_their_share_at_each_setting(small, large, verdict):
    assert biases.decide({0.2: small, 0.8: large}) == verdict


def test_a_summary_names_its_limits_where_there_are_some():
    assert limits(LIMITS, "on Sundays").endswith("on Sundays")
    assert not any(limits(verdict, "on Sundays") for verdict in Verdict if verdict is not LIMITS)


# ------------------------------------------------------------------------------------------------ copying


class Stub:
    """A translator by rule: it writes the source (from the end the first word names), or always the same symbol."""

    def __init__(self, task, copying, heeds=True):
        self.target, self.copying, self.heeds = task.data.target, copying, heeds
        self.words = {int(task.data.source.encode(w)[0]): w for w in map(chr, range(97, 97 + copying.symbols))}

    def encode(self, source, lengths):
        return source

    def __call__(self, x, memory):
        logits = torch.zeros(*x.shape, self.target.size)
        first = int(self.copying.both_ways)
        back = int(self.target.encode(_copying.BACKWARD)[0]) if self.copying.both_ways else -1
        for row, source in enumerate(memory):
            words = [self.words[int(t)] for t in source if int(t) in self.words]
            if x.shape[1] > 1 and int(x[row, 1]) == back:
                words = words[::-1]
            for place in range(first, x.shape[1]):
                said = words[place - first] if self.heeds and place - first < len(words) else "a"
                logits[row, place, int(self.target.encode(said)[0])] = 50
        return logits, None


@pytest.mark.parametrize("both_ways", [False, True])
def test_who_copies_is_right_everywhere_and_who_does_not_read_is_not_moved(tmp_path, both_ways):
    copying = _copying.Copying(shortest=3, longest=5, both_ways=both_ways, train=20, test=40, symbols=4)
    task = copying.load(tmp_path, 256)
    found = _copying.write(Stub(task, copying), task, copying)
    assert sorted(found) == [3, 4, 5]
    for length, written in found.items():
        assert written.right.shape == (40, length)
        assert (written.right == 1).all()
        assert 0.5 < float(written.influence.mean()) < 0.95  # another source has the same symbol one time in four
        assert 5 < int(written.backward.sum()) < 35 if both_ways else not written.backward.any()
    deaf = _copying.write(Stub(task, copying, heeds=False), task, copying)
    for written in deaf.values():
        assert float(written.influence.max()) == 0
        assert 0.05 < float(written.right.mean()) < 0.5


def test_sentences_are_copied_from_either_end():
    copying = _copying.Copying(shortest=1, longest=1, both_ways=True)
    draw = random.Random(0)
    seen = set()
    for _ in range(50):
        source, target = (side.split() for side in copying._line(draw, 5).split("\t"))
        seen.add(target[0])
        assert target[1:] == (source[::-1] if target[0] == _copying.BACKWARD else source)
    assert seen == {_copying.FORWARD, _copying.BACKWARD}


def test_recency_is_the_last_part_less_the_first():
    assert recency.gain([0.1, 0.3, 0.5, 0.5, 0.7, 0.9], 2) == pytest.approx(0.6)


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
        task=SimpleNamespace(window=window), model=SimpleNamespace(look=lambda x: SimpleNamespace(mean=x))
    )
    assert stationary.error(made, range(2, 5)) == pytest.approx(4)


def test_a_wandering_sine_has_many_rates_and_a_little_noise():
    found = stationary.wandering(400, 3)
    assert len(found) == 400
    assert 0.9 < np.abs(found).max() < 1.4
    assert not np.array_equal(found, stationary.wandering(400, 4))


# ------------------------------------------------------------------------------------------------ looks


class Even:
    """A model that looks evenly at all it has seen, and says the food of a noun at a place of the last sentence."""

    def __init__(self, tokenizer, place):
        self.tokenizer, self.place = tokenizer, place
        self.food = {int(tokenizer.encode(a)[0]): int(tokenizer.encode(b)[0]) for a, b in content.FOOD.items()}

    def initial_state(self, batch):
        return 0

    def explain(self, state, x):
        return {"1.weights": torch.full((len(x), 2, state + 1), 1 / (state + 1)), "1.gates": torch.ones(len(x), 3)}

    def __call__(self, x, state=0):
        logits = torch.zeros(*x.shape, self.tokenizer.size)
        if x.shape[1] > 1:
            start = x.shape[1] - content.VERB - 1
            for row, noun in enumerate(x[:, start + self.place].tolist()):
                logits[row, -1, self.food[noun]] = 50
        return logits, state + x.shape[1]


def test_even_looks_are_one_everywhere_and_the_forecast_hangs_on_its_noun_alone():
    draw = random.Random(0)
    texts = [[content.sentence(draw) for _ in range(3)] for _ in range(20)]
    words = sorted({word for text in texts for line in text for word in line} | set(content.FOOD))
    tokenizer = Words(["<unk>", "<eos>", *words])
    found = content.look(Even(tokenizer, content.SUBJECT), texts, tokenizer, torch.device("cpu"))
    for kind in set(content.CLASSES):
        assert found[f"to {kind}"] == pytest.approx(1, rel=1e-5)
        assert found[f"entropy of {kind}"] == pytest.approx(1, rel=1e-5)
    assert found["verb to subject"] == pytest.approx(1, rel=1e-5)
    assert found["subject to other"] == pytest.approx(1)
    assert found["right"] == 1
    assert found["moved by subject"] == pytest.approx(1)
    assert found["moved by other"] == pytest.approx(0)
    other = content.look(Even(tokenizer, content.OTHER), texts, tokenizer, torch.device("cpu"))
    assert other["right"] == 0
    assert other["moved by subject"] == pytest.approx(0)


def test_a_sentence_names_the_food_of_its_first_noun():
    draw = random.Random(1)
    for _ in range(100):
        words = content.sentence(draw)
        assert len(words) == len(content.CLASSES) - 1
        assert words[-1] == content.FOOD[words[content.SUBJECT]]
        assert words[content.OTHER] != words[content.SUBJECT]
        assert words[content.VERB] in content.VERBS


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


# ------------------------------------------------------------------------------------------------ whole, but tiny

TINY = {
    "k-step": {"STEPS": 5},
    "stationary": {"STEPS": (3, 3)},
    "arrow": {"STEPS": (5, 5), "LENGTH": (3000, 3000), "TEST": 1000, "WORLDS": 50},
    "bottleneck": {
        "COPYING": {False: _copying.Copying(shortest=1, longest=4, train=200, test=10)},
        "STEPS": (4, 4),
        "WIDTH": (8, 8),
    },
    "recency": {
        "COPYING": {False: _copying.Copying(shortest=3, longest=3, both_ways=True, train=200, test=30)},
        "STEPS": (4, 4),
        "WIDTH": (8, 8),
    },
    "fading": {
        "COPYING": {False: _copying.Copying(shortest=4, longest=4, both_ways=True, train=200, test=30)},
        "STEPS": (4, 4),
        "WIDTH": (8, 8),
    },
    "reverse": {
        "COPYING": {False: _copying.Copying(shortest=3, longest=4, train=200, test=10)},
        "LONG": {False: 4},
        "STEPS": (4, 4),
        "WIDTH": (8, 8),
    },
    "content": {"STEPS": (4, 4), "SENTENCES": (200, 200), "ROWS": 20},
    "complement": {"BUDGETS": ((2, 4), (2, 4)), "MODULES": (16, 16), "TOKENS": (500, 500), "WIDTH": (8, 8)},
    "films": {"SIZES": ({"users": 40, "items": 30, "ratings": 600},) * 2, "STEPS": (5, 5), "TURNS": 10},
    "biases": {"SIZES": ({"users": 40, "items": 30, "ratings": 600},) * 2, "STEPS": (5, 5), "BIASES": (0.2, 0.8)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_a_tiny_experiment_runs_from_data_to_charts(name, monkeypatch, tmp_path):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path))
    module = globals()[name.replace("-", "_")]
    for constant, value in TINY[name].items():
        monkeypatch.setattr(module, constant, value)
    found = load(name).run(Effort(seeds=2))
    assert found.verdict in Verdict
    assert "nan" not in found.summary
    assert json.loads(json.dumps(found.figures))
    for chart in found.charts:
        json.dumps(chart.to_json(), allow_nan=False)
    assert not list(tmp_path.iterdir())  # what a claim makes for itself is gone afterwards
