"""Deep and narrow against shallow and wide, with the same number of parameters."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from ..core.chart import Chart
from ._shown import curve, gather, said, sentence
from ._trained import seeds, train
from .claim import Claim, Effort, Found, Verdict, apart

MARGIN = 0.05  # nats
QUICK = {
    "depths": (1, 2, 4, 8),
    "params": 60_000,
    "run": {"steps": 250, "context": 64, "batch": 8, "heads": 2, "lr": 3e-3, "eval_tokens": 20_000},
}
FULL = {
    "depths": (1, 2, 4, 8, 16),
    "params": 1_000_000,
    "run": {"steps": 4000, "context": 128, "batch": 32, "heads": 4, "lr": 2e-3, "eval_tokens": 200_000},
}
SEEDS = 3, 3


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    runs = [
        {
            depth: train(
                "text",
                "transformer",
                seed=seed,
                device=effort.device,
                params=terms["params"],
                layers=depth,
                **terms["run"],
            )
            for depth in terms["depths"]
        }
        for seed in seeds(effort, *SEEDS)
    ]
    found = gather({depth: trained.metric for depth, trained in run.items()} for run in runs)
    sizes = {depth: (trained.model.config.width, trained.figures["params"]) for depth, trained in runs[0].items()}
    verdict, limits = judge(found)
    effects = ", ".join(
        f"{depth} × {sizes[depth][0]} wide ({sizes[depth][1]:,} parameters) {said(values)}"
        for depth, values in found.items()
    )
    chart = Chart(
        title=f"Depth against width, {terms['params']:,} parameters",
        x="layers",
        y="nats per character",
        lines=[curve("validation", found)],
        log_x=True,
    )
    return Found(
        verdict=verdict,
        summary=f"Nats per character, layers × width: {effects}. {sentence(limits)}",
        figures={"nats_per_token": found, "sizes": sizes},
        charts=[chart],
    )


def judge(found: Mapping[int, Sequence[float]]) -> tuple[Verdict, str]:
    """From {layers: [nats of each seed]}."""
    depths = sorted(found)
    shallow, deepest = depths[0], depths[-1]
    better = [depth for depth in depths[1:] if apart(found[depth], found[shallow], MARGIN)]
    falls = all(fmean(found[b]) < fmean(found[a]) for a, b in pairwise(depths))
    if deepest in better and falls:
        return Verdict.HOLDS, "each doubling of the depth helps"
    best = min(depths, key=lambda depth: fmean(found[depth]))
    if better:
        return Verdict.LIMITS, f"depth helps up to {best} layers; there is a best one in between"
    if all(apart(found[depth], found[shallow]) is False for depth in depths[1:]):
        return Verdict.FAILS, "one layer as wide as the parameters allow is at least as good as any depth"
    return Verdict.UNDECIDED, f"no depth is better than one layer by {MARGIN} nats with every seed"


CLAIM = Claim(
    id="depth",
    statement="The number of layers is the setting of a Transformer that counts: deeper is better than wider.",
    sources=(
        "Levine 2020, The Depth-to-Width Interplay in Self-Attention (arXiv 2006.12467)",
        "Kaplan 2020, Scaling Laws for Neural Language Models, where shape matters little (arXiv 2001.08361)",
        "004_ae40ae433d185804.txt",
    ),
    experiment="Transformers of growing depth learn Python's own source by characters; the width is solved for so that "
    "all have the same number of parameters.",
    decided=f"Holds: the mean loss falls with every doubling of the depth, and the deepest is better than one layer by "
    f"over {MARGIN} nats for every pair of seeds. Within limits: some depth is, but not ever more so. Does not hold: "
    "every depth is at best as good as one layer for every pair of seeds. Quick: 60,000 parameters, 1 to 8 layers, 250 "
    "steps of 8 windows of 64 characters. Full: 1 million, 1 to 16 layers, 4,000 steps of 32 windows of 128. 3 seeds.",
    note="The note names depth as one of several settings to choose; it is taken at its most pointed here. Equal "
    "parameters are not equal time: a deep and narrow model is slower.",
    run=run,
)
