"""Whether the ones so far are odd: a state of one bit that must be kept up at every step.

The first form trained at up to 40 bits with rotary positions, where attention stood at chance after 10 bits, inside
what it was trained at. Without absolute positions it cannot tell "1" from "1 1": any mean of equal values is the same
one. It now has sinusoids, and is trained at up to 8 bits, whose first half it learns: with every seed at a width of 64
and 2,500 steps of 64 rows, not with 1,500 (.85 to 1.00 after 4 bits), nor at a width of 32 with 1,200 of 32 rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.chart import Chart
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import curves, said_each, sentence, show
from .laboratory.floor import Floor
from .laboratory.training import CELLS, by_dial, train_models

TRACKS, LOST = 0.95, 0.6
ATTENTION = "transformer"
BLOCKS: dict[str, Any] = {"layers": 2, "heads": 2, "lr": 2e-3, "positions": "sinusoid"}
MODELS: dict[str, dict[str, Any]] = {
    "rnn": CELLS,
    "gru": CELLS,
    "lstm": CELLS,
    "linear-transformer": BLOCKS,
    "transformer": BLOCKS,
}
QUICK: dict[str, Any] = {
    "run": {"length": 8, "width": 64, "batch": 64, "eval_rows": 500},
    "steps": {"cells": 300, "blocks": 2500},
}
FULL: dict[str, Any] = {
    "run": {"length": 12, "width": 64, "batch": 128, "eval_rows": 1000},
    "steps": {"cells": 800, "blocks": 4000},
}
REACH = 4  # times the longest length that was learnt, asked for in the test
SEEDS = 3, 3
FLOOR = Floor(
    easy="after half as many bits as it was trained at",
    figure="right answers",
    least=0.9,
    models="attention",
)


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    models = {
        model: own | {"steps": terms["steps"]["blocks" if own is BLOCKS else "cells"]} for model, own in MODELS.items()
    }
    found = by_dial(train_models("parity", models, effort, SEEDS, reach=REACH, **terms["run"]), "last")
    longest, half = max(found[ATTENTION]), terms["run"]["length"] // 2
    verdict, limits = judge({model: (each[half], each[longest]) for model, each in found.items()})
    last = {model: each[longest] for model, each in found.items()}
    return Found(
        verdict=verdict,
        summary=(
            f"Right after {longest} bits, learnt at up to {terms['run']['length']}: {said_each(last)}; attention after "
            f"{half}: {show(found[ATTENTION][half])}. {sentence(limits)}"
        ),
        figures={"last": found},
        charts=[
            Chart(
                f"Parity, learnt at up to {terms['run']['length']} bits",
                "bits",
                "right after the last",
                curves(found),
                log_x=True,
                level=0.5,
                level_name="chance",
            )
        ],
    )


def judge(found: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> tuple[Verdict, str]:
    """From {model: (share right inside training, share right after the longest rows), each of every seed}."""
    if missing := FLOOR.missing({ATTENTION: found[ATTENTION][0]}):
        return Verdict.NOT_LEARNT, missing
    far = {model: each[1] for model, each in found.items()}
    learnt = [model for model, each in found.items() if model != ATTENTION and FLOOR.reached(each[0])]
    not_learnt = [model for model in found if model != ATTENTION and model not in learnt]
    if not learnt:
        return Verdict.NOT_LEARNT, f"no recurrence has learnt it {FLOOR.easy}"
    track = [model for model in learnt if min(far[model]) >= TRACKS]
    some = [model for model in learnt if max(far[model]) >= TRACKS and model not in track]
    lost = [model for model in learnt if max(far[model]) <= LOST]
    if min(far[ATTENTION]) >= TRACKS:
        return Verdict.FAILS, "attention tracks it too"
    if max(far[ATTENTION]) > LOST:
        return Verdict.UNDECIDED, "attention tracks it in part"
    told = f"these track it: {', '.join(track) or 'none'}; these do not: {', '.join([*lost, ATTENTION])}"
    told += f"; these had not learnt it and are not compared: {', '.join(not_learnt)}" if not_learnt else ""
    if track:
        return Verdict.HOLDS, told
    if some:
        return Verdict.LIMITS, f"{', '.join(some)} with some seeds only; {told}"
    return (Verdict.FAILS if len(lost) == len(learnt) else Verdict.UNDECIDED), told


def _form(terms: Mapping[str, Any], seeds: int) -> str:
    return (
        f"up to {terms['run']['length']} bits, width {terms['run']['width']}, {terms['steps']['cells']:,} steps for "
        f"cells and {terms['steps']['blocks']:,} for blocks of {terms['run']['batch']} rows, {seeds} seeds"
    )


CLAIM = Claim(
    statement="Some recurrences track a state that attention does not.",
    sources=(
        "Hahn 2020, Theoretical Limitations of Self-Attention in Neural Sequence Models (arXiv 1906.06755)",
        "Delétang 2023, Neural Networks and the Chomsky Hierarchy (arXiv 2207.02098)",
        "Grazzi 2024, Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues (arXiv 2411.12537)",
    ),
    experiment=f"""After each bit, whether the ones so far are odd: learnt at short lengths, asked after {REACH} times
    as many bits.""",
    decided=f"""{FLOOR} A recurrence that has not learnt so much either is named and not compared. A model tracks when
    it is right after the last of the longest rows at least {TRACKS} of the time with every seed, and does not at up to
    {LOST} with every seed. Holds: attention does not and some recurrence does. Within limits: a recurrence does with
    some seeds. Does not hold: attention does too, or no recurrence does. Else undecided. Recurrent cells of one layer
    at rate {CELLS["lr"]}, blocks of {BLOCKS["layers"]} layers with {BLOCKS["heads"]} heads and sinusoids at
    {BLOCKS["lr"]}. Quick: {_form(QUICK, SEEDS[0])}. Full: {_form(FULL, SEEDS[1])}.""",
    note="""Linear attention is a recurrence too. Sums of positive features cannot undo what they added, so that a state
    which must turn over is where it is expected to fail. A sinusoid beyond the lengths of training is new to attention;
    that it then fails is part of what is measured.""",
    run=run,
    chapter=11,
)
