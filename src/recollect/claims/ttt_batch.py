"""How often the inner model of TTT is stepped: the size of its mini-batches."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from ..core.chart import Chart
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import apart, curve, sentence, show
from .laboratory.training import train_models

MARGIN = 0.02  # nats
SIZES = (1, 4, 16, 64)
QUICK = {"steps": 200, "width": 32, "layers": 1, "heads": 2, "context": 64, "batch": 8, "lr": 3e-3, "eval_tokens": 8000}
FULL = {"steps": 3000, "width": 128, "layers": 4, "heads": 4, "context": 256, "batch": 32, "lr": 2e-3}
SEEDS = 2, 3


def run(effort: Effort) -> Found:
    models = {size: {"model": "ttt-linear", "mini_batch": size} for size in SIZES}
    runs = train_models("text", models, effort, SEEDS, **effort.pick(QUICK, FULL))
    found = {size: [trained.metric for trained in each] for size, each in runs.items()}
    seconds = {size: [trained.figures["seconds"] for trained in each] for size, each in runs.items()}
    verdict, limits = judge(found)
    effects = ", ".join(f"b = {size}: {show(values)} in {fmean(seconds[size]):.0f} s" for size, values in found.items())
    return Found(
        verdict=verdict,
        summary=f"Nats per character, and seconds of training: {effects}. {sentence(limits)}",
        figures={"nats_per_token": found, "seconds": seconds},
        charts=[
            Chart(
                "TTT-linear by the size of its inner mini-batches",
                "steps in an inner mini-batch",
                "nats per character",
                [curve("validation", found)],
                log_x=True,
            )
        ],
    )


def judge(found: Mapping[int, Sequence[float]]) -> tuple[Verdict, str]:
    """From {size of a mini-batch: [nats of each seed]}."""
    sizes = sorted(found)
    least, most = sizes[0], sizes[-1]
    rises = all(fmean(found[a]) <= fmean(found[b]) for a, b in pairwise(sizes))
    better = [size for size in sizes[:-1] if apart(found[size], found[most], MARGIN)]
    if rises and least in better:
        return Verdict.HOLDS, "the smaller, the better"
    if better:
        best = min(sizes, key=lambda size: fmean(found[size]))
        return Verdict.LIMITS, f"smaller than {most} helps, best at {best}"
    if all(apart(found[size], found[most]) is False for size in sizes[:-1]):
        return Verdict.FAILS, f"no smaller one is better than {most}"
    return Verdict.UNDECIDED, f"no size is better than {most} by {MARGIN} nats with every seed"


CLAIM = Claim(
    statement="Smaller inner mini-batches help test-time training.",
    sources=(
        "Sun 2024, Learning to (Learn at Test Time), section 2.4 and Figure 7 (arXiv 2407.04620)",
        "001_56d5b8bda4e4cf77.txt",
    ),
    experiment=f"""TTT-linear learns Python's own source by characters with inner mini-batches of {SIZES[0]},
    {SIZES[1]}, {SIZES[2]} and {SIZES[3]} steps.""",
    decided=f"""Holds: the mean loss nowhere falls as the mini-batch grows, and that of {SIZES[0]} is below that of
    {SIZES[-1]} by over {MARGIN} nats for every pair of seeds. Within limits: some smaller size is, but not ever more
    so. Does not hold: every smaller size is at best as good as {SIZES[-1]} for every pair of seeds. Quick: one layer of
    {QUICK["width"]} with {QUICK["heads"]} heads, windows of {QUICK["context"]} (so that {SIZES[-1]} is batch gradient
    descent), {QUICK["steps"]} steps of {QUICK["batch"]} windows, {SEEDS[0]} seeds. Full: {FULL["layers"]} layers of
    {FULL["width"]}, windows of {FULL["context"]}, {FULL["steps"]:,} steps of {FULL["batch"]}, {SEEDS[1]} seeds. Times
    are told, not judged.""",
    run=run,
)
