"""Forecasts from every origin: each is what the table cut there gives."""

import numpy as np
import pytest

import recollect
from recollect.data.files import DataError
from recollect.tasks.series.backtest import spread


@pytest.fixture(scope="module")
def model():
    return recollect.load("demo-series", engine="torch")


def values_of(model):
    return model.open("sunspots").values[:, 0].tolist()


def test_each_forecast_is_that_of_the_table_cut_at_its_origin(model):
    values = values_of(model)[:120]
    found = model.backtest({"sunspots": values})
    assert found.origins == tuple(range(22, 121))
    for place in (0, 40, 98):
        alone = model.forecast({"sunspots": values[: found.origins[place]]})
        for name in ("mean", "lower", "upper"):
            np.testing.assert_allclose(getattr(found, name)[place], getattr(alone, name), rtol=1e-4, atol=1e-3)


def test_what_comes_later_changes_no_earlier_forecast(model):
    values = values_of(model)[:80]
    changed = [*values[:60], *(1_000.0 for _ in range(20))]
    one, other = (model.backtest({"sunspots": some}) for some in (values, changed))
    known = sum(origin <= 60 for origin in one.origins)
    np.testing.assert_array_equal(one.mean[:known], other.mean[:known])
    assert not np.allclose(one.mean[known:], other.mean[known:])


def test_a_gap_is_no_origin_and_its_closing_looks_at_nothing_after_the_origin(model):
    values = values_of(model)[:80]
    values[50:55] = [None] * 5
    found = model.backtest({"year": list(range(1900, 1980)), "sunspots": values})
    assert not {51, 52, 53, 54, 55} & set(found.origins)
    place = found.origins.index(60)
    alone = model.forecast({"year": list(range(1900, 1960)), "sunspots": values[:60]})
    np.testing.assert_allclose(found.mean[place], alone.mean, rtol=1e-4, atol=1e-3)
    assert np.isnan(found.came()[found.origins.index(50)]).sum() == 5
    assert any("missing" in note for note in found.notes)


def test_what_came_stands_beside_each_forecast(model):
    values = values_of(model)[:60]
    found = model.backtest({"sunspots": values}, 3)
    np.testing.assert_array_equal(found.came()[0, :, 0], values[22:25])
    assert np.isnan(found.came()[-1]).all()
    assert len(found.times) == 63


def test_origins_are_spread_and_the_last_is_among_them(model):
    found = model.backtest("sunspots", most=10)
    assert len(found.origins) == 10
    assert found.origins[-1] == 309
    assert spread(5, 9) == [0, 1, 2, 3, 4]
    assert spread(100, 1) == [99]


@pytest.mark.parametrize(("count", "horizon", "words"), [(10, None, "at least 22 rows"), (40, 0, "horizon")])
def test_what_is_too_short_is_one_line(model, count, horizon, words):
    with pytest.raises(DataError, match=words):
        model.backtest({"sunspots": [float(n) for n in range(count)]}, horizon)
