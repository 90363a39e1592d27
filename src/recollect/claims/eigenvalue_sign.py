"""Parity by the dials: the same layer with eigenvalues from 0 to 1, and with eigenvalues from −1 to 1.

The first form trained at up to 8 bits for 600 steps, with what is read normalised, and its floor was .7 after 2 bits,
which who never counts reaches: three of four rows of two bits. Layers with positive eigenvalues stayed there, so that
nothing was compared. A normalised read loses the size of the state, which is all that a count leaves in it; without
that, and at up to 4 bits, all four layers learn what they are trained at with a first seed and 1,200 steps. There are
2,000 now, since mamba2 with signed eigenvalues was right after 16 bits .84 of the time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.chart import Chart
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import curves, said_each, sentence
from .laboratory.floor import Floor
from .laboratory.training import by_dial, train_models

TRACKS, LOST = 0.95, 0.65
FAMILIES: dict[str, dict[str, dict[str, Any]]] = {  # each with the dial that keeps eigenvalues positive, and without
    "delta": {"β in (0, 1)": {"beta": 1.0}, "β in (0, 2)": {"beta": 2.0}},
    "mamba2": {"α in (0, 1)": {"signed": False}, "α in (−1, 1)": {"signed": True}},
}
QUICK: dict[str, Any] = {
    "run": {
        "steps": 2000, "length": 4, "width": 32, "heads": 4, "layers": 1, "batch": 64, "lr": 1e-2, "eval_rows": 500,
        "out_norm": False,
    },
}  # fmt: skip
FULL: dict[str, Any] = {
    "run": {
        "steps": 10_000, "length": 8, "width": 64, "heads": 4, "layers": 1, "batch": 256, "lr": 3e-3,
        "eval_rows": 2000, "out_norm": False,
    },
}  # fmt: skip
REACH = 4  # times the longest length that was learnt, asked for in the test
SEEDS = 2, 3
FLOOR = Floor(
    easy="after half as many bits as it was trained at",
    figure="right answers",
    least=0.9,
    models="every model",
)


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    models = {f"{name}, {dial}": {"model": name} | own for name, two in FAMILIES.items() for dial, own in two.items()}
    found = by_dial(train_models("parity", models, effort, SEEDS, vary=True, reach=REACH, **terms["run"]), "last")
    longest, easy = terms["run"]["length"] * REACH, terms["run"]["length"] // 2
    last = {model: each[longest] for model, each in found.items()}
    verdict, told = judge({model: (each[easy], each[longest]) for model, each in found.items()})
    return Found(
        verdict=verdict,
        summary=(
            f"Right after {longest} bits, learnt at up to {terms['run']['length']}: {said_each(last)}; after {easy}: "
            f"{said_each({model: each[easy] for model, each in found.items()})}. {sentence(told)}"
        ),
        figures={"last": found},
        charts=[
            Chart(
                f"Parity by the dials, learnt at up to {terms['run']['length']} bits",
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
    """From {model: (share right at the easy end, share right after the longest rows), each of every seed}."""
    if missing := FLOOR.missing({model: easy for model, (easy, _) in found.items()}):
        return Verdict.NOT_LEARNT, missing
    shows, fails = [], []
    for family, dials in FAMILIES.items():
        positive, signed = (found[f"{family}, {dial}"][1] for dial in dials)
        if min(signed) >= TRACKS and max(positive) <= LOST:
            shows.append(family)
        elif min(positive) >= TRACKS or max(signed) <= LOST:
            fails.append(family)
    if len(shows) == len(FAMILIES):
        return Verdict.HOLDS, "in both families the dial decides"
    if shows:
        return Verdict.LIMITS, f"the dial decides in {', '.join(shows)}"
    return (Verdict.FAILS if len(fails) == len(FAMILIES) else Verdict.UNDECIDED), "the dial decides in neither family"


def _form(terms: Mapping[str, Any], seeds: int) -> str:
    own = terms["run"]
    return (
        f"up to {own['length']} bits, {own['layers']} {'layer' if own['layers'] == 1 else 'layers'} of {own['width']} "
        f"with {own['heads']} heads whose read is not normalised, {own['steps']:,} steps of {own['batch']} rows, rate "
        f"{own['lr']:g}, {seeds} seeds"
    )


CLAIM = Claim(
    statement="""A linear recurrence counts parity beyond what it was trained at only where its eigenvalues can be
    negative: the dial decides, not the family.""",
    sources=(
        "Grazzi 2024, Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues (arXiv 2411.12537)",
        "Sarrof 2024, The Expressive Capacity of State Space Models (arXiv 2405.17394)",
    ),
    experiment=f"""After each bit, whether the ones so far are odd: learnt at short lengths, asked after {REACH} times
    as many bits, by two families of layers, each with one dial at its two settings.""",
    decided=f"""{FLOOR} A family shows it when with every seed its layer with signed eigenvalues is right after the last
    of the longest rows at least {TRACKS} of the time, and the one with positive eigenvalues at most {LOST}. Holds if
    both families show it; within limits if one does; does not hold if in both the layer with positive eigenvalues
    counts too, or the other does not; else undecided. Quick: {_form(QUICK, SEEDS[0])}. Full:
    {_form(FULL, SEEDS[1])}.""",
    note="""At the easy end few bits are asked about, and any memory that tells their few rows apart is right. With
    positive eigenvalues a state can only shrink towards what it is given, so that what a further one does to it becomes
    smaller than the arithmetic can show.""",
    run=run,
    chapter=13,
)
