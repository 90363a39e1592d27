"""Claims about what is learnt: each verdict from constructed numbers, the parts they are built of, and small runs."""

from math import log
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from recollect import tasks
from recollect.claims import (
    bptt,
    capacity,
    clip,
    depth,
    gates,
    heads,
    long_gap,
    long_rnn,
    parity,
    recall,
    sharing,
    stores,
    ttt_batch,
    warm_up,
)
from recollect.claims.claim import Verdict
from recollect.claims.laboratory import training
from recollect.core import laws
from recollect.training import run as runs

HOLDS, LIMITS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.LIMITS, Verdict.FAILS, Verdict.UNDECIDED


# ------------------------------------------------------------------------------------------------ verdicts

BAD = 1 / 6


def lags(rnn, lstm, gru):
    return {100: {"rnn": rnn, "lstm": lstm, "gru": gru}}


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (lags([BAD, BAD], [0.001, 0.01], [0.001, 0.001]), HOLDS),
        (lags([BAD, BAD], [0.001, BAD], [0.001, 0.001]), LIMITS),
        (lags([0.001, 0.001], [BAD, BAD], [BAD, BAD]), FAILS),
        (lags([BAD, BAD], [BAD, BAD], [BAD, BAD]), UNDECIDED),
        (lags([0.001, 0.001], [0.001, 0.001], [0.001, 0.001]), UNDECIDED),
        (lags([0.001, BAD], [0.001, 0.001], [0.001, 0.001]), UNDECIDED),
        (lags([0.001, 0.001], [0.001, 0.001], [0.001, 0.001]) | {200: lags([BAD], [0.01], [0.01])[100]}, HOLDS),
    ],
)
def test_gates(found, verdict):
    assert gates.judge(found)[0] is verdict


def asked(light, heavy, wide=(0.9, 0.9), gained=(0.02, 0.1), attention=(1.0, 0.99)):
    right = {capacity.NARROW: {1: light, 4: heavy}, capacity.WIDE: {1: light, 4: wide}}
    return capacity.Asked(right=right, gained=gained, attention=attention)


BOUND = asked([1.0, 0.9], [0.4, 0.5])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (BOUND, True),
        (asked([1.0, 0.8], [0.4, 0.5]), None),
        (asked([1.0, 1.0], [0.96, 0.99]), False),
        (asked([1.0, 1.0], [0.4, 0.92]), None),
        (asked([1.0, 1.0], [0.4, 0.5], gained=[0.0, 0.2]), None),
        (asked([1.0, 1.0], [0.4, 0.5], attention=[1.0, 0.8]), None),
        (asked([1.0, 1.0], [0.4, 0.5], wide=[0.54, 0.9]), None),
        (asked([0.5, 0.5], [0.4, 0.5]), None),
    ],
)
def test_a_bound_needs_a_state_that_learnt_and_others_that_hold_more(found, expected):
    assert capacity.bounded(found)[0] is expected


@pytest.mark.parametrize(
    ("copying", "recall", "verdict"),
    [
        (BOUND, BOUND, HOLDS),
        (BOUND, asked([0.5, 0.5], [0.3, 0.3]), LIMITS),
        (asked([1.0, 1.0], [0.96, 0.99]), BOUND, LIMITS),
        (asked([1.0, 1.0], [0.96, 0.99]), asked([0.5, 0.5], [0.3, 0.3]), FAILS),
        (asked([0.5, 0.5], [0.3, 0.3]), asked([0.5, 0.5], [0.3, 0.3]), UNDECIDED),
    ],
)
def test_capacity(copying, recall, verdict):
    assert capacity.judge({"copying": copying, "recall": recall})[0] is verdict


def test_one_pair_takes_no_pairing_and_is_not_counted():
    assert capacity.from_two({1: 1.0, 2: 0.5, 3: 0.3}) == {2: 0.5, 3: 0.3}


def test_what_is_learnt_late_is_the_last_half_of_training():
    run: Any = SimpleNamespace(curve=[{"loss": 3.0}, {"valid": 0.8}, {"loss": 1.0}, {"valid": 0.5}])
    assert capacity.late(run, 2.0) == pytest.approx(0.15)


