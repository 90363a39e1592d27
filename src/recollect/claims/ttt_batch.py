"""How often the inner model of TTT is stepped: the size of its mini-batches.

The first form compared every pair of two seeds, whose spread was larger than what was looked for. Now runs of the same
seed are compared, which have the same weights at the start and read the same windows, and there are more of them. With
windows of 32 (mini-batches of 2, 8 and 32, five seeds) that still decided nothing: -.02 (-.10 to .04) for 2, .01 (-.04
to .08) for 8. Windows are now four times as long.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from ..core.chart import Chart
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import curve, sentence, show
from .laboratory.floor import Floor
from .laboratory.training import train_models

MARGIN = 0.02  # nats
SIZES = (8, 32, 128)
QUICK = {
    "steps": 300, "width": 32, "layers": 1, "heads": 2, "context": 128, "batch": 8, "lr": 5e-3, "eval_tokens": 16_000,
}  # fmt: skip
FULL = {"steps": 800, "width": 128, "layers": 2, "heads": 4, "context": 256, "batch": 32, "lr": 2e-3}
SEEDS = 5, 3
FLOOR = Floor(easy="on counting characters", figure="nats gained", least=0.5, models="every size")


def run(effort: Effort) -> Found:
    models = {size: {"model": "ttt-linear", "mini_batch": size} for size in SIZES}
    runs = train_models("text", models, effort, SEEDS, **effort.pick(QUICK, FULL))
    found = {size: [trained.metric for trained in each] for size, each in runs.items()}
    seconds = {size: [trained.figures["seconds"] for trained in each] for size, each in runs.items()}
    gains = {
        f"b = {size}": [run.figures["baselines"]["unigram"] - run.metric for run in each] for size, each in runs.items()
    }
    verdict, limits = judge(found, gains)
    effects = ", ".join(f"b = {size}: {show(values)} in {fmean(seconds[size]):.0f} s" for size, values in found.items())
    return Found(
        verdict=verdict,
        summary=f"Nats per character, and seconds of training: {effects}. {sentence(limits)}",
        figures={"nats_per_token": found, "seconds": seconds, "gains": gains},
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


def judge(found: Mapping[int, Sequence[float]], gains: Mapping[str, Sequence[float]]) -> tuple[Verdict, str]:
    """From {size of a mini-batch: [nats of each seed]}, seeds in the same order, and gains on counting characters."""
    if missing := FLOOR.missing(gains):
        return Verdict.NOT_LEARNT, missing
    sizes = sorted(found)
    least, most = sizes[0], sizes[-1]
    saved = {size: [b - a for a, b in zip(found[size], found[most], strict=True)] for size in sizes[:-1]}
    told = ", ".join(f"b = {size} {show(values)}" for size, values in saved.items())
    told = f"nats below b = {most} with the same seed: {told}; "
    rises = all(fmean(found[a]) <= fmean(found[b]) for a, b in pairwise(sizes))
    better = [size for size, values in saved.items() if min(values) > MARGIN]
    if rises and least in better:
        return Verdict.HOLDS, f"{told}the smaller, the better"
    if better:
        best = min(sizes, key=lambda size: fmean(found[size]))
        return Verdict.LIMITS, f"{told}smaller than {most} helps, best at {best}"
    if all(max(values) <= MARGIN for values in saved.values()):
        return Verdict.FAILS, f"{told}no smaller one saves more than {MARGIN} with any seed"
    return Verdict.UNDECIDED, f"{told}no size saves more than {MARGIN} with every seed"


def _form(terms: Mapping[str, Any], seeds: int) -> str:
    return (
        f"{terms['layers']} layer{'s' * (terms['layers'] > 1)} of {terms['width']} with {terms['heads']} heads, "
        f"windows of {terms['context']}, {terms['steps']:,} steps of {terms['batch']} windows at rate "
        f"{terms['lr']:g}, {seeds} seeds"
    )


CLAIM = Claim(
    statement="Smaller inner mini-batches help test-time training.",
    sources=(
        "Sun 2024, Learning to (Learn at Test Time), section 2.4 and Figure 7 (arXiv 2407.04620)",
        "the overview note: 「context压缩到模型权重中，增强了表达能力」",
    ),
    experiment=f"""TTT-linear learns Python's own source by characters with inner mini-batches of
    {", ".join(map(str, SIZES))} steps; runs with the same seed start from the same weights and read the same
    windows.""",
    decided=f"""{FLOOR} Holds: the mean loss nowhere falls as the mini-batch grows, and that of {SIZES[0]} is below that
    of {SIZES[-1]} by over {MARGIN} nats with every seed. Within limits: some smaller size is, but not ever more so.
    Does not hold: no smaller size is by so much with any seed. Else undecided. Quick (windows as long as the largest
    mini-batch, which so is batch gradient descent): {_form(QUICK, SEEDS[0])}. Full: {_form(FULL, SEEDS[1])}. Times are
    told, not judged.""",
    run=run,
    chapter=12,
)
