"""Markov chains against counted transitions."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from recollect.core.contract import ContractError
from recollect.tasks.series import markov


def past(batch=3, lookback=12, series=2):
    return torch.randn(batch, lookback, series, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def chain(values, **settings):
    return markov.Config(**{"bins": 4, "lean": 0.0} | settings).build().fit(np.asarray(values, dtype=float))


def test_chances_are_counted_transitions():
    values = [0, 1, 0, 1, 1, 2, 3, 0, 0, 1] * 3
    found = chain(values)
    bins = found.bin(np.array(values, dtype=float))
    for before in range(4):
        following = [int(b) for a, b in pairwise(bins) if a == before]
        expected = [following.count(after) / len(following) for after in range(len(found.centres))]
        assert found.next_probabilities((before,)).tolist() == pytest.approx(expected)


def test_a_chain_of_order_two_knows_what_one_of_order_one_cannot():
    """Up, up, down, down: after one up nobody can tell."""
    values = [0.0, 0.0, 1.0, 1.0] * 20
    first, second = chain(values, bins=2, order=1), chain(values, bins=2, order=2)
    past = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    assert second.forecast(past, 1)[:, 0].tolist() == pytest.approx([1, 1, 0, 0])
    assert first.forecast(past, 1)[:, 0].tolist() == pytest.approx([0.5] * 4, abs=0.02)


def test_a_forecast_is_a_power_of_the_matrix_of_transitions():
    values = np.random.default_rng(0).normal(size=300).cumsum()
    found = chain(values)
    matrix = np.stack([found.next_probabilities((b,)) for b in range(4)])
    for h in (1, 2, 7):
        expected = np.linalg.matrix_power(matrix, h) @ found.centres
        assert found.table(7)[h - 1] == pytest.approx(expected)


def test_far_ahead_a_chain_knows_only_how_often_each_bin_comes():
    values = np.random.default_rng(0).normal(size=500)
    found = chain(values, lean=1.0)
    far = found.table(200)[-1]
    assert far == pytest.approx(np.full(4, far[0]), abs=1e-6)
    assert far[0] == pytest.approx(values.mean(), abs=0.05)


def test_a_context_never_seen_stands_on_the_shorter_one():
    values = [0, 1, 2, 3] * 10
    found = chain(values, order=2)
    assert found.next_probabilities((3, 1)).tolist() == found.next_probabilities((1,)).tolist() == [0, 0, 1, 0]


def test_a_context_seldom_seen_leans_on_the_shorter_one():
    found = chain([0, 1, 0, 1, 0, 2, 0, 1], bins=3, lean=2.0)
    counts, plain = found.counts[1][(0,)], found.next_probabilities(())
    expected = [(counts[b] + 2.0 * plain[b]) / (sum(counts.values()) + 2.0) for b in range(len(found.centres))]
    assert found.next_probabilities((0,)).tolist() == pytest.approx(expected)
    assert found.next_probabilities((0,)).sum() == pytest.approx(1)


def test_bins_hold_about_as_many_values_each_and_none_is_empty():
    draw = np.random.default_rng(0)
    for values in (draw.normal(size=1000), np.maximum(draw.normal(size=1000), 0), draw.integers(0, 3, size=100)):
        found = chain(values, bins=8)
        counts = np.bincount(found.bin(values.astype(float)), minlength=len(found.centres))
        assert counts.min() > 0
    assert np.bincount(chain(draw.normal(size=1000), bins=8).bin(draw.normal(size=1000))).max() < 250


def test_a_constant_series_stays():
    found = chain([5.0] * 20)
    assert found.forecast(np.full((2, 3), 5.0), 4).tolist() == [[5.0] * 4] * 2


@pytest.mark.parametrize(
    ("settings", "message"), [({"bins": 1}, "bins"), ({"order": 0}, "order"), ({"bins": 100, "order": 4}, "contexts")]
)
def test_chains_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ContractError, match=message):
        markov.Config(**settings)


def test_a_chain_needs_more_than_its_order():
    with pytest.raises(ContractError, match="more than 2 values, found 2"):
        chain([1, 2], order=2)
    with pytest.raises(ContractError, match="a past of at least 2 values, found 1"):
        chain([0, 1, 2, 3] * 3, order=2).forecast(np.zeros((1, 1)), 1)
