"""Deep and narrow against shallow and wide, with the same number of parameters."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from ..core.chart import Chart
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import apart, curve, sentence, show
from .laboratory.training import train_models

MARGIN = 0.05  # nats
QUICK: dict[str, Any] = {
    "depths": (1, 2, 4, 8),
    "params": 60_000,
    "run": {"steps": 250, "context": 64, "batch": 8, "heads": 2, "lr": 3e-3, "eval_tokens": 20_000},
}
FULL: dict[str, Any] = {
    "depths": (1, 2, 4, 8, 16),
    "params": 1_000_000,
    "run": {"steps": 4000, "context": 128, "batch": 32, "heads": 4, "lr": 2e-3, "eval_tokens": 200_000},
}
SEEDS = 3, 3


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    models = {depth: {"model": "transformer", "layers": depth} for depth in terms["depths"]}
    runs = train_models("text", models, effort, SEEDS, params=terms["params"], **terms["run"])
    found = {depth: [trained.metric for trained in each] for depth, each in runs.items()}
    sizes = {depth: (each[0].model.config.width, each[0].figures["params"]) for depth, each in runs.items()}
    verdict, limits = judge(found)
    effects = ", ".join(
        f"{depth} × {sizes[depth][0]} wide ({sizes[depth][1]:,} parameters) {show(values)}"
        for depth, values in found.items()
    )
    title = f"Depth against width, {terms['params']:,} parameters"
    return Found(
        verdict=verdict,
        summary=f"Nats per character, layers × width: {effects}. {sentence(limits)}",
        figures={"nats_per_token": found, "sizes": sizes},
        charts=[Chart(title, "layers", "nats per character", [curve("validation", found)], log_x=True)],
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
    statement="The number of layers is the setting of a Transformer that counts: deeper is better than wider.",
    sources=(
        "Levine 2020, The Depth-to-Width Interplay in Self-Attention (arXiv 2006.12467)",
        "Kaplan 2020, Scaling Laws for Neural Language Models, where shape matters little (arXiv 2001.08361)",
        "004_ae40ae433d185804.txt",
    ),
    experiment="""Transformers of growing depth learn Python's own source by characters; the width is solved for so that
    all have the same number of parameters.""",
    decided=f"""Holds: the mean loss falls with every doubling of the depth, and the deepest is better than one layer by
    over {MARGIN} nats for every pair of seeds. Within limits: some depth is, but not ever more so. Does not hold: every
    depth is at best as good as one layer for every pair of seeds. Quick: {QUICK["params"]:,} parameters,
    {QUICK["depths"][0]} to {QUICK["depths"][-1]} layers, {QUICK["run"]["steps"]} steps of {QUICK["run"]["batch"]}
    windows of {QUICK["run"]["context"]} characters. Full: {FULL["params"] // 10**6} million, {FULL["depths"][0]} to
    {FULL["depths"][-1]} layers, {FULL["run"]["steps"]:,} steps of {FULL["run"]["batch"]} windows of
    {FULL["run"]["context"]}. {SEEDS[0]} seeds.""",
    note="""The note names depth as one of several settings to choose; it is taken at its most pointed here. Equal
    parameters are not equal time: a deep and narrow model is slower.""",
    run=run,
)
