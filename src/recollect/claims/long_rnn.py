"""Two notes against each other: recurrent networks are good at long sequences, or cannot learn what is far apart."""

from collections.abc import Mapping, Sequence

from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import gap_chart, said_each, sentence
from .laboratory.training import CELLS, GAP_MODELS, by_dial, train_models

CARRIES, LOST = 0.9, 0.5
RNNS = ("rnn", "lstm", "gru")
QUICK = {"steps": 700, "distance": 80, "distractors": 1, "width": 32, "batch": 32, "eval_rows": 400}
FULL = {"steps": 8000, "distance": 400, "distractors": 1, "width": 128, "batch": 64}
SEEDS = 2, 3


def run(effort: Effort) -> Found:
    models = {cell: GAP_MODELS[cell] for cell in RNNS}
    found = by_dial(train_models("gap", models, effort, SEEDS, vary=True, **effort.pick(QUICK, FULL)))
    widest = max(found["rnn"])
    last = {cell: each[widest] for cell, each in found.items()}
    verdict, limits = judge(last)
    return Found(
        verdict=verdict,
        summary=f"Right answers after {widest} words: {said_each(last)}. {sentence(limits)}",
        figures={"accuracy": found},
        charts=[gap_chart("A fact carried by recurrent cells", found)],
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
    statement="Recurrent networks are good at long sequences: they carry information over them.",
    sources=(
        "004_ae40ae433d185804.txt, which says so",
        "001_56d5b8bda4e4cf77.txt, which says the contrary",
        "Bengio, Simard & Frasconi 1994, Learning long-term dependencies with gradient descent is difficult",
    ),
    experiment="""The plain cell, the LSTM and the GRU answer a question about a fact named long before; both notes are
    judged on the same runs.""",
    decided=f"""Over the widest gap note 004 is right of a cell that answers rightly at least {CARRIES} of the time with
    every seed, note 001 of one that does at most {LOST} of the time with every seed. Holds: 004 is right of all three;
    within limits: of some; does not hold: 001 is right of all three. Quick: up to {QUICK["distance"]} words between,
    width {QUICK["width"]}, {QUICK["steps"]} steps of {QUICK["batch"]} rows, rate {CELLS["lr"]}, {SEEDS[0]} seeds. Full:
    up to {FULL["distance"]} words, width {FULL["width"]}, {FULL["steps"]:,} steps of {FULL["batch"]} rows, {SEEDS[1]}
    seeds.""",
    note="""Both notes are right of something: what a recurrent state can carry, and what training finds. That the last
    state depends on the whole input does not mean that the dependence can be learnt.""",
    run=run,
)
