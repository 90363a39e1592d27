"""Attention against states of fixed size with as many bytes, on recall.

Before its first run the quick form was made easier to learn (up to 4 pairs instead of 8, 64 rows a step, rotary
positions for attention), since attention had not learnt a like task in as many steps for the claim `score`, and the
mini-batches of TTT twice as long, to keep within the time of a quick form.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import apart, sentence, show, store_chart
from .laboratory.floor import Floor
from .laboratory.training import by_dial, train_models

RIGHT, MARGIN, EQUAL = 0.9, 0.1, 0.02
ATTENTION = "transformer"
FLOOR = Floor(easy="of the lightest load", figure="right answers", least=RIGHT, models="every model")
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
    "run": {"steps": 1500, "length": 64, "load": 16, "vocab": 256, "batch": 128, "lr": 2e-3, "layers": 2},
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
    runs = train_models("recall", terms["models"], effort, SEEDS, vary=True, **terms["run"])
    found = by_dial(runs)
    sizes = {model: each[0].figures["state_bytes"] for model, each in runs.items()}
    most = max(found[ATTENTION])
    verdict, limits = judge(
        {model: each[most] for model, each in found.items()}, {model: each[min(each)] for model, each in found.items()}
    )
    effects = ", ".join(f"{model} ({sizes[model]:,} bytes) {show(each[most])}" for model, each in found.items())
    return Found(
        verdict=verdict,
        summary=f"Right answers with {most} pairs: {effects}. {sentence(limits)}",
        figures={"accuracy": found, "state_bytes": sizes},
        charts=[store_chart("Pairs recalled, at as many bytes of state", found, sizes)],
    )


def judge(found: Mapping[str, Sequence[float]], easy: Mapping[str, Sequence[float]]) -> tuple[Verdict, str]:
    """From {model: [accuracy of each seed]} at the heaviest load and at the lightest."""
    if missing := FLOOR.missing(easy):
        return Verdict.NOT_LEARNT, missing
    best = found[ATTENTION]
    if min(best) < RIGHT:
        return Verdict.NOT_LEARNT, "attention itself did not learn to recall with every seed"
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
    statement="Attention recalls what a state of fixed size, with as many bytes, cannot.",
    sources=(
        "Arora 2023, Zoology: Measuring and Improving Recall in Efficient Language Models (arXiv 2312.04927)",
        "Jelassi 2024, Repeat After Me: Transformers are Better than State Space Models at Copying (arXiv 2402.01032)",
    ),
    experiment="""Recall of many keys (MQAR), one to so many pairs: attention with all that it keeps at that length, and
    models whose fixed state has at least as many bytes.""",
    decided=f"""At the heaviest load, for every pair of seeds: holds if each fixed state is right less often than
    attention by over {MARGIN}; within limits if some are; does not hold if all come within {EQUAL}; else undecided.
    {FLOOR} So where attention itself is below {RIGHT} at the heaviest load. Quick: up to {QUICK["run"]["load"]} pairs
    in {QUICK["run"]["length"]} steps, vocabulary {QUICK["run"]["vocab"]}, {QUICK["run"]["layers"]} layers of
    {QUICK["models"]["transformer"]["width"]}, linear attention ({QUICK["models"]["linear-transformer"]["heads"]} heads)
    and TTT-linear ({QUICK["models"]["ttt-linear"]["heads"]} heads, mini-batches of
    {QUICK["models"]["ttt-linear"]["mini_batch"]}), {QUICK["run"]["steps"]} steps of {QUICK["run"]["batch"]} rows, rate
    {QUICK["run"]["lr"]}, {SEEDS[0]} seeds. Full: up to {FULL["run"]["load"]} pairs in {FULL["run"]["length"]} steps,
    vocabulary {FULL["run"]["vocab"]}, attention of {FULL["models"]["transformer"]["width"]}, linear attention and TTT
    of {FULL["models"]["ttt-linear"]["width"]}, LSTM of {FULL["models"]["lstm"]["width"]:,}, {FULL["run"]["steps"]:,}
    steps of {FULL["run"]["batch"]} rows, rate {FULL["run"]["lr"]}, {SEEDS[1]} seeds.""",
    run=run,
    chapter=12,
)