def test_bits_held_run_from_none_to_all():
    assert capacity.held(4, 0.0) == pytest.approx(12)
    assert capacity.held(4, log(8)) == pytest.approx(0)
    assert capacity.held(4, 9.0) == 0
    assert capacity.held(4, log(2)) == pytest.approx(8)  # one bit of each symbol is lost


def blown(without, clipped):
    return {"not clipped": {0.1: without}, "clipped": {0.1: clipped}}


def remembered(far, far_clipped, near=(1.0, 1.0)):
    return {"not clipped": {4: near, 60: far}, "clipped": {4: near, 60: far_clipped}}


@pytest.mark.parametrize(
    ("diverged", "recalled", "verdict"),
    [
        (blown([1, 1], [0, 0]), remembered([0.1, 0.1], [0.12, 0.09]), HOLDS),
        (blown([1, 1], [1, 0]), remembered([0.1, 0.1], [0.12, 0.09]), LIMITS),
        (blown([1, 1], [1, 1]), remembered([0.1, 0.1], [0.12, 0.09]), FAILS),
        (blown([1, 1], [0, 0]), remembered([0.1, 0.1], [0.9, 0.8]), FAILS),
        (blown([0, 0], [0, 0]), remembered([0.1, 0.1], [0.1, 0.1]), UNDECIDED),
        (blown([1, 1], [0, 0]), remembered([0.1, 0.1], [0.1, 0.1], near=(1.0, 0.5)), UNDECIDED),
        (blown([1, 1], [0, 0]), remembered([0.9, 0.9], [0.9, 0.9]), UNDECIDED),
        (blown([1, 1], [0, 0]), remembered([0.1, 0.2], [0.1, 0.1]), UNDECIDED),
    ],
)
def test_clip(diverged, recalled, verdict):
    assert clip.judge(diverged, recalled)[0] is verdict


BYTES = {"full": 64, "truncated": 16, "random": 16, "unbiased": 16}


@pytest.mark.parametrize(
    ("truncated", "random", "full", "kept", "verdict"),
    [
        ([2.0, 2.1], [2.01, 2.08], [1.98, 2.1], BYTES, HOLDS),
        ([2.0, 2.1], [2.01, 2.08], [1.8, 2.1], BYTES, LIMITS),
        ([2.0, 2.1], [2.01, 2.08], [1.98, 2.1], BYTES | {"full": 16}, LIMITS),
        ([2.0, 2.1], [1.9, 2.0], [2.0, 2.1], BYTES, FAILS),
        ([2.0, 2.1], [1.9, 2.1], [2.0, 2.1], BYTES, UNDECIDED),
        ([2.0], [2.0, 2.1], [2.0, 2.1], BYTES, UNDECIDED),
    ],
)
def test_bptt(truncated, random, full, kept, verdict):
    assert bptt.judge({"truncated": truncated, "random": random, "full": full}, kept, 0.05)[0] is verdict


@pytest.mark.parametrize(
    ("alone", "fed", "verdict"),
    [
        (([0.5, 0.6], [1.0, 0.97]), ([0.7, 0.7], [1.0, 1.0]), HOLDS),
        (([0.5, 0.6], [1.0, 0.97]), ([1.0, 1.0], [1.0, 1.0]), LIMITS),
        (([0.5, 0.6], [0.7, 0.8]), ([1.0, 1.0], [1.0, 1.0]), LIMITS),
        (([1.0, 1.0], [1.0, 1.0]), ([1.0, 0.99], [1.0, 1.0]), FAILS),
        (([0.5, 0.9], [0.6, 0.8]), ([0.9, 0.9], [0.8, 0.9]), UNDECIDED),
    ],
)
def test_heads(alone, fed, verdict):
    found = {"alone": dict(zip((1, 2), alone, strict=True)), "fed": dict(zip((1, 2), fed, strict=True))}
    assert heads.judge(found)[0] is verdict


