"""How much a decoder still knows of the source when it has written for a while.

Random symbols are copied after none, one or many other words and a sign to begin. Whenever it comes, the same symbols
are asked for in the same order, so that nothing differs between early and late but what was written in between; and no
word that was written says anything about a symbol that is still to come.

The first form of this experiment exchanged the source under a decoder that copied 8 symbols from either end, and looked
at how far its forecasts moved by their place in the target. One vector had only half of those symbols right, the choice
of direction was made at the start, and each place asked for other symbols: early and late could not be compared.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from ..core.chart import Chart
from ..tasks.translation.task import TranslationTask
from ._copying import FORWARD, Copying, lines, train
from ._limits import limits
from ._shown import said
from ._trained import seeds
from .claim import Claim, Effort, Found, Verdict, apart

MODELS = ("fixed", "context", "attend")
OTHER_WORDS = "wxyz"
QUARTER = 4  # the fewest and the most other words are compared, a quarter of all numbers each
MARGIN = 0.05  # of the share of right symbols
LEARNT = 0.9  # right symbols after the fewest other words, at least


@dataclass(frozen=True, kw_only=True)
class Waiting(Copying):
    """Sentences that are copied after 0 to `idle` other words and a sign to begin."""

    idle: int

    def _line(self, draw: random.Random, length: int) -> str:
        words = [chr(ord("a") + draw.randrange(self.symbols)) for _ in range(length)]
        before = [draw.choice(OTHER_WORDS) for _ in range(draw.randint(0, self.idle))]
        return f"{' '.join(words)}\t{' '.join([*before, FORWARD, *words])}"


WAITING = {
    False: Waiting(shortest=4, longest=4, idle=11, test=3000),
    True: Waiting(shortest=8, longest=8, idle=95, train=100_000, test=10_000),
}
WIDTH = (64, 256)
STEPS = (900, 10_000)
TOKENS = (512, 4096)
RATE = (5e-3, 2e-3)
SEEDS = (3, 3)


def run(effort: Effort) -> Found:
    waiting = WAITING[effort.full]
    right: dict[str, list[list[float]]] = {model: [] for model in MODELS}
    with TemporaryDirectory() as folder:
        task = waiting.load(folder, effort.pick(*TOKENS), device=effort.device)
        for seed in seeds(effort, *SEEDS):
            sizes = {"width": effort.pick(*WIDTH), "steps": effort.pick(*STEPS), "rate": effort.pick(*RATE)}
            for name in MODELS:
                right[name].append(after(train(task, name, seed=seed, **sizes), task, waiting))
    part = (waiting.idle + 1) // QUARTER
    first = {name: [float(np.mean(row[:part])) for row in rows] for name, rows in right.items()}
    last = {name: [float(np.mean(row[-part:])) for row in rows] for name, rows in right.items()}
    losses = {name: [a - b for a, b in zip(first[name], last[name], strict=True)] for name in MODELS}
    verdict = decide(losses, first)
    helped = [name for name in MODELS[1:] if apart(losses[name], losses["fixed"], MARGIN)]
    return Found(
        verdict=verdict,
        summary=(
            f"right symbols after 0 to {part - 1} other words, less those after {waiting.idle + 1 - part} to "
            f"{waiting.idle}: "
            + ", ".join(f"{name} {said(losses[name])} of {said(first[name])}" for name in MODELS)
            + limits(verdict, f"only {' and '.join(helped)} loses less than fixed")
        ),
        figures={"right by words before": right, "first quarter": first, "last quarter": last, "loss": losses},
        charts=[
            Chart(
                title="What a decoder still knows of the source",
                x="other words written before",
                y="share of right symbols",
                lines=lines(right, range(waiting.idle + 1)),
                level=waiting.chance,
                level_name="guessing",
            )
        ],
    )


@torch.no_grad()
def after(model: Any, task: TranslationTask, waiting: Waiting) -> list[float]:
    """The share of right symbols after 0, 1, … other words, with the reference read so far."""
    pairs, target = task.pairs("test"), task.data.target
    counts = np.asarray(pairs.target_lengths) - waiting.longest - 1  # less the symbols and the sign to begin
    found = []
    for count in range(waiting.idle + 1):
        batch = task.batch(pairs, np.flatnonzero(counts == count))
        said_there = model(batch.x, memory=model.encode(batch.source, batch.lengths))[0].argmax(dim=-1)
        judged = slice(count + 1, count + 1 + waiting.longest)
        assert (batch.y[:, count] == int(target.encode(FORWARD)[0])).all()
        found.append(float((said_there == batch.y)[:, judged].double().mean()))
    return found


def decide(losses: Mapping[str, Sequence[float]], first: Mapping[str, Sequence[float]]) -> Verdict:
    """From each seed's loss of right symbols between few and many other words, and what was right after few."""
    if min(min(each) for each in first.values()) < LEARNT:
        return Verdict.UNDECIDED
    if max(losses["fixed"]) <= MARGIN:
        return Verdict.FAILS
    helped = [apart(losses[name], losses["fixed"], MARGIN) for name in MODELS[1:]]
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
        "Three GRU decoders copy random symbols after none to many other words: one hears of the source in its first "
        "state, one at every step, one attends. Right symbols are counted by the number of words written before."
    ),
    decided=(
        "Quick: 4 symbols out of 8 after 0 to 11 other words, width 64, 900 steps of 512 tokens, rate 5e-3; full: 8 "
        "symbols after 0 to 95, width 256, 10,000 steps of 4,096 tokens, rate 2e-3; 3 seeds. The loss is the share of "
        "right symbols in the quarter with the fewest other words less that in the quarter with the most. Holds if it "
        "is above .05 in every seed of `fixed` and every loss of `context` and of `attend` is by .05 below all of "
        "those; within limits if that is so of only one of them; does not hold if no seed of `fixed` loses more than "
        ".05 or neither of the others loses less; otherwise undecided, as where some seed of any of the three has less "
        "than .9 right in the first quarter."
    ),
    run=run,
    note=(
        "The note describes a decoder that hears of the source only in its first state, which is Sutskever et al.'s "
        "(2014), beside the formulas of Cho et al. (2014), whose decoder hears of it at every step. In the second of "
        "them the word follows from the state of its own step: P(y_t | …) = g(h_t, y_{t−1}, c), not from h_{t−1}. "
        "The verdict is about as many other words as there were in training. An earlier form of this experiment did "
        "not hold, but could not tell early from late: one vector had .54 of the symbols right, and each place of the "
        "target asked for other ones. It was redesigned for that reason."
    ),
)
