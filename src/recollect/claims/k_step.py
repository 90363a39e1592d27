"""Predictions fed back as if they had been seen, on Dive into Deep Learning's noisy sine.

A point far ahead is hard to tell in any case. So beside the network that says the next point and goes on from there
stands one that says all 64 points at once from the same four: what it errs less is what feeding back costs.

The thresholds were set with the ranges of that book's network known.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ..core.chart import Chart
from ..tasks.series.multi_step import free_run, k_step
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import curve, decimal, gather, in_words, limits
from .laboratory.training import train

KS: tuple[int, ...] = (1, 4, 16, 64)
SEEDS = (7, 21)
SETTINGS: dict[str, Any] = {
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
    for seed in effort.seed_range(*SEEDS):
        for way, own in WAYS.items():
            made = train("series", "mlp", steps=STEPS, seed=seed, draw=seed, device=effort.device, **SETTINGS | own)
            found = k_step(made.model, made.task, KS)
            errors[way].append({k: found[k]["mse_raw"] for k in KS})
            if way == "fed back":
                last = free_run(made.model, made.task)
                free.append(last["free_raw"])
                mean.append(last["mean_raw"])
    told = {way: " ".join(f"{median(values):.3f}" for values in gather(rows).values()) for way, rows in errors.items()}
    fed = [row[KS[-1]] for row in errors["fed back"]]
    verdict = judge(errors, free, mean)
    better = median(free) <= median(mean)
    return Found(
        verdict=verdict,
        summary=(
            f"median squared error over {len(free)} seeds at {', '.join(map(str, KS))} steps: fed back "
            f"{told['fed back']} (the last from {min(fed):.3f} to {max(fed):.3f}), at once {told['at once']}; "
            f"free-running {median(free):.3f} ({min(free):.3f} to {max(free):.3f}), predicting the mean "
            f"{median(mean):.3f}; the noise alone costs .04"
            + limits(
                verdict,
                "; the limits: "
                + ("running freely beats the mean" if better else "saying it at once errs nearly as much"),
            )
        ),
        figures={"errors": errors, "free running": free, "predicting the mean": mean},
        charts=[
            Chart(
                "Error by how far ahead, median and range over seeds",
                "points ahead",
                "squared error",
                [curve(way, gather(rows), median) for way, rows in errors.items()],
                log_x=True,
                log_y=True,
                level=median(mean),
                level_name="predicting the mean",
            )
        ],
    )


def judge(errors: Errors, free: Sequence[float], mean: Sequence[float]) -> Verdict:
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
    statement="Errors accumulate when a model's predictions are fed back to it.",
    sources=("Zhang et al., Dive into Deep Learning, Sequence models", "the sequence-model note: 「误差不断积累」"),
    experiment=f"""d2l's MLP of width {SETTINGS["width"]} reads {SETTINGS["lookback"]} points of the noisy sine (600 to
    learn from, 400 to test), says the next and goes on from what it said; beside it the same network says {KS[-1]}
    points at once.""",
    decided=f"""{SEEDS[0]} seeds ({SEEDS[1]} in full) of weights and noise, {STEPS} steps of {SETTINGS["batch"]} windows
    at rate {decimal(SETTINGS["lr"])}, medians at k = {", ".join(map(str, KS))}. Does not hold if the median falls
    anywhere or at {KS[-1]} is less than {in_words(GROWTH)} that at {KS[0]}; undecided if any seed's error at {KS[-1]}
    is not above every seed's at {KS[0]}. Holds if feeding back costs {DEARER} times the error at {KS[-1]} of saying it
    at once, in all seeds but one at least, and running freely is worse than predicting the mean, in the median; else it
    holds within limits.""",
    run=run,
    chapter=1,
)