@pytest.mark.parametrize(
    ("cold", "warm", "pre", "verdict"),
    [
        ([True, True, False, True], [False] * 4, [False] * 4, HOLDS),
        ([True, False, False, False], [False] * 4, [False] * 4, LIMITS),
        ([True] * 4, [True, False, False, False], [False] * 4, LIMITS),
        ([False] * 4, [False] * 4, [False] * 4, FAILS),
        ([True, False, False, False], [False] * 4, [True] * 4, UNDECIDED),
    ],
)
def test_warm_up(cold, warm, pre, verdict):
    failed = {"post-norm": {0.1: cold}, "post-norm, warm-up": {0.1: warm}, "pre-norm": {0.1: pre}}
    assert warm_up.judge(failed)[0] is verdict


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({1: [2.5, 2.6], 2: [2.3, 2.4], 4: [2.1, 2.2]}, HOLDS),
        ({1: [2.5, 2.6], 2: [2.3, 2.4], 4: [2.4, 2.5]}, LIMITS),
        ({1: [2.0, 2.1], 2: [2.3, 2.4], 4: [2.1, 2.2]}, FAILS),
        ({1: [2.5, 2.6], 2: [2.5, 2.6], 4: [2.5, 2.6]}, UNDECIDED),
    ],
)
def test_depth(found, verdict):
    assert depth.judge(found)[0] is verdict


@pytest.mark.parametrize(
    ("params", "gaps", "errors", "verdict"),
    [
        ((10, 100), ([0.01, 0.02], [0.1, 0.2]), ([0.02, 0.03], [0.1, 0.2]), HOLDS),
        ((10, 100), ([0.01, 0.02], [0.1, 0.2]), ([0.02, 0.15], [0.1, 0.2]), LIMITS),
        ((10, 100), ([0.01, 0.15], [0.1, 0.2]), ([0.02, 0.03], [0.1, 0.2]), LIMITS),
        ((10, 100), ([0.1, 0.2], [0.01, 0.02]), ([0.02, 0.03], [0.1, 0.2]), FAILS),
        ((100, 100), ([0.01, 0.02], [0.1, 0.2]), ([0.02, 0.03], [0.1, 0.2]), FAILS),
        ((10, 100), ([0.01, 0.15], [0.1, 0.2]), ([0.02, 0.15], [0.1, 0.2]), UNDECIDED),
    ],
)
def test_sharing(params, gaps, errors, verdict):
    ways = sharing.SHARED, sharing.OWN
    errors = dict(zip(ways, errors, strict=True)) | {sharing.NARROW: [0.1, 0.2]}
    found = sharing.judge(dict(zip(ways, params, strict=True)), dict(zip(ways, gaps, strict=True)), errors)
    assert found[0] is verdict


@pytest.mark.parametrize(
    ("rnn", "ttt", "attention", "verdict"),
    [
        ([0.2, 0.3], [0.9, 0.8], [1.0, 1.0], HOLDS),
        ([0.2, 0.3], [0.2, 0.9], [1.0, 1.0], LIMITS),
        ([1.0, 1.0], [1.0, 1.0], [1.0, 1.0], FAILS),
        ([0.2, 0.3], [0.9, 0.8], [1.0, 0.5], UNDECIDED),
        ([0.2, 0.95], [0.9, 0.8], [1.0, 1.0], UNDECIDED),
    ],
)
def test_stores(rnn, ttt, attention, verdict):
    found = {stores.RNN: {4: rnn}, stores.TTT: {4: ttt}, stores.LIST: {4: attention}}
    assert stores.judge(found)[0] is verdict


def test_the_threshold_of_a_store_is_its_largest_load_without_a_gap_below():
    assert stores.pairs({1: [1.0, 0.9], 2: [0.95], 3: [0.5], 4: [0.95]}) == 2
    assert stores.pairs({1: [0.5], 2: [1.0]}) == 0


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({1: [2.0, 2.1], 4: [2.1, 2.2], 16: [2.2, 2.3], 64: [2.4, 2.5]}, HOLDS),
        ({1: [2.3, 2.4], 4: [2.1, 2.2], 16: [2.2, 2.3], 64: [2.4, 2.5]}, LIMITS),
        ({1: [2.5, 2.6], 4: [2.6, 2.7], 16: [2.5, 2.6], 64: [2.4, 2.5]}, FAILS),
        ({1: [2.4, 2.5], 4: [2.4, 2.5], 16: [2.4, 2.5], 64: [2.4, 2.5]}, UNDECIDED),
    ],
)
def test_ttt_batch(found, verdict):
    assert ttt_batch.judge(found)[0] is verdict


