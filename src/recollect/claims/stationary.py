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

from ..tasks.series.sources import noisy_sine
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import bars, curves, decimal, limits, said_each
from .laboratory.training import Trained, train

POINTS = 1200  # 480 to learn from, 240 to choose by, 480 to test
CHANGE = 960
SHARES: dict[str, Any] = {"valid_share": 0.2, "test_share": 0.4}
NOISE, RATE, NEW_RATE = 0.05, 0.2, 0.5
LOOKBACK, HORIZON = 16, 8
BEFORE = range(CHANGE - 240, CHANGE - HORIZON + 1)  # where the forecasts begin that are judged
AFTER = range(CHANGE + LOOKBACK, POINTS - HORIZON + 1)
MODELS: dict[str, dict[str, Any]] = {"ar": {}, "gru": {"width": 16, "lr": 0.01}}
STEPS = (200, 1000)
SEEDS = (5, 10)
TIMES = 3.0  # the error after the change, in errors before it
EXTENT, SPELL = (0.1, 0.6), 40  # of the many frequencies, and how long each lasts


def run(effort: Effort) -> Found:
    errors: dict[str, dict[str, list[float]]] = {"before": {}, "after": {}, "anew": {}}

    def note(when: str, name: str, made: Trained, origins: range) -> None:
        errors[when].setdefault(name, []).append(error(made, origins))

    for seed in effort.seed_range(*SEEDS):
        changed = noisy_sine(POINTS, seed, noise=NOISE, rate=RATE, change=CHANGE, new_rate=NEW_RATE)
        other = noisy_sine(POINTS, seed, noise=NOISE, rate=NEW_RATE)
        many = np.concatenate([wandering(BEFORE.start, seed), changed[BEFORE.start :]])
        learnt = {name: learn(name, changed, seed, effort) for name in MODELS}
        learnt["gru, many rates"] = learn("gru", many, seed, effort)
        for name, made in learnt.items():
            note("before", name, made, BEFORE)
            note("after", name, made, AFTER)
        for name in MODELS:
            note("anew", name, learn(name, other, seed, effort), AFTER)
    before, after, anew = errors.values()
    ratios = {name: [b / a for a, b in zip(before[name], after[name], strict=True)] for name in before}
    fresh = {name: [b / a for a, b in zip(anew[name], after[name], strict=True)] for name in MODELS}
    verdict = judge({name: ratios[name] for name in MODELS}, fresh)
    fallen = ", ".join(name for name in MODELS if min(ratios[name]) >= TIMES)
    drawn = {"before": before, "after": after, "trained on the new frequency": anew}
    return Found(
        verdict=verdict,
        summary=(
            f"error after the change over that before: {said_each(ratios, 1)}; over that of the same model trained on "
            f"the new frequency: {said_each(fresh, 1)}" + limits(verdict, f"; the limits: only of {fallen}")
        ),
        figures=drawn,
        charts=[
            bars(
                "Squared error before and after the frequency changes",
                "model",
                "squared error, scaled",
                curves(drawn),
                log_y=True,
            )
        ],
    )


def wandering(points: int, seed: int) -> np.ndarray:
    """A noisy sine whose frequency is drawn anew every so often."""
    draw = random.Random(seed)
    rates = np.repeat([draw.uniform(*EXTENT) for _ in range(-(-points // SPELL))], SPELL)[:points]
    return np.sin(np.cumsum(rates)) + np.random.default_rng([seed, 12]).normal(0, NOISE, points)


def learn(name: str, values: np.ndarray, seed: int, effort: Effort) -> Trained:
    """A forecaster of these values, from a file as any other's."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sine.csv"
        path.write_text("x\n" + "".join(f"{value:.6f}\n" for value in values), encoding="utf-8")
        settings = SHARES | MODELS[name] | {"lookback": LOOKBACK, "horizon": HORIZON, "data": [str(path)]}
        return train("series", name, steps=effort.pick(*STEPS), seed=seed, device=effort.device, **settings)


@torch.no_grad()
def error(made: Trained, origins: range) -> float:
    """Mean squared error of the forecasts that begin at these rows."""
    batch = made.task.window(origins)
    return float((made.model.forecast(batch.x).mean - batch.y).square().mean())


def judge(ratios: Mapping[str, Sequence[float]], fresh: Mapping[str, Sequence[float]]) -> Verdict:
    """From the error after the change, over that before and over that of a model trained on the new frequency."""
    if min(float(np.median(values)) for values in fresh.values()) < TIMES:
        return Verdict.UNDECIDED  # the new frequency is hard in itself
    fallen = [min(values) >= TIMES for values in ratios.values()]
    if any(fallen):
        return Verdict.HOLDS if all(fallen) else Verdict.LIMITS
    stood = all(max(values) < TIMES for values in ratios.values())
    return Verdict.FAILS if stood else Verdict.UNDECIDED


CLAIM = Claim(
    statement="What was learnt of a series serves only while its dynamics stay as they were.",
    sources=(
        "Zhang et al., Dive into Deep Learning, Sequence models",
        "the sequence-model note: 「序列本身的动力学不会改变」",
    ),
    experiment=f"""A linear autoregression and a GRU learn sin({decimal(RATE)}t) with a little noise, {LOOKBACK} points
    in and {HORIZON} out; in the test the rate becomes {decimal(NEW_RATE)}. The same models trained on
    {decimal(NEW_RATE)} show what the new stretch costs in itself.""",
    decided=f"""{POINTS:,} points, noise {decimal(NOISE)}, change at {CHANGE}, {SEEDS[0]} seeds ({SEEDS[1]} in full),
    {STEPS[0]} steps of the GRU ({STEPS[1]:,} in full). Holds if in every seed of both models the error after the change
    is at least {TIMES:g} times that before; within limits if of one model only; does not hold if no seed of either has
    {TIMES:g} times; otherwise undecided, as where the error after the change is not {TIMES:g} times (in the median)
    that of the same model trained on the new frequency. The GRU that learnt from many frequencies is shown and does not
    decide.""",
    run=run,
    chapter=1,
    note="""The note says that new dynamics cannot be foretold from the data at hand. That is so of a frequency that was
    never met; what must stay is the law that makes the data, which may well produce changing frequencies.""",
)
