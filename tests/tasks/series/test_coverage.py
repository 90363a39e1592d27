"""Intervals hold their share of what a run never saw, ahead and in gaps, on data of several kinds."""

import numpy as np
import pytest

import recollect

ROWS, HORIZON, LEVEL = 3000, 8, 0.8
HELD = slice(int(0.8 * ROWS), ROWS)  # the test part


def season(count):
    return 3 * np.sin(2 * np.pi * np.arange(count) / 24)


def walk(noise):
    return noise.cumsum()


def slow(noise):
    """Errors that last: each is nine tenths of the one before, and noise."""
    found = noise.copy()
    for i in range(1, len(found)):
        found[i] += 0.9 * found[i - 1]
    return found + season(len(noise))


KINDS = {
    "season": lambda draw: season(ROWS) + draw.standard_normal(ROWS),
    "trend": lambda draw: 0.01 * np.arange(ROWS) + season(ROWS) + draw.standard_normal(ROWS),
    "walk": lambda draw: walk(draw.standard_normal(ROWS)),
    "slow": lambda draw: slow(draw.standard_normal(ROWS)),
    "heavy tails": lambda draw: season(ROWS) + draw.standard_t(2, ROWS),
    "loud days": lambda draw: season(ROWS) + draw.standard_normal(ROWS) * (0.3 + 2 * (season(ROWS) > 0)),
    "clusters": lambda draw: (
        season(ROWS) + draw.standard_normal(ROWS) * np.exp(0.5 * np.sin(2 * np.pi * np.arange(ROWS) / 200))
    ),
}


@pytest.fixture(scope="module", params=KINDS)
def trained(request, tmp_path_factory):
    """A linear run on data of a kind, and the data."""
    values = KINDS[request.param](np.random.default_rng(0))
    out = tmp_path_factory.mktemp("run") / "ar"
    model = recollect.train(
        "series", values, model="ar", lookback=24, horizon=HORIZON, out=str(out), progress=False, valid_share=0.2
    )
    return model, values


def test_intervals_hold_their_share_at_every_horizon(trained):
    model, _ = trained
    found = model.evaluate("test")["figures"]
    assert found["bounded"] == HORIZON
    assert found["coverage"] == pytest.approx(LEVEL, abs=0.07)
    shares = {ahead: own["coverage"] for ahead, own in found["by_horizon"].items()}
    assert all(share == pytest.approx(LEVEL, abs=0.08) for share in shares.values()), shares


@pytest.mark.parametrize("length", [1, 4])
def test_what_is_filled_holds_its_share_too(trained, length):
    model, values = trained
    gaps = np.zeros(ROWS, dtype=bool)
    for start in range(HELD.start, ROWS - length, 5 * length):
        gaps[start : start + length] = True
    rows = model.fill(np.where(gaps, np.nan, values))
    assert len(rows) == gaps.sum()
    ends = np.array([(row.lower, row.upper) for row in rows])
    held = (ends[:, 0] <= values[gaps]) & (values[gaps] <= ends[:, 1])
    assert held.mean() == pytest.approx(LEVEL, abs=0.1)
