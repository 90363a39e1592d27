"""Two notes against each other: recurrent networks are good at long sequences, or cannot learn what is far apart.

The first form trained at all gaps from five words on at once, with a distractor between, and the plain cell and the
LSTM stood at chance at every gap, the narrowest included: nothing could be said of length. The gaps now begin at none
and are let in one after the other, without distractors.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import gap_chart, said_each, sentence
from .laboratory.floor import Floor
from .laboratory.gaps import WideningGapTask
from .laboratory.training import by_dial, train_models

CARRIES, LOST = 0.9, 0.5
CELLS: dict[str, dict[str, Any]] = {"rnn": {}, "lstm": {"forget_bias": 1.0}, "gru": {}}
QUICK = {"steps": 1000, "widen": 600, "distance": 80, "width": 64, "batch": 32, "lr": 3e-3, "eval_rows": 300}
FULL = {"steps": 2500, "widen": 1500, "distance": 240, "width": 128, "batch": 32, "lr": 1e-3}
SEEDS = 3, 3
FLOOR = Floor(easy="after 0 words", figure="right answers", least=CARRIES, models="every cell")


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    settings = terms | {"vary": True, "distractors": 0, "layers": 1}
    found = by_dial(train_models(WideningGapTask, CELLS, effort, SEEDS, **settings))
    widest = max(found["rnn"])
    verdict, limits = judge(found)
    last = {cell: each[widest] for cell, each in found.items()}
    return Found(
        verdict=verdict,
        summary=f"Right answers after {widest} words: {said_each(last)}. {sentence(limits)}",
        figures={"accuracy": found},
        charts=[gap_chart("A fact carried by recurrent cells", found)],
    )


def judge(found: Mapping[str, Mapping[int, Sequence[float]]]) -> tuple[Verdict, str]:
    """From {cell: {gap: [accuracy of each seed]}}; the lecture note is the claim, the overview note its contrary."""
    if missing := FLOOR.missing({cell: each[min(each)] for cell, each in found.items()}):
        return Verdict.NOT_LEARNT, missing
    last = {cell: each[max(each)] for cell, each in found.items()}
    carry = [cell for cell, values in last.items() if min(values) >= CARRIES]
    lose = [cell for cell, values in last.items() if max(values) <= LOST]
    if len(carry) == len(last):
        return Verdict.HOLDS, "the lecture note is right of all cells, the overview note of none"
    if len(lose) == len(last):
        return Verdict.FAILS, "the overview note is right of all cells, the lecture note of none"
    if carry:
        rest = f"the overview note of {', '.join(lose)}" if lose else "the overview note of none clearly"
        return Verdict.LIMITS, f"the lecture note is right of {', '.join(carry)}, {rest}"
    return Verdict.UNDECIDED, "neither note is right of a cell with every seed" if not lose else (
        f"the overview note is right of {', '.join(lose)}; of the others neither with every seed"
    )


def _form(terms: Mapping[str, Any], seeds: int) -> str:
    return (
        f"gaps of 0 to {terms['distance']} words, all of them let in by step {terms['widen']:,}, width "
        f"{terms['width']}, {terms['steps']:,} steps of {terms['batch']} rows, rate {terms['lr']:g}, {seeds} seeds"
    )


CLAIM = Claim(
    statement="Recurrent networks are good at long sequences: they carry information over them.",
    sources=(
        "the lecture note: 「非常擅长处理长序列」, which says so",
        "the overview note: 「由于梯度消失，RNN无法处理长期依赖关系」, which says the contrary",
        "Bengio, Simard & Frasconi 1994, Learning long-term dependencies with gradient descent is difficult",
    ),
    experiment="""The plain cell, the LSTM and the GRU learn to answer a question about a fact named before, first right
    after it and then over wider and wider gaps; both notes are judged on the same runs.""",
    decided=f"""{FLOOR} Over the widest gap the lecture note is right of a cell that answers rightly at least {CARRIES}
    of the time with every seed, the overview note of one that does at most {LOST} of the time with every seed. Holds:
    the lecture note is right of all three; within limits: of some; does not hold: the overview note is right of all
    three; else undecided. Quick: {_form(QUICK, SEEDS[0])}. Full: {_form(FULL, SEEDS[1])}.""",
    note="""Both notes are right of something: what a recurrent state can carry, and what training finds. Trained at the
    wide gap alone, the plain cell does not find it (see `long-gap`).""",
    run=run,
    chapter=4,
)
