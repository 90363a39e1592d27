"""A sine whose frequency changes half-way through the test, for models that learnt the frequency before.

That the new stretch is not harder in itself is seen from the same models trained on the new frequency. A third line is
a GRU that met many frequencies: what stays there is the law, not the frequency.
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from ..core.chart import Chart
from ..tasks.series.sources import noisy_sine
from ._limits import limits
from ._shown import curve, said
from ._trained import Trained, seeds, train
from .claim import Claim, Effort, Found, Verdict

POINTS = 1200  # 480 to learn from, 240 to choose by, 480 to test
CHANGE = 960
SHARES = {"valid_share": 0.2, "test_share": 0.4}
NOISE, RATE, NEW_RATE = 0.05, 0.2, 0.5
LOOKBACK, HORIZON = 16, 8
MODELS: dict[str, dict[str, Any]] = {"ar": {}, "gru": {"width": 16, "lr": 0.01}}
STEPS = (200, 1000)
SEEDS = (5, 10)
TIMES = 3.0  # the error after the change, in errors before it
EXTENT, SPELL = (0.1, 0.6), 40  # of the many frequencies, and how long each lasts


def run(effort: Effort) -> Found:
    before: dict[str, list[float]] = {}
    after: dict[str, list[float]] = {}
    anew: dict[str, list[float]] = {}
    for seed in seeds(effort, *SEEDS):
        changed = noisy_sine(POINTS, seed, noise=NOISE, rate=RATE, change=CHANGE, new_rate=NEW_RATE)
        other = noisy_sine(POINTS, seed, noise=NOISE, rate=NEW_RATE)
        for name, own in MODELS.items():
            made = learn(name, own, changed, seed, effort)
            before.setdefault(name, []).append(error(made, range(CHANGE - 240, CHANGE - HORIZON + 1)))
            after.setdefault(name, []).append(error(made, range(CHANGE + LOOKBACK, POINTS - HORIZON + 1)))
            fresh = learn(name, own, other, seed, effort)
            anew.setdefault(name, []).append(error(fresh, range(CHANGE + LOOKBACK, POINTS - HORIZON + 1)))
        many = np.concatenate([wandering(CHANGE - 240, seed), changed[CHANGE - 240 :]])
        made = learn("gru", MODELS["gru"], many, seed, effort)
        before.setdefault("gru, many rates", []).append(error(made, range(CHANGE - 240, CHANGE - HORIZON + 1)))
        after.setdefault("gru, many rates", []).append(error(made, range(CHANGE + LOOKBACK, POINTS - HORIZON + 1)))
    ratios = {name: [b / a for a, b in zip(before[name], after[name], strict=True)] for name in before}
    fresh = {name: [b / a for a, b in zip(anew[name], after[name], strict=True)] for name in MODELS}
    verdict = decide({name: ratios[name] for name in MODELS}, fresh)
    return Found(
        verdict=verdict,
        summary=(
            "error after the change over that before: "
            + ", ".join(f"{name} {said(values, 1)}" for name, values in ratios.items())
            + "; over that of the same model trained on the new frequency: "
            + ", ".join(f"{name} {said(values, 1)}" for name, values in fresh.items())
            + limits(verdict, f"only of {', '.join(name for name in MODELS if min(ratios[name]) >= TIMES)}")
        ),
        figures={"before": before, "after": after, "trained on the new frequency": anew},
        charts=[
            Chart(
                title="Squared error before and after the frequency changes",
                x="model",
                y="squared error, scaled",
                kind="bars",
                log_y=True,
                lines=[
                    curve("before", before),
                    curve("after", after),
                    curve("trained on the new frequency", anew),
                ],
            )
        ],
    )


def wandering(points: int, seed: int) -> np.ndarray:
    """A noisy sine whose frequency is drawn anew every so often."""
    draw = random.Random(seed)
    rates = np.repeat([draw.uniform(*EXTENT) for _ in range(-(-points // SPELL))], SPELL)[:points]
    return np.sin(np.cumsum(rates)) + np.random.default_rng([seed, 12]).normal(0, NOISE, points)


def learn(name: str, own: dict[str, Any], values: np.ndarray, seed: int, effort: Effort) -> Trained:
    """A forecaster of these values, from a file as any other's."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sine.csv"
        path.write_text("x\n" + "".join(f"{value:.6f}\n" for value in values), encoding="utf-8")
        return train(
            "series",
            name,
            steps=effort.pick(*STEPS),
            seed=seed,
            device=effort.device,
            data=[str(path)],
            lookback=LOOKBACK,
            horizon=HORIZON,
            **SHARES,
            **own,
        )


@torch.no_grad()
def error(made: Trained, origins: range) -> float:
    """Mean squared error of the forecasts that begin at these rows."""
    batch = made.task.window(origins)
    return float((made.model.forecast(batch.x).mean - batch.y).square().mean())


def decide(ratios: Mapping[str, Sequence[float]], fresh: Mapping[str, Sequence[float]]) -> Verdict:
    """From the error after the change, over that before and over that of a model trained on the new frequency."""
    if min(float(np.median(values)) for values in fresh.values()) < TIMES:
        return Verdict.UNDECIDED  # the new frequency is hard in itself
    fallen = [min(values) >= TIMES for values in ratios.values()]
    if any(fallen):
        return Verdict.HOLDS if all(fallen) else Verdict.LIMITS
    stood = all(max(values) < TIMES for values in ratios.values())
    return Verdict.FAILS if stood else Verdict.UNDECIDED


CLAIM = Claim(
    id="stationary",
    statement="What was learnt of a series serves only while its dynamics stay as they were.",
    sources=("Zhang et al., Dive into Deep Learning, Sequence models", "003_c6efc9a4698e0e4d.txt"),
    experiment=(
        "A linear autoregression and a GRU learn sin(.2t) with a little noise, 16 points in and 8 out; in the test the "
        "rate becomes .5. The same models trained on .5 show what the new stretch costs in itself."
    ),
    decided=(
        "1,200 points, noise .05, change at 960, 5 seeds (10 in full), 200 steps of the GRU (1,000 in full). Holds if "
        "in every seed of both models the error after the change is at least 3 times that before; within limits if of "
        "one model only; does not hold if no seed of either has 3 times; otherwise undecided, as where the error after "
        "the change is not 3 times (in the median) that of the same model trained on the new frequency. The GRU that "
        "learnt from many frequencies is shown and does not decide."
    ),
    run=run,
    note=(
        "The note says that new dynamics cannot be foretold from the data at hand. That is so of a frequency that was "
        "never met; what must stay is the law that makes the data, which may well produce changing frequencies."
    ),
)
