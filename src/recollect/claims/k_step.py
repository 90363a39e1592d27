"""Predictions fed back as if they had been seen, on Dive into Deep Learning's noisy sine.

A point far ahead is hard to tell in any case. So beside the network that says the next point and goes on from there
stands one that says all 64 points at once from the same four: what it errs less is what feeding back costs.

The thresholds were set with the ranges of that book's network known.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ..core.chart import Chart, Line
from ..tasks.series import task as series
from ._limits import limits
from ._trained import seeds, train
from .claim import Claim, Effort, Found, Verdict

KS: tuple[int, ...] = (1, 4, 16, 64)
SEEDS = (7, 21)
SETTINGS = {
    "lookback": 4,
    "width": 10,
    "batch": 16,
    "lr": 0.01,
    "weight_decay": 0,
    "warmup": 0,
    "schedule": "constant",
    "normalise": "none",
}
STEPS = 185
WAYS: dict[str, dict[str, Any]] = {
    "fed back": {"ahead": "recursive", "horizon": 1},
    "at once": {"ahead": "direct", "horizon": KS[-1]},
}
GROWTH = 2.0  # of the median error from the first k to the last
DEARER = 1.25  # than saying it at once, in the median
Errors = Mapping[str, Sequence[Mapping[int, float]]]


def run(effort: Effort) -> Found:
    errors: dict[str, list[dict[int, float]]] = {way: [] for way in WAYS}
    free: list[float] = []
    mean: list[float] = []
    for seed in seeds(effort, *SEEDS):
        for way, own in WAYS.items():
            made = train("series", "mlp", steps=STEPS, seed=seed, draw=seed, device=effort.device, **SETTINGS | own)
            found = series.k_step(made.model, made.task, KS)
            errors[way].append({k: found[k]["mse_raw"] for k in KS})
            if way == "fed back":
                last = series.free_run(made.model, made.task)
                free.append(last["free_raw"])
                mean.append(last["mean_raw"])
    middle = {way: [median(row[k] for row in rows) for k in KS] for way, rows in errors.items()}
    told = {way: " ".join(f"{value:.3f}" for value in values) for way, values in middle.items()}
    fed = [row[KS[-1]] for row in errors["fed back"]]
    verdict = decide(errors, free, mean)
    better = median(free) <= median(mean)
    return Found(
        verdict=verdict,
        summary=(
            f"median squared error over {len(free)} seeds at {', '.join(map(str, KS))} steps: fed back "
            f"{told['fed back']} (the last from {min(fed):.3f} to {max(fed):.3f}), at once {told['at once']}; "
            f"free-running {median(free):.3f} ({min(free):.3f} to {max(free):.3f}), predicting the mean "
            f"{median(mean):.3f}; the noise alone costs .04"
            + limits(verdict, "running freely beats the mean" if better else "saying it at once errs nearly as much")
        ),
        figures={"errors": errors, "free running": free, "predicting the mean": mean},
        charts=[
            Chart(
                title="Error by how far ahead, median and range over seeds",
                x="points ahead",
                y="squared error",
                lines=[
                    Line(
                        name=way,
                        x=list(KS),
                        y=middle[way],
                        low=[min(row[k] for row in rows) for k in KS],
                        high=[max(row[k] for row in rows) for k in KS],
                    )
                    for way, rows in errors.items()
                ],
                log_x=True,
                log_y=True,
                level=median(mean),
                level_name="predicting the mean",
            )
        ],
    )


def decide(errors: Errors, free: Sequence[float], mean: Sequence[float]) -> Verdict:
    """From the errors of each seed at each k, and those of running freely and of predicting the mean."""
    fed, once = errors["fed back"], errors["at once"]
    middle = [median(row[k] for row in fed) for k in KS]
    if sorted(middle) != middle or middle[-1] < GROWTH * middle[0]:
        return Verdict.FAILS
    first, last = [row[KS[0]] for row in fed], [row[KS[-1]] for row in fed]
    if min(last) <= max(first):
        return Verdict.UNDECIDED
    direct = [row[KS[-1]] for row in once]
    dearer = median(last) >= DEARER * median(direct)
    often = sum(a > b for a, b in zip(last, direct, strict=True)) >= len(last) - 1
    lost = median(free) > median(mean)
    return Verdict.HOLDS if dearer and often and lost else Verdict.LIMITS


CLAIM = Claim(
    id="k-step",
    statement="Errors accumulate when a model's predictions are fed back to it.",
    sources=("Zhang et al., Dive into Deep Learning, Sequence models", "003_c6efc9a4698e0e4d.txt"),
    experiment=(
        "d2l's MLP of width 10 reads 4 points of the noisy sine (600 to learn from, 400 to test), says the next and "
        "goes on from what it said; beside it the same network says 64 points at once."
    ),
    decided=(
        "7 seeds (21 in full) of weights and noise, 185 steps of 16 windows at rate .01, medians at k = 1, 4, 16, 64. "
        "Does not hold if the median falls anywhere or at 64 is less than twice that at 1; undecided if any seed's "
        "error at 64 is not above every seed's at 1. Holds if feeding back costs 1.25 times the error at 64 of saying "
        "it at once, in all seeds but one at least, and running freely is worse than predicting the mean, in the "
        "median; else it holds within limits."
    ),
    run=run,
)
