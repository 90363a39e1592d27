"""Reading the source from its end, with and without attention.

Reversed, the first symbol to be written is the last that was read. Attention finds it wherever it stands.
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

MODELS = ("fixed", "attend")
COPYING = {False: Copying(shortest=3, longest=8), True: Copying(shortest=3, longest=24, train=100_000)}
LONG = {False: 7, True: 17}  # sources of at least so many symbols are the long ones
WIDTH = (64, 256)
STEPS = (450, 4000)
TOKENS = (512, 4096)
RATE = (5e-3, 2e-3)
SEEDS = (3, 3)
MARGIN = 0.03  # of the share of wrong symbols
UNLEARNT = 0.5


def run(effort: Effort) -> Found:
    copying = COPYING[effort.full]
    lengths = range(copying.shortest, copying.longest + 1)
    errors: dict[str, list[list[float]]] = {label(m, r): [] for m in MODELS for r in (False, True)}
    with TemporaryDirectory() as folder:
        task = copying.load(folder, effort.pick(*TOKENS), device=effort.device)
        for seed in seeds(effort, *SEEDS):
            sizes = {"width": effort.pick(*WIDTH), "steps": effort.pick(*STEPS), "rate": effort.pick(*RATE)}
            for name in MODELS:
                for turned in (False, True):
                    written = write(train(task, name, seed=seed, reverse=turned, **sizes), task, copying)
                    errors[label(name, turned)].append([1 - float(written[n].right.mean()) for n in lengths])
    first = LONG[effort.full] - copying.shortest
    far = {name: [float(np.mean(row[first:])) for row in rows] for name, rows in errors.items()}
    gains = {
        name: [plain - turned for plain, turned in zip(far[label(name, False)], far[label(name, True)], strict=True)]
        for name in MODELS
    }
    verdict = decide(gains, far[label("attend", False)])
    return Found(
        verdict=verdict,
        summary=(
            f"wrong symbols that reversal saves on sources of {LONG[effort.full]} and more: one vector "
            f"{said(gains['fixed'])}, attention {said(gains['attend'])}; wrong without it {said(far['fixed'])} and "
            f"{said(far['attend'])}" + limits(verdict, "attention gains too, though less")
        ),
        figures={"lengths": list(lengths), "errors": errors, "long": far, "gains": gains},
        charts=[
            Chart(
                title="Wrong symbols, with the source read from either end",
                x="symbols of the source",
                y="share of wrong symbols",
                lines=lines(errors, lengths),
                level=1 - copying.chance,
                level_name="guessing",
            )
        ],
    )


def label(model: str, turned: bool) -> str:
    return f"{model}, reversed" if turned else model


def decide(gains: Mapping[str, Sequence[float]], attend: Sequence[float]) -> Verdict:
    """From what reversal saves in each seed, and what attention errs without it."""
    if np.mean(attend) > UNLEARNT:
        return Verdict.UNDECIDED
    if max(gains["fixed"]) <= MARGIN:
        return Verdict.FAILS
    if min(gains["fixed"]) > MARGIN and max(gains["attend"]) <= MARGIN:
        return Verdict.HOLDS
    if min(gains["fixed"]) <= MARGIN:
        return Verdict.UNDECIDED
    return {True: Verdict.LIMITS, False: Verdict.FAILS, None: Verdict.UNDECIDED}[apart(gains["attend"], gains["fixed"])]


CLAIM = Claim(
    id="reverse",
    statement="Reading the source from its end helps a translator without attention, and not one with it.",
    sources=(
        "Sutskever, Vinyals & Le 2014, Sequence to Sequence Learning with Neural Networks",
        "Bahdanau, Cho & Bengio 2015, Neural Machine Translation by Jointly Learning to Align and Translate",
    ),
    experiment=(
        "A GRU that begins with its encoder's last state and one that attends copy random symbols, each with the "
        "source read forward and from its end; the difference is taken on long sources."
    ),
    decided=(
        "Quick: 3 to 8 symbols out of 8, long from 7, width 64, 450 steps of 512 tokens, rate 5e-3; full: 3 to 24 "
        "symbols, long from 17, width 256, 4,000 steps of 4,096 tokens, rate 2e-3; 3 seeds. Holds if reversal saves "
        "more than .03 of the symbols in every seed without attention and at most that in every seed with it; within "
        "limits if attention gains too, but less in every seed; does not hold if no seed without attention gains more "
        "than .03, or attention gains as much; otherwise undecided, as where attention without reversal errs on more "
        "than half."
    ),
    run=run,
    note="Where attention makes no error there is nothing left for reversal to save; the chart shows where that is so.",
)
