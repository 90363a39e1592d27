"""Gated cells against the plain one, on a sum of two numbers that lie far apart."""

from collections.abc import Mapping, Sequence
from typing import Any

from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import bars, curves, said_each, sentence
from .laboratory.floor import Floor
from .laboratory.training import train_seeds

LEARNED = 0.02  # squared error; knowing only the later of the two numbers gives 1/12, neither of them 1/6
GATED = ("lstm", "gru")
PLAIN = "rnn"
CELLS = {"rnn": {}, "lstm": {"forget_bias": 1.0}, "gru": {}}
EASY = 10
FLOOR = Floor(easy=f"at T = {EASY}", figure="squared error", most=LEARNED, models="every cell")
QUICK: dict[str, Any] = {
    "lengths": (100,),
    "rates": {"rnn": (1e-2, 1e-3), "lstm": (1e-2,), "gru": (1e-2,)},
    "run": {"steps": 800, "width": 32, "batch": 32, "eval_rows": 500},
}
FULL: dict[str, Any] = {
    "lengths": (100, 200),
    "rates": {"rnn": (3e-3, 1e-3), "lstm": (3e-3,), "gru": (3e-3,)},
    "run": {"steps": 2000, "width": 64, "batch": 64},
}
SEEDS = 3, 3


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    found: dict[int, dict[str, list[float]]] = {}
    for length in (EASY, *terms["lengths"]):
        found[length] = {}
        for cell, settings in CELLS.items():
            common = terms["run"] | settings | {"layers": 1, "length": length, "split": "test"}
            rates = [train_seeds("adding", cell, effort, SEEDS, lr=lr, **common) for lr in terms["rates"][cell]]
            best = [min(runs, key=lambda run: run.valid) for runs in zip(*rates, strict=True)]
            found[length][cell] = [run.metric for run in best]
    verdict, limits = judge(found)
    effects = "; ".join(f"T = {length}: {said_each(cells, 4)}" for length, cells in found.items())
    return Found(
        verdict=verdict,
        summary=f"Squared error on adding, mean and range over seeds: {effects}. {sentence(limits)}",
        figures={"mse": {str(length): cells for length, cells in found.items()}},
        charts=[
            bars(
                "Adding two numbers that lie far apart",
                "cell",
                "squared error",
                curves({f"T = {length}": cells for length, cells in found.items()}),
                level=1 / 6,
                level_name="always saying 1",
            )
        ],
    )


def judge(found: Mapping[int, Mapping[str, Sequence[float]]]) -> tuple[Verdict, str]:
    """From {T: {cell: squared error of each seed}}."""
    if missing := FLOOR.missing(found[min(found)]):
        return Verdict.NOT_LEARNT, missing

    def all_learn(length: int, cell: str) -> bool:
        return all(error < LEARNED for error in found[length][cell])

    def none_learns(length: int, cell: str) -> bool:
        return all(error >= LEARNED for error in found[length][cell])

    longer = {
        cell: [length for length in found if all_learn(length, cell) and none_learns(length, PLAIN)] for cell in GATED
    }
    good = [cell for cell, lengths in longer.items() if lengths]
    where = "; ".join(
        f"the {cell} learns T = {', '.join(map(str, longer[cell]))}, the plain cell does not" for cell in good
    )
    if len(good) == len(GATED):
        return Verdict.HOLDS, where
    if good:
        other = next(cell for cell in GATED if cell not in good)
        return Verdict.LIMITS, f"{where}; not shown of the {other} in so many steps"
    if any(all_learn(length, PLAIN) and all(none_learns(length, cell) for cell in GATED) for length in found):
        return Verdict.FAILS, "the plain cell learns a lag that the gated ones do not"
    return Verdict.UNDECIDED, "no length that a gated cell learns with every seed and the plain one with none"


def _form(terms: Mapping[str, Any], seeds: int) -> str:
    run = terms["run"]
    rates = ", ".join(f"{cell} {' or '.join(f'{rate:g}' for rate in each)}" for cell, each in terms["rates"].items())
    return (
        f"T = {', '.join(map(str, terms['lengths']))}, width {run['width']}, {run['steps']:,} steps of {run['batch']} "
        f"rows, rates {rates} (of two the better by validation), {seeds} seeds"
    )


CLAIM = Claim(
    statement="Cells with gates (LSTM, GRU) learn longer lags than the plain recurrent cell.",
    sources=(
        "Hochreiter & Schmidhuber 1997, Long Short-Term Memory",
        "Chung 2014, Empirical Evaluation of Gated Recurrent Neural Networks on Sequence Modeling (arXiv 1412.3555)",
        "the overview note: 「由于梯度消失，RNN无法处理长期依赖关系」",
    ),
    experiment="""One layer of each cell is trained to add two marked numbers out of T, asked for at the end. LSTM and
    GRU are judged apart.""",
    decided=f"""{FLOOR} A cell has learnt T when the squared error is below {LEARNED} with every seed (the later number
    alone: 1/12, neither: 1/6). A gated cell learns longer lags when it has learnt a T that the plain one learns with no
    seed. Holds: both do; within limits: one. Does not hold: the plain one learns a T that neither does. Quick:
    {_form(QUICK, SEEDS[0])}. Full: {_form(FULL, SEEDS[1])}. The LSTM's forget gates start at a bias of
    {CELLS["lstm"]["forget_bias"]:g}.""",
    run=run,
    chapter=4,
)
