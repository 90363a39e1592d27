"""Forecasters of statsmodels and darts for `benchmarks.forecasting`; neither is a dependency of the package.

A way takes the number of a row and gives the points that follow it, with the ends of an interval where it has them.
What is local is fitted anew to the look-back of each window; what is global (autoregressions) to the training part.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np


class Forecast(NamedTuple):
    """The points of a horizon, H each; no ends where there is no interval."""

    mean: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None


class Split(NamedTuple):
    """A series in scaled units, with the rows of its training part and the sizes of its windows."""

    values: np.ndarray  # N
    train: int  # rows of the training part, which is first
    valid: int  # rows after them on which intervals may be calibrated
    lookback: int
    horizon: int
    period: int
    level: float

    @property
    def quantiles(self) -> tuple[float, float]:
        return (1 - self.level) / 2, (1 + self.level) / 2


Way = Callable[[int], Forecast]


def statsmodels_ways(split: Split) -> Iterator[tuple[str, Way]]:
    """Holt-Winters and Theta on each window, an autoregression on the training part; none without statsmodels."""
    try:
        from statsmodels.tsa.ar_model import AutoReg  # pyright: ignore[reportMissingImports]
        from statsmodels.tsa.forecasting.theta import ThetaModel  # pyright: ignore[reportMissingImports]
        from statsmodels.tsa.holtwinters import ExponentialSmoothing  # pyright: ignore[reportMissingImports]
    except ImportError:
        print("statsmodels is not installed: its rows are left out")
        return
    values, lookback, horizon, level = split.values, split.lookback, split.horizon, split.level

    def smooth(origin: int) -> Forecast:
        past = values[origin - lookback : origin]
        model = ExponentialSmoothing(
            past, trend="add", damped_trend=True, seasonal="add", seasonal_periods=split.period, use_boxcox=False
        ).fit()
        paths = np.asarray(model.simulate(horizon, repetitions=500, random_state=0))
        return Forecast(np.asarray(model.forecast(horizon)), *np.quantile(paths, split.quantiles, axis=1))

    def theta(origin: int) -> Forecast:
        model = ThetaModel(values[origin - lookback : origin], period=split.period, method="additive").fit()
        ends = np.asarray(model.prediction_intervals(horizon, alpha=1 - level))
        return Forecast(np.asarray(model.forecast(horizon)), *ends.T)

    fitted = AutoReg(values[: split.train], lags=lookback).fit()

    def regress(origin: int) -> Forecast:
        moved = fitted.append(values[split.train : origin]) if origin > split.train else fitted
        found = moved.get_prediction(start=origin, end=origin + horizon - 1)
        return Forecast(np.asarray(found.predicted_mean), *np.asarray(found.conf_int(alpha=1 - level)).T)

    yield from {"Holt-Winters": smooth, "Theta": theta, "AutoReg": regress}.items()


def darts_ways(split: Split) -> Iterator[tuple[str, Way]]:
    """Baselines on each window, a regression on the training part; none without darts.

    The regression's conformal intervals are calibrated on a window of each day before the origin, as many as validation
    has. Its exponential smoothing is that of statsmodels, whose row is here already.
    """
    try:
        from darts import TimeSeries  # pyright: ignore[reportMissingImports]
        from darts import models as peers  # pyright: ignore[reportMissingImports]
        from darts.utils.utils import SeasonalityMode  # pyright: ignore[reportMissingImports]
    except ImportError:
        print("darts is not installed: its rows are left out")
        return
    lookback, horizon, period = split.lookback, split.horizon, split.period
    low, high = split.quantiles
    series = TimeSeries.from_values(split.values)

    def local(make: Callable[[], Any]) -> Way:
        def forecast(origin: int) -> Forecast:
            model = make()
            model.fit(series[origin - lookback : origin])
            return Forecast(model.predict(horizon).values()[:, 0])

        return forecast

    additive = SeasonalityMode.ADDITIVE
    yield "NaiveSeasonal", local(lambda: peers.NaiveSeasonal(K=period))
    yield "NaiveDrift", local(lambda: peers.NaiveDrift())
    yield "Theta", local(lambda: peers.Theta(seasonality_period=period, season_mode=additive))
    yield "FourTheta", local(lambda: peers.FourTheta(seasonality_period=period, season_mode=additive))

    linear = peers.LinearRegressionModel(lags=lookback, output_chunk_length=horizon)
    linear.fit(series[: split.train])
    days = split.valid // horizon - 1
    conformal = peers.ConformalNaiveModel(linear, quantiles=[low, 0.5, high], cal_length=days, cal_stride=horizon)

    def regress(origin: int) -> Forecast:
        mean = linear.predict(horizon, series=series[:origin]).values()[:, 0]
        asked = {"num_samples": 1, "predict_likelihood_parameters": True}
        ends = conformal.predict(horizon, series=series[:origin], **asked).values()  # H 3
        return Forecast(mean, ends[:, 0], ends[:, 2])

    yield "LinearRegressionModel", regress


WAYS: dict[str, Callable[[Split], Iterator[tuple[str, Way]]]] = {"statsmodels": statsmodels_ways, "darts": darts_ways}


def quietly(way: Way, origin: int) -> Forecast:
    """A forecast without the warnings of the library that makes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return way(origin)
