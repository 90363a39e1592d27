"""How much the source still says to a decoder that has written for a while.

The source's say at a step is how far the forecast moves (total variation, from 0 to 1) when the source is another
sentence and everything written so far stays. Sentences are copied from either end, so that it does not matter which
symbols of the source a late step needs.
"""

from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory

import numpy as np

from ..core.chart import Chart
from ._copying import Copying, lines, train, write
from ._limits import limits
from ._shown import said
from ._trained import seeds
from .claim import Claim, Effort, Found, Verdict, apart

MODELS = ("fixed", "context", "attend")
COPYING = {
    False: Copying(shortest=8, longest=8, both_ways=True, test=500),
    True: Copying(shortest=16, longest=16, both_ways=True, train=100_000, test=2000),
}
WIDTH = (64, 256)
STEPS = (600, 6000)
TOKENS = (512, 4096)
RATE = (5e-3, 2e-3)
SEEDS = (3, 3)
QUARTER = 4  # the target's first and last quarter are compared
MARGIN = 0.05
HEARD = 0.3  # the least say of the source in the first quarter, for its loss to mean anything


def run(effort: Effort) -> Found:
    copying = COPYING[effort.full]
    count = copying.longest
    says: dict[str, list[list[float]]] = {model: [] for model in MODELS}
    right: dict[str, list[float]] = {model: [] for model in MODELS}
    with TemporaryDirectory() as folder:
        task = copying.load(folder, effort.pick(*TOKENS), device=effort.device)
        for seed in seeds(effort, *SEEDS):
            sizes = {"width": effort.pick(*WIDTH), "steps": effort.pick(*STEPS), "rate": effort.pick(*RATE)}
            for name in MODELS:
                found = write(train(task, name, seed=seed, **sizes), task, copying)[count]
                says[name].append(found.influence.mean(dim=0).tolist())
                right[name].append(float(found.right.mean()))
    part = count // QUARTER
    losses = {name: [float(np.mean(row[:part]) - np.mean(row[-part:])) for row in rows] for name, rows in says.items()}
    first = [float(np.mean(row[:part])) for row in says["fixed"]]
    ranked = sorted(MODELS, key=lambda name: np.mean(losses[name]))
    verdict = decide(losses, first)
    helped = [name for name in MODELS[1:] if apart(losses[name], losses["fixed"], MARGIN)]
    return Found(
        verdict=verdict,
        summary=(
            "the source's say in the first quarter of the target less that in the last: "
            + ", ".join(f"{name} {said(losses[name])}" for name in ranked)
            + "; right symbols: "
            + ", ".join(f"{name} {said(right[name])}" for name in ranked)
            + limits(verdict, f"only {' and '.join(helped)} loses less than fixed")
        ),
        figures={"say": says, "loss of say": losses, "right": right, "rank": ranked},
        charts=[
            Chart(
                title="The source's say by place in the target",
                x="place in the target",
                y="total variation under another source",
                lines=lines(says, range(1, count + 1)),
            )
        ],
    )


def decide(losses: Mapping[str, Sequence[float]], first: Sequence[float]) -> Verdict:
    """From each seed's loss of the source's say, and the say that it had at first in `fixed`."""
    if np.mean(first) < HEARD:
        return Verdict.UNDECIDED
    if max(losses["fixed"]) <= MARGIN:
        return Verdict.FAILS
    helped = [apart(losses[name], losses["fixed"], MARGIN) for name in ("context", "attend")]
    if min(losses["fixed"]) <= MARGIN or None in helped:
        return Verdict.UNDECIDED
    return {2: Verdict.HOLDS, 1: Verdict.LIMITS, 0: Verdict.FAILS}[helped.count(True)]


CLAIM = Claim(
    id="fading",
    statement="A decoder forgets the source as it writes, unless it is told of it again at every step.",
    sources=(
        "Cho et al. 2014, Learning Phrase Representations using RNN Encoder–Decoder",
        "Bahdanau, Cho & Bengio 2015, Neural Machine Translation by Jointly Learning to Align and Translate",
        "001_56d5b8bda4e4cf77.txt",
    ),
    experiment=(
        "Three GRU decoders copy random symbols from either end: one hears of the source in its first state, one at "
        "every step, one attends. At each place of the target the source is exchanged and the forecast compared."
    ),
    decided=(
        "Quick: 8 symbols out of 8, width 64, 600 steps of 512 tokens, rate 5e-3; full: 16 symbols, width 256, 6,000 "
        "steps of 4,096 tokens, rate 2e-3; 3 seeds. The loss is the source's say in the first quarter of the target "
        "less that in the last. Holds if it is above .05 in every seed of `fixed` and every loss of `context` and of "
        "`attend` is by .05 below all of those; within limits if that is so of only one of them; does not hold if no "
        "seed of `fixed` loses more than .05 or neither of the others loses less; otherwise undecided, as where the "
        "source has a say of less than .3 at first."
    ),
    run=run,
    note=(
        "The note describes a decoder that hears of the source only in its first state, which is Sutskever et al.'s "
        "(2014), beside the formulas of Cho et al. (2014), whose decoder hears of it at every step. In the second of "
        "them the word follows from the state of its own step: P(y_t | …) = g(h_t, y_{t−1}, c), not from h_{t−1}. "
        "Read the verdict with care: a vector that has half of the symbols wrong may lean on what is already written, "
        "and the choice of direction is made at the start; neither is taken out of the measure."
    ),
)
