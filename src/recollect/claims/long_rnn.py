"""Two notes against each other: recurrent networks are good at long sequences, or cannot learn what is far apart."""

from collections.abc import Mapping, Sequence

from ..core.chart import Chart
from ._gaps import by_gap
from ._shown import curve, said, sentence
from .claim import Claim, Effort, Found, Verdict

CARRIES, LOST = 0.9, 0.5
CELLS = ("rnn", "lstm", "gru")
QUICK = {"steps": 700, "distance": 80, "distractors": 1, "width": 32, "batch": 32, "eval_rows": 400}
FULL = {"steps": 8000, "distance": 400, "distractors": 1, "width": 128, "batch": 64}
SEEDS = 2, 3


def run(effort: Effort) -> Found:
    found = by_gap(CELLS, effort, effort.pick(QUICK, FULL), SEEDS)
    widest = max(found["rnn"])
    last = {cell: each[widest] for cell, each in found.items()}
    verdict, limits = judge(last)
    effects = ", ".join(f"{cell} {said(values)}" for cell, values in last.items())
    chart = Chart(
        title="A fact carried by recurrent cells",
        x="words between",
        y="right answers",
        lines=[curve(cell, each) for cell, each in found.items()],
        level=1 / 12,
        level_name="chance",
    )
    return Found(
        verdict=verdict,
        summary=f"Right answers after {widest} words: {effects}. {sentence(limits)}",
        figures={"accuracy": found},
        charts=[chart],
    )


def judge(found: Mapping[str, Sequence[float]]) -> tuple[Verdict, str]:
    """From {cell: [accuracy of each seed over the widest gap]}; note 004 is the claim, note 001 its contrary."""
    carry = [cell for cell, values in found.items() if min(values) >= CARRIES]
    lose = [cell for cell, values in found.items() if max(values) <= LOST]
    if len(carry) == len(found):
        return Verdict.HOLDS, "note 004 is right of all three cells, note 001 of none"
    if len(lose) == len(found):
        return Verdict.FAILS, "note 001 is right of all three cells, note 004 of none"
    if carry:
        rest = f"001 of {', '.join(lose)}" if lose else "001 of none clearly"
        return Verdict.LIMITS, f"note 004 is right of {', '.join(carry)}, note {rest}"
    return Verdict.UNDECIDED, "neither note is right of a cell with every seed" if not lose else (
        f"note 001 is right of {', '.join(lose)}; of the others neither with every seed"
    )


CLAIM = Claim(
    id="long-rnn",
    statement="Recurrent networks are good at long sequences: they carry information over them.",
    sources=(
        "004_ae40ae433d185804.txt, which says so",
        "001_56d5b8bda4e4cf77.txt, which says the contrary",
        "Bengio, Simard & Frasconi 1994, Learning long-term dependencies with gradient descent is difficult",
    ),
    experiment="The plain cell, the LSTM and the GRU answer a question about a fact named long before; both notes are "
    "judged on the same runs.",
    decided=f"Over the widest gap note 004 is right of a cell that answers rightly at least {CARRIES} of the time with "
    f"every seed, note 001 of one that does at most {LOST} of the time with every seed. Holds: 004 is right of all "
    "three; within limits: of some; does not hold: 001 is right of all three. Quick: up to 80 words between, width 32, "
    "700 steps of 32 rows, rate 0.01, 2 seeds. Full: up to 400 words, width 128, 8,000 steps of 64 rows, 3 seeds.",
    note="Both notes are right of something: what a recurrent state can carry, and what training finds. That the last "
    "state depends on the whole input does not mean that the dependence can be learnt.",
    run=run,
)