@pytest.mark.parametrize(
    ("attention", "linear", "ttt", "verdict"),
    [
        ([1.0, 1.0], [0.4, 0.5], [0.8, 0.7], HOLDS),
        ([1.0, 1.0], [0.4, 0.5], [1.0, 1.0], LIMITS),
        ([1.0, 1.0], [0.99, 1.0], [1.0, 1.0], FAILS),
        ([1.0, 0.5], [0.1, 0.1], [0.1, 0.1], UNDECIDED),
        ([1.0, 1.0], [0.5, 1.0], [1.0, 1.0], UNDECIDED),
    ],
)
def test_recall(attention, linear, ttt, verdict):
    found = {"transformer": attention, "linear-transformer": linear, "ttt-linear": ttt}
    assert recall.judge(found)[0] is verdict


@pytest.mark.parametrize(
    ("rnn", "gru", "attention", "verdict"),
    [
        ([1.0, 1.0], [0.5, 0.5], [0.5, 0.52], HOLDS),
        ([1.0, 0.5], [0.5, 0.5], [0.5, 0.52], LIMITS),
        ([1.0, 1.0], [1.0, 1.0], [1.0, 0.99], FAILS),
        ([0.5, 0.5], [0.5, 0.5], [0.5, 0.5], UNDECIDED),
        ([1.0, 1.0], [1.0, 1.0], [0.5, 0.8], UNDECIDED),
    ],
)
def test_parity(rnn, gru, attention, verdict):
    assert parity.judge({"rnn": rnn, "gru": gru, "transformer": attention})[0] is verdict


@pytest.mark.parametrize(
    ("rnn", "gru", "verdict"),
    [
        (([0.9, 0.8], [0.2, 0.3]), ([1.0, 1.0], [1.0, 0.9]), HOLDS),
        (([0.9, 0.8], [0.2, 0.3]), ([1.0, 1.0], [0.5, 0.5]), LIMITS),
        (([0.9, 0.8], [0.6, 0.5]), ([1.0, 1.0], [1.0, 0.9]), LIMITS),
        (([1.0, 1.0], [1.0, 0.9]), ([1.0, 1.0], [1.0, 0.9]), FAILS),
        (([0.2, 0.1], [0.1, 0.1]), ([1.0, 1.0], [1.0, 0.9]), UNDECIDED),
        (([0.7, 0.7], [0.6, 0.7]), ([1.0, 1.0], [1.0, 0.9]), UNDECIDED),
    ],
)
def test_long_gap(rnn, gru, verdict):
    found = {"rnn": dict(zip((12, 48), rnn, strict=True)), "gru": dict(zip((12, 48), gru, strict=True))}
    assert long_gap.judge(found)[0] is verdict


@pytest.mark.parametrize(
    ("rnn", "lstm", "gru", "verdict"),
    [
        ([1.0, 0.9], [1.0, 1.0], [0.95, 1.0], HOLDS),
        ([0.1, 0.1], [0.6, 1.0], [0.95, 1.0], LIMITS),
        ([0.1, 0.1], [0.2, 0.3], [0.1, 0.5], FAILS),
        ([0.1, 0.1], [0.2, 0.8], [0.1, 0.5], UNDECIDED),
        ([0.7, 0.7], [0.7, 0.8], [0.6, 0.7], UNDECIDED),
    ],
)
def test_long_rnn(rnn, lstm, gru, verdict):
    assert long_rnn.judge({"rnn": rnn, "lstm": lstm, "gru": gru})[0] is verdict


# ------------------------------------------------------------------------------------------------ their parts


