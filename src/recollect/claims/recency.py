"""Which end of the source one vector remembers.

In plain copying what is read first is written first, so a symbol's place in the source cannot be told from its place in
the target. Here half of the targets are written from the source's end, and which half is told by the first word.
"""

from collections.abc import Sequence
from tempfile import TemporaryDirectory

import numpy as np

from ..core.chart import Chart
from ._copying import Copying, lines, train, write
from ._limits import limits
from ._shown import said
from ._trained import seeds
from .claim import Claim, Effort, Found, Verdict

COPYING = {
    False: Copying(shortest=6, longest=6, both_ways=True, test=1000),
    True: Copying(shortest=16, longest=16, both_ways=True, train=100_000, test=2000),
}
WIDTH = (64, 256)
STEPS = (1500, 10_000)
TOKENS = (512, 4096)
RATE = (5e-3, 2e-3)
SEEDS = (3, 3)
ENDS = 3  # the source's first and last third are compared
MARGIN = 0.05  # of the share of right symbols
LEARNT = 0.3  # right symbols in all; guessing has an eighth


def run(effort: Effort) -> Found:
    copying = COPYING[effort.full]
    count = copying.longest
    rows: dict[str, list[list[float]]] = {"written forward": [], "written backward": [], "both": []}
    with TemporaryDirectory() as folder:
        task = copying.load(folder, effort.pick(*TOKENS), device=effort.device)
        for seed in seeds(effort, *SEEDS):
            sizes = {"width": effort.pick(*WIDTH), "steps": effort.pick(*STEPS), "rate": effort.pick(*RATE)}
            model = train(task, "fixed", seed=seed, **sizes)
            found = write(model, task, copying)[count]
            forward = found.right[~found.backward].mean(dim=0).tolist()
            backward = found.right[found.backward].mean(dim=0).flip(0).tolist()  # by place in the source
            rows["written forward"].append(forward)
            rows["written backward"].append(backward)
            rows["both"].append([(a + b) / 2 for a, b in zip(forward, backward, strict=True)])
    third = count // ENDS
    gains = {name: [gain(row, third) for row in each] for name, each in rows.items()}
    # what is written first stands first in forward targets and last in backward ones
    early = [
        float(np.mean(b[-third:]) - np.mean(a[:third]))
        for a, b in zip(rows["written forward"], rows["written backward"], strict=True)
    ]
    late = [
        float(np.mean(a[-third:]) - np.mean(b[:third]))
        for a, b in zip(rows["written forward"], rows["written backward"], strict=True)
    ]
    whole = [float(np.mean(row)) for row in rows["both"]]
    verdict = decide(gains["both"], early, late, whole)
    return Found(
        verdict=verdict,
        summary=(
            f"right symbols of the source's last third less those of its first: {said(gains['both'])}; among those "
            f"written first {said(early)}, among those written last {said(late)}; right in all {said(whole)}"
            + limits(verdict, f"not so among what is written {'first' if np.mean(early) < np.mean(late) else 'last'}")
        ),
        figures={"right by place in the source": rows, "gains": gains, "early": early, "late": late, "right": whole},
        charts=[
            Chart(
                title="What one vector remembers, by place in the source",
                x="place in the source",
                y="share of right symbols",
                lines=lines(rows, range(1, count + 1)),
                level=copying.chance,
                level_name="guessing",
            )
        ],
    )


def gain(right: Sequence[float], part: int) -> float:
    """How much better the last `part` places of the source are known than the first."""
    return float(np.mean(right[-part:]) - np.mean(right[:part]))


def decide(both: Sequence[float], early: Sequence[float], late: Sequence[float], right: Sequence[float]) -> Verdict:
    """From each seed's gain of the end over the beginning: over all, of what is written first, and of the last."""
    if np.mean(right) < LEARNT:
        return Verdict.UNDECIDED
    if min(both) > MARGIN:
        return Verdict.HOLDS if min(np.mean(early), np.mean(late)) >= 0 else Verdict.LIMITS
    return Verdict.FAILS if max(both) <= MARGIN else Verdict.UNDECIDED


CLAIM = Claim(
    id="recency",
    statement="The one vector that stands for a sentence knows more of its end than of its beginning.",
    sources=(
        "Cho et al. 2014, On the Properties of Neural Machine Translation",
        "Sutskever, Vinyals & Le 2014, Sequence to Sequence Learning with Neural Networks",
        "001_56d5b8bda4e4cf77.txt",
    ),
    experiment=(
        "A GRU that begins with its encoder's last state copies random symbols, half of the sentences from their first "
        "symbol on and half from their last; right symbols are counted by their place in the source."
    ),
    decided=(
        "Quick: 6 symbols out of 8, width 64, 1,500 steps of 512 tokens, rate 5e-3; full: 16 symbols, width 256, "
        "10,000 steps of 4,096 tokens, rate 2e-3; 3 seeds. Holds if in every seed the last third of the source is "
        "right by more than .05 more often than the first; within limits if that is so but its mean is below 0 among "
        "the symbols written first or among those written last; does not hold if no seed has more than .05; otherwise "
        "undecided, as where less than .3 of all symbols are right."
    ),
    run=run,
    note=(
        "Where nearly every symbol is right there is little for a vector to favour; the figures say how many were. The "
        "note speaks of very long sources, to which the full form comes nearer."
    ),
)
