"""One vector for a whole sentence: what becomes of it as sentences grow.

Random symbols are copied, so every symbol has to come through whatever joins encoder and decoder. Both models have the
same one-way encoder and the same cell, and were trained on all lengths that they are tested on.
"""

from collections.abc import Sequence
from tempfile import TemporaryDirectory

import numpy as np

from ..core.chart import Chart
from ._copying import Copying, lines, train, write
from ._fit import slope
from ._limits import limits
from ._shown import said
from ._trained import seeds
from .claim import Claim, Effort, Found, Verdict, apart

MODELS = ("fixed", "attend")
COPYING = {False: Copying(shortest=1, longest=10), True: Copying(shortest=1, longest=24, train=100_000)}  # by full
WIDTH = (64, 256)  # quick, full
STEPS = (700, 6000)
TOKENS = (512, 4096)
RATE = (5e-3, 2e-3)
SEEDS = (3, 3)
STEEP = 0.02  # of the error for each further symbol
FLAT = STEEP / 4
SHORT = 3  # symbols: a model that errs on every second one of such sentences has learnt nothing
UNLEARNT = 0.5


def run(effort: Effort) -> Found:
    copying = COPYING[effort.full]
    lengths = range(copying.shortest, copying.longest + 1)
    errors: dict[str, list[list[float]]] = {model: [] for model in MODELS}
    with TemporaryDirectory() as folder:
        task = copying.load(folder, effort.pick(*TOKENS), device=effort.device)
        for seed in seeds(effort, *SEEDS):
            for name in MODELS:
                model = train(
                    task,
                    name,
                    width=effort.pick(*WIDTH),
                    steps=effort.pick(*STEPS),
                    rate=effort.pick(*RATE),
                    seed=seed,
                )
                written = write(model, task, copying)
                errors[name].append([1 - float(written[length].right.mean()) for length in lengths])
    slopes = {name: [slope(lengths, row)[0] for row in rows] for name, rows in errors.items()}
    near = {
        name: float(np.mean([row[: SHORT - copying.shortest + 1] for row in rows])) for name, rows in errors.items()
    }
    verdict = decide(slopes["fixed"], slopes["attend"], max(near.values()))
    end = {name: said([row[-1] for row in rows]) for name, rows in errors.items()}
    return Found(
        verdict=verdict,
        summary=(
            f"share of wrong symbols for each further symbol of the source: one vector {said(slopes['fixed'], 4)}, "
            f"attention {said(slopes['attend'], 4)}; at {copying.longest} symbols {end['fixed']} against "
            f"{end['attend']} wrong"
            + limits(verdict, f"attention is flatter in every seed, but not {FLAT} beside {STEEP} and more")
        ),
        figures={"lengths": list(lengths), "errors": errors, "slopes": slopes, "short": near},
        charts=[
            Chart(
                title="Wrong symbols by the length of the source",
                x="symbols of the source",
                y="share of wrong symbols",
                lines=lines(errors, lengths),
                level=1 - copying.chance,
                level_name="guessing",
            )
        ],
    )


def decide(fixed: Sequence[float], attend: Sequence[float], short: float) -> Verdict:
    """From the slopes of each seed, and the larger error on short sentences."""
    if short > UNLEARNT:
        return Verdict.UNDECIDED
    if min(fixed) >= STEEP and max(attend) <= FLAT:
        return Verdict.HOLDS
    return {True: Verdict.LIMITS, False: Verdict.FAILS, None: Verdict.UNDECIDED}[apart(attend, fixed)]


CLAIM = Claim(
    id="bottleneck",
    statement="One vector for a whole sentence serves worse the longer the sentence is, and attention does not.",
    sources=(
        "Bahdanau, Cho & Bengio 2015, Neural Machine Translation by Jointly Learning to Align and Translate",
        "Cho et al. 2014, On the Properties of Neural Machine Translation",
        "001_56d5b8bda4e4cf77.txt",
        "004_ae40ae433d185804.txt",
    ),
    experiment=(
        "A GRU that begins with its encoder's last state and one that attends copy random sentences out of 8 symbols; "
        "both are trained on all lengths and tested on each, with the reference read so far."
    ),
    decided=(
        "Quick: 1 to 10 symbols, width 64, 700 steps of 512 tokens, rate 5e-3; full: 1 to 24 symbols, width 256, 6,000 "
        "steps of 4,096 tokens, rate 2e-3; 3 seeds. The share of wrong symbols is fitted by a line over the length. "
        "Holds if every seed's slope is at least .02 for the one vector and at most .005 for attention; within limits "
        "if only every slope of attention is below every one of the vector; does not hold if it is the other way "
        "round; undecided where they overlap, or where either model errs on more than half of the symbols in sentences "
        "of up to 3."
    ),
    run=run,
)