def test_two_places_asks_for_the_pair_of_symbols_before():
    test = heads.TwoPlaces(length=10, symbols=3, near=2, far=5)
    rows = test.draw(np.random.default_rng(0), 4)
    for x, at, y in zip(*rows, strict=True):
        assert at.tolist() == list(range(5, 10))
        assert [int(x[t - 2]) * 3 + int(x[t - 5]) for t in at] == y.tolist()
    assert rows.y.max() < test.outputs == 9
    assert test.judged == rows.y.shape[1]
    with pytest.raises(ValueError, match="expected near < far < length, found 3, 7 and 7"):
        heads.TwoPlaces(length=7)


def test_one_head_and_two_have_equally_many_parameters():
    found = {
        count: training.train(
            heads.TwoPlacesTask, "transformer", steps=1, seed=0, layers=1, width=8, batch=2, eval_rows=4, heads=count
        ).figures["params"]
        for count in heads.HEADS
    }
    assert len(set(found.values())) == 1


def bytes_of(model, terms, **settings):
    """The state that a store declares at the length of its test."""
    texts = {name: str(value) for name, value in (terms["run"] | settings | {"layers": 2}).items()}
    task = tasks.find("recall")
    run = runs.configure(task, texts, model=model)
    run = task.resolve(run, run.data, None)
    return task.state_bytes(task.build_model(run.model, run.data, runs.load), run)


@pytest.mark.parametrize("terms", [stores.QUICK, stores.FULL], ids=["quick", "full"])
def test_the_stores_that_are_compared_have_equally_many_bytes(terms):
    found = {name: bytes_of(terms=terms, **settings) for name, settings in stores.stores(terms).items()}
    clocks = 32  # bytes, at most
    assert found[stores.RNN] <= found[stores.TTT] <= found[stores.RNN] + clocks
    assert found[stores.RNN] <= found[stores.SHORT] <= found[stores.RNN] + clocks
    assert found[stores.LIST] > 1.5 * found[stores.SHORT]


@pytest.mark.parametrize("terms", [recall.QUICK, recall.FULL], ids=["quick", "full"])
def test_no_fixed_state_has_fewer_bytes_than_attention(terms):
    found = {model: bytes_of(model, terms, **settings) for model, settings in terms["models"].items()}
    own = found.pop(recall.ATTENTION)
    assert all(0.999 * own <= size < 1.1 * own for size in found.values())


def test_a_cell_with_weights_for_each_step_obeys_the_laws_and_is_its_formula():
    torch.manual_seed(0)
    cell = sharing.Untied(3, 4, 24).double()
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    assert max(laws.check(cell, x).values()) < 1e-10
    y, _ = cell(x, cell.initial_state(2))
    h = np.zeros((2, 4))
    weight, bias = cell.weight.detach().numpy(), cell.bias.detach().numpy()
    for t in range(6):
        h = np.tanh(np.concatenate([x[:, t].numpy(), h], axis=1) @ weight[t].T + bias[t])
        np.testing.assert_allclose(y[:, t].detach().numpy(), h, atol=1e-12)


def test_few_rows_are_the_same_few_rows():
    test = sharing.FewRows(length=5, rows=6, pool=3)
    pool = {tuple(row.ravel()) for row in test.batch("train", 0, 0, 6).x}
    assert len(pool) == 6
    for number in range(5):
        assert {tuple(row.ravel()) for row in test.batch("train", 7, number, 4).x} < pool
    fresh = test.batch("valid", 0, 0, 6)
    assert not {tuple(row.ravel()) for row in fresh.x} & pool
    other = sharing.FewRows(length=5, rows=6, pool=4).batch("train", 0, 0, 6)
    assert not {tuple(row.ravel()) for row in other.x} & pool


def test_what_autograd_keeps_grows_with_the_steps():
    found = training.train("text", "rnn", steps=1, seed=0, width=8, layers=1, context=32, batch=2, eval_tokens=100)
    few, many = bptt.saved_bytes(found, 8), bptt.saved_bytes(found, 32)
    assert 3.5 < many / few < 4.5
