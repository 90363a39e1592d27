"""The scale and the season of a series."""

import json

import numpy as np
import pytest

from recollect.data.files import DataError
from recollect.tasks.series import data
from recollect.tasks.series.scaler import Scaler, season


@pytest.mark.parametrize("period", [2, 7, 24])
def test_a_season_is_found_in_noise_with_a_trend(period):
    t = np.arange(max(200, period * 20))
    wave = np.random.default_rng(0).normal(size=period)
    wave = ((wave - wave.mean()) / wave.std())[t % period]
    noise = np.random.default_rng(1).normal(0, 0.3, size=len(t))
    assert season((wave + noise + 0.01 * t)[:, None]) == period


def test_where_there_is_no_season_none_is_found():
    assert season(np.random.default_rng(0).normal(size=(500, 1))) == 1
    assert season(np.zeros((100, 1))) == 1
    assert season(np.arange(5.0)[:, None]) == 1
    assert data.load("sine").scaler.period == 1


def test_a_scaler_is_kept_and_read_strictly(tmp_path):
    found = data.load("sine").scaler
    path = tmp_path / "scaler.json"
    found.save(path)
    assert Scaler.load(path) == found
    good = json.loads(path.read_text())
    for change, message in [
        ({"mean": [1.0, 2.0]}, "one entry for each column"),
        ({"mean": [float("nan")]}, "expected a number, found NaN"),
        ({"mean": ["1"]}, 'expected a number, found "1"'),
        ({"deviation": [0.0]}, "deviations above 0"),
        ({"columns": [3]}, "expected a string, found 3"),
        ({"period": 0}, "period: expected a whole number of at least 1"),
        ({"period": True}, "period: expected"),
        ({"more": 1}, "more"),
        ({"columns": [], "mean": [], "deviation": [], "naive": []}, "one entry for each column"),
    ]:
        path.write_text(json.dumps(good | change))
        with pytest.raises(DataError, match=message) as caught:
            Scaler.load(path)
        assert "\n" not in str(caught.value)
    path.write_text("{")
    with pytest.raises(DataError, match="expected a scaler in JSON"):
        Scaler.load(path)
