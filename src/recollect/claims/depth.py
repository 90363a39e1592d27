"""Deep and narrow against shallow and wide, with the same number of parameters.

The first form had one learning rate for all, after 250 steps. Each depth now has the better of two, and must have
learnt more than how often each character comes.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from ..core.chart import Chart
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import apart, curve, sentence, show
from .laboratory.floor import Floor
from .laboratory.training import train_models

MARGIN = 0.05  # nats
QUICK: dict[str, Any] = {
    "depths": (1, 2, 4),
    "params": 40_000,
    "rates": (3e-3, 1e-2),
    "run": {"steps": 400, "context": 32, "batch": 8, "heads": 2, "eval_tokens": 10_000},
}
FULL: dict[str, Any] = {
    "depths": (1, 2, 4, 8),
    "params": 600_000,
    "rates": (1e-3, 3e-3),
    "run": {"steps": 1000, "context": 128, "batch": 32, "heads": 4, "eval_tokens": 50_000},
}
SEEDS = 3, 3
FLOOR = Floor(easy="on counting characters", figure="nats gained", least=0.5, models="every depth")


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    models = {
        (depth, rate): {"model": "transformer", "layers": depth, "lr": rate}
        for depth in terms["depths"]
        for rate in terms["rates"]
    }
    tried = train_models("text", models, effort, SEEDS, params=terms["params"], **terms["run"])
    best = {
        depth: min(terms["rates"], key=lambda rate: fmean(run.metric for run in tried[depth, rate]))
        for depth in terms["depths"]
    }
    runs = {depth: tried[depth, rate] for depth, rate in best.items()}
    found = {depth: [trained.metric for trained in each] for depth, each in runs.items()}
    gains = {
        f"{depth} layers": [run.figures["baselines"]["unigram"] - run.metric for run in each]
        for depth, each in runs.items()
    }
    sizes = {depth: (each[0].model.config.width, each[0].figures["params"]) for depth, each in runs.items()}
    verdict, limits = judge(found, gains)
    effects = ", ".join(
        f"{depth} × {sizes[depth][0]} wide ({sizes[depth][1]:,} parameters, rate {best[depth]:g}) {show(values)}"
        for depth, values in found.items()
    )
    title = f"Depth against width, {terms['params']:,} parameters"
    return Found(
        verdict=verdict,
        summary=f"Nats per character, layers × width: {effects}. {sentence(limits)}",
        figures={"nats_per_token": found, "sizes": sizes, "rates": best, "gains": gains},
        charts=[Chart(title, "layers", "nats per character", [curve("validation", found)], log_x=True)],
    )


def judge(found: Mapping[int, Sequence[float]], gains: Mapping[str, Sequence[float]]) -> tuple[Verdict, str]:
    """From {layers: [nats of each seed]}, and what each gains on counting characters."""
    if missing := FLOOR.missing(gains):
        return Verdict.NOT_LEARNT, missing
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


def _form(terms: Mapping[str, Any], seeds: int) -> str:
    run, depths = terms["run"], terms["depths"]
    return (
        f"{terms['params']:,} parameters, {depths[0]} to {depths[-1]} layers, rates "
        f"{' and '.join(f'{rate:g}' for rate in terms['rates'])}, {run['steps']:,} steps of {run['batch']} windows of "
        f"{run['context']} characters, {seeds} seeds"
    )


CLAIM = Claim(
    statement="With an equal number of parameters a deeper Transformer is better than a wider one.",
    sources=(
        "Levine 2020, The Depth-to-Width Interplay in Self-Attention (arXiv 2006.12467)",
        "Kaplan 2020, Scaling Laws for Neural Language Models, where shape matters little (arXiv 2001.08361)",
    ),
    experiment="""Transformers of growing depth learn Python's own source by characters; the width is solved for so that
    all have the same number of parameters, and each depth has the better of two learning rates.""",
    decided=f"""{FLOOR} Holds: the mean loss falls with every doubling of the depth, and the deepest is better than one
    layer by over {MARGIN} nats for every pair of seeds. Within limits: some depth is, but not ever more so. Does not
    hold: every depth is at best as good as one layer for every pair of seeds. Else undecided. Quick:
    {_form(QUICK, SEEDS[0])}. Full: {_form(FULL, SEEDS[1])}.""",
    note="""The lecture note names depth as one of several settings to choose, and claims nothing of it. Equal
    parameters are not equal time: a deep and narrow model is slower.""",
    run=run,
    chapter=10,
)
