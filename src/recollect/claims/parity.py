"""Whether the ones so far are odd: a state of one bit that must be kept up at every step."""

from collections.abc import Mapping, Sequence

from ..core.chart import Chart
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import curves, said_each, sentence
from .laboratory.training import BLOCKS, CELLS, by_dial, train_models

TRACKS, LOST = 0.95, 0.6
ATTENTION = "transformer"
MODELS = {
    "rnn": CELLS,
    "gru": CELLS,
    "lstm": CELLS,
    "linear-transformer": BLOCKS,
    "ttt-linear": BLOCKS,
    "transformer": BLOCKS,
}
QUICK = {"steps": 300, "length": 40, "width": 32, "batch": 32, "eval_rows": 200}
FULL = {"steps": 5000, "length": 40, "width": 64, "batch": 128, "eval_rows": 1000}
REACH = 4  # times the longest length that was learnt, asked for in the test
SEEDS = 2, 3


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    found = by_dial(train_models("parity", MODELS, effort, SEEDS, reach=REACH, **terms), "last")
    longest = max(found[ATTENTION])
    last = {model: each[longest] for model, each in found.items()}
    verdict, limits = judge(last)
    return Found(
        verdict=verdict,
        summary=(
            f"Right after {longest} bits, learnt at up to {terms['length']}: {said_each(last)}. {sentence(limits)}"
        ),
        figures={"last": found},
        charts=[
            Chart(
                f"Parity, learnt at up to {terms['length']} bits",
                "bits",
                "right after the last",
                curves(found),
                log_x=True,
                level=0.5,
                level_name="chance",
            )
        ],
    )


def judge(found: Mapping[str, Sequence[float]]) -> tuple[Verdict, str]:
    """From {model: [share right after the last bit of the longest rows, of each seed]}."""
    others = {model: values for model, values in found.items() if model != ATTENTION}
    track = [model for model, values in others.items() if min(values) >= TRACKS]
    some = [model for model, values in others.items() if max(values) >= TRACKS and model not in track]
    lost = [model for model, values in others.items() if max(values) <= LOST]
    if min(found[ATTENTION]) >= TRACKS:
        return Verdict.FAILS, "attention tracks it too"
    if max(found[ATTENTION]) > LOST:
        return Verdict.UNDECIDED, "attention tracks it in part"
    told = f"these track it: {', '.join(track) or 'none'}; these do not: {', '.join([*lost, ATTENTION])}"
    if track:
        return Verdict.HOLDS, told
    if some:
        return Verdict.LIMITS, f"{', '.join(some)} with some seeds only; {told}"
    return Verdict.UNDECIDED, told


CLAIM = Claim(
    statement="Some recurrences track a state that attention does not.",
    sources=(
        "Hahn 2020, Theoretical Limitations of Self-Attention in Neural Sequence Models (arXiv 1906.06755)",
        "Delétang 2023, Neural Networks and the Chomsky Hierarchy (arXiv 2207.02098)",
        "Grazzi 2024, Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues (arXiv 2411.12537)",
    ),
    experiment=f"""After each bit, whether the ones so far are odd: learnt at lengths up to {QUICK["length"]}, asked
    after {QUICK["length"] * REACH}.""",
    decided=f"""A model tracks when it is right after the last of {QUICK["length"] * REACH} bits at least {TRACKS} of
    the time with every seed, and does not at up to {LOST} with every seed. Holds: attention does not and some
    recurrence does. Within limits: a recurrence does with some seeds. Does not hold: attention does too. Quick:
    recurrent cells of one layer at rate {CELLS["lr"]}, blocks of two layers with {BLOCKS["heads"]} heads at
    {BLOCKS["lr"]}, width {QUICK["width"]}, {QUICK["steps"]} steps of {QUICK["batch"]} rows, {SEEDS[0]} seeds. Full:
    width {FULL["width"]}, {FULL["steps"]:,} steps of {FULL["batch"]} rows, {SEEDS[1]} seeds.""",
    note="""Linear attention and TTT are recurrences too. Sums of positive features cannot undo what they added, so that
    a state which must turn over is where they are expected to fail.""",
    run=run,
)
