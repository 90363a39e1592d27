"""How often the inner model of TTT is stepped: the size of its mini-batches."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from ..core.chart import Chart
from ._shown import curve, gather, said, sentence
from ._trained import seeds, train
from .claim import Claim, Effort, Found, Verdict, apart

MARGIN = 0.02  # nats
SIZES = (1, 4, 16, 64)
QUICK = {"steps": 200, "width": 32, "layers": 1, "heads": 2, "context": 64, "batch": 8, "lr": 3e-3, "eval_tokens": 8000}
FULL = {"steps": 3000, "width": 128, "layers": 4, "heads": 4, "context": 256, "batch": 32, "lr": 2e-3}
SEEDS = 2, 3


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    runs = [
        {size: train("text", "ttt-linear", seed=seed, device=effort.device, mini_batch=size, **terms) for size in SIZES}
        for seed in seeds(effort, *SEEDS)
    ]
    found = gather({size: trained.metric for size, trained in run.items()} for run in runs)
    seconds = gather({size: trained.figures["seconds"] for size, trained in run.items()} for run in runs)
    verdict, limits = judge(found)
    effects = ", ".join(f"b = {size}: {said(values)} in {fmean(seconds[size]):.0f} s" for size, values in found.items())
    chart = Chart(
        title="TTT-linear by the size of its inner mini-batches",
        x="steps in an inner mini-batch",
        y="nats per character",
        lines=[curve("validation", found)],
        log_x=True,
    )
    return Found(
        verdict=verdict,
        summary=f"Nats per character, and seconds of training: {effects}. {sentence(limits)}",
        figures={"nats_per_token": found, "seconds": seconds},
        charts=[chart],
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
    id="ttt-batch",
    statement="Smaller inner mini-batches help test-time training.",
    sources=(
        "Sun 2024, Learning to (Learn at Test Time), section 2.4 and Figure 7 (arXiv 2407.04620)",
        "001_56d5b8bda4e4cf77.txt",
    ),
    experiment="TTT-linear learns Python's own source by characters with inner mini-batches of 1, 4, 16 and 64 steps.",
    decided=f"Holds: the mean loss nowhere falls as the mini-batch grows, and that of 1 is below that of 64 by over "
    f"{MARGIN} nats for every pair of seeds. Within limits: some smaller size is, but not ever more so. Does not hold: "
    "every smaller size is at best as good as 64 for every pair of seeds. Quick: one layer of 32 with 2 heads, windows "
    "of 64 (so that 64 is batch gradient descent), 200 steps of 8 windows, 2 seeds. Full: 4 layers of 128, windows of "
    "256, 3,000 steps of 32, 3 seeds. Times are told, not judged.",
    run=run,
)
