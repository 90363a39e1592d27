"""Attention against states of fixed size with as many bytes, on recall.

Before its first run the quick form was made easier to learn (up to 4 pairs instead of 8, 64 rows a step, rotary
positions for attention), since attention had not learnt a like task in as many steps for the claim `score`, and the
mini-batches of TTT twice as long, to keep within the time of a quick form.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.chart import Chart
from ._shown import curve, gather, said, sentence
from ._trained import seeds, train
from .claim import Claim, Effort, Found, Verdict, apart

RIGHT, MARGIN, EQUAL = 0.9, 0.1, 0.02
ATTENTION = "transformer"
PLACED = {"positions": "learned"}
QUICK: dict[str, Any] = {
    "run": {
        "steps": 400, "length": 16, "load": 4, "vocab": 32, "batch": 64, "lr": 3e-3, "layers": 2, "eval_rows": 500,
    },
    "models": {
        "transformer": {"width": 64, "heads": 2},
        "linear-transformer": PLACED | {"width": 64, "heads": 2},
        "ttt-linear": PLACED | {"width": 64, "heads": 4, "mini_batch": 8},
    },
}  # fmt: skip
FULL: dict[str, Any] = {
    "run": {"steps": 4000, "length": 64, "load": 16, "vocab": 256, "batch": 128, "lr": 2e-3, "layers": 2},
    "models": {
        "transformer": {"width": 32, "heads": 2},
        "linear-transformer": PLACED | {"width": 64, "heads": 1},
        "ttt-linear": PLACED | {"width": 64, "heads": 2, "mini_batch": 4},
        "lstm": {"width": 2048},
    },
}
SEEDS = 2, 3


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    found: dict[str, dict[int, list[float]]] = {}
    sizes: dict[str, int] = {}
    for model, settings in terms["models"].items():
        runs = [
            train("recall", model, seed=seed, device=effort.device, vary=True, **terms["run"] | settings)
            for seed in seeds(effort, *SEEDS)
        ]
        found[model] = gather(run.points() for run in runs)
        sizes[model] = runs[0].figures["state_bytes"]
    most = max(found[ATTENTION])
    verdict, limits = judge({model: each[most] for model, each in found.items()})
    effects = ", ".join(f"{model} ({sizes[model]:,} bytes) {said(each[most])}" for model, each in found.items())
    chart = Chart(
        title="Pairs recalled, at as many bytes of state",
        x="pairs",
        y="right answers",
        lines=[curve(f"{model}, {sizes[model]:,} bytes", each) for model, each in found.items()],
    )
    return Found(
        verdict=verdict,
        summary=f"Right answers with {most} pairs: {effects}. {sentence(limits)}",
        figures={"accuracy": found, "state_bytes": sizes},
        charts=[chart],
    )


def judge(found: Mapping[str, Sequence[float]]) -> tuple[Verdict, str]:
    """From {model: [accuracy of each seed at the heaviest load]}."""
    best = found[ATTENTION]
    if min(best) < RIGHT:
        return Verdict.UNDECIDED, "attention itself did not learn to recall with every seed"
    fixed = [model for model in found if model != ATTENTION]
    below = [model for model in fixed if apart(found[model], best, MARGIN)]
    equal = [model for model in fixed if min(found[model]) >= max(best) - EQUAL]
    if len(below) == len(fixed):
        return Verdict.HOLDS, "no fixed state of as many bytes recalls as much"
    if below:
        rest = ", ".join(model for model in fixed if model not in below)
        return Verdict.LIMITS, f"less is recalled by {', '.join(below)}; that is not shown of {rest}"
    if len(equal) == len(fixed):
        return Verdict.FAILS, "every fixed state of as many bytes recalls as much at this load"
    return Verdict.UNDECIDED, "the seeds overlap"


CLAIM = Claim(
    id="recall",
    statement="Attention recalls what a state of fixed size, with as many bytes, cannot.",
    sources=(
        "Arora 2023, Zoology: Measuring and Improving Recall in Efficient Language Models (arXiv 2312.04927)",
        "Jelassi 2024, Repeat After Me: Transformers are Better than State Space Models at Copying (arXiv 2402.01032)",
    ),
    experiment="Recall of many keys (MQAR), one to so many pairs: attention with all that it keeps at that length, and "
    "models whose fixed state has at least as many bytes.",
    decided="At the heaviest load, for every pair of seeds: holds if each fixed state is right less often than "
    f"attention by over {MARGIN}; within limits if some are; does not hold if all come within {EQUAL}; undecided if "
    f"attention itself is below {RIGHT}. Quick: up to 4 pairs in 16 steps, vocabulary 32, 2 layers of 64, linear "
    "attention (2 heads) and TTT-linear (4 heads, mini-batches of 8), 400 steps of 64 rows, rate 0.003, 2 seeds. "
    "Full: up to 16 pairs in 64 steps, vocabulary 256, attention of 32, linear attention and TTT of 64, LSTM of "
    "2,048, 4,000 steps of 128 rows, rate 0.002, 3 seeds.",
    run=run,
)
