"""One vector for a whole sentence: what becomes of it as sentences grow.

Random symbols are copied, so every symbol has to come through whatever joins encoder and decoder. Both models have the
same one-way encoder and the same cell, and were trained on all lengths that they are tested on.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.chart import Chart
from ..tasks.translation.task import TranslationTask
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import slope
from .laboratory.copying import Copying, choose, full_form, lines, quick_form, right, source_lengths, train_each
from .laboratory.figures import apart, decimal, in_words, limits, scientific, show

MODELS = {name: {"model": name} for name in ("fixed", "attend")}
QUICK = quick_form(Copying(shortest=1, longest=10), steps=700)
FULL = full_form(Copying(shortest=1, longest=24, train=100_000), steps=3000)
STEEP = 0.02  # of the error for each further symbol
FLAT = STEEP / 4
SHORT = 3  # symbols: a model that errs on every second one of such sentences has learnt nothing
UNLEARNT = 0.5  # of their symbols


def run(effort: Effort) -> Found:
    form = effort.pick(QUICK, FULL)
    lengths = form.copying.lengths
    errors = train_each(form, MODELS, effort, lambda model, task: [wrong(model, task, length) for length in lengths])
    slopes = {name: [slope(lengths, row)[0] for row in rows] for name, rows in errors.items()}
    near = {name: float(np.mean([row[: SHORT - lengths[0] + 1] for row in rows])) for name, rows in errors.items()}
    verdict = judge(slopes["fixed"], slopes["attend"], max(near.values()))
    end = {name: show([row[-1] for row in rows]) for name, rows in errors.items()}
    return Found(
        verdict=verdict,
        summary=(
            f"share of wrong symbols for each further symbol of the source: one vector {show(slopes['fixed'], 4)}, "
            f"attention {show(slopes['attend'], 4)}; at {lengths[-1]} symbols {end['fixed']} against "
            f"{end['attend']} wrong"
            + limits(
                verdict, f"; the limits: attention is flatter in every seed, but not {FLAT} beside {STEEP} and more"
            )
        ),
        figures={"lengths": list(lengths), "errors": errors, "slopes": slopes, "short": near},
        charts=[
            Chart(
                "Wrong symbols by the length of the source",
                "symbols of the source",
                "share of wrong symbols",
                lines(errors, lengths),
                level=1 - form.copying.chance,
                level_name="guessing",
            )
        ],
    )


def wrong(model: Any, task: TranslationTask, length: int) -> float:
    """The share of wrong symbols in sentences of so many."""
    return 1 - float(right(model, choose(task, source_lengths(task) == length))[:, :length].float().mean())


def judge(fixed: Sequence[float], attend: Sequence[float], short: float) -> Verdict:
    """From the slopes of each seed, and the larger error on short sentences."""
    if short > UNLEARNT:
        return Verdict.NOT_LEARNT
    if min(fixed) >= STEEP and max(attend) <= FLAT:
        return Verdict.HOLDS
    return {True: Verdict.LIMITS, False: Verdict.FAILS, None: Verdict.UNDECIDED}[apart(attend, fixed)]


CLAIM = Claim(
    statement="One vector for a whole sentence serves worse the longer the sentence is, and attention does not.",
    sources=(
        "Bahdanau, Cho & Bengio 2015, Neural Machine Translation by Jointly Learning to Align and Translate",
        "Cho et al. 2014, On the Properties of Neural Machine Translation",
        "the overview note: 「压缩为一个固定维度的向量」",
        "the lecture note: 「难以将一个很长序列的内容打包到一个上下文向量中」",
    ),
    experiment=f"""A GRU that begins with its encoder's last state and one that attends copy random sentences out of
    {QUICK.copying.symbols} symbols; both are trained on all lengths and tested on each, with the reference read so
    far.""",
    decided=f"""Quick: {QUICK.copying}, {QUICK}, rate {scientific(QUICK.rate)}; full: {FULL.copying}, {FULL}, rate
    {scientific(FULL.rate)}; {QUICK.seeds} seeds. The share of wrong symbols is fitted by a line over the length. Holds
    if every seed's slope is at least {decimal(STEEP)} for the one vector and at most {decimal(FLAT)} for attention;
    within limits if only every slope of attention is below every one of the vector; does not hold if it is the other
    way round; undecided where they overlap. Not learnt where either model errs on more than {in_words(UNLEARNT)} of the
    symbols in sentences of up to {SHORT}.""",
    run=run,
    chapter=5,
)
