"""One attention head against several, where two places must be looked at in the same step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..tasks.memory.generator import Rows, Test, everywhere
from ..tasks.memory.task import MemoryTask
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import apart, bars, curves, sentence, show
from .laboratory.training import train_seeds

SOLVED, CANNOT, BETTER, EQUAL = 0.95, 0.75, 0.05, 0.02
HEADS = (1, 2)
QUICK = {"steps": 600, "width": 32, "batch": 32, "lr": 5e-3, "length": 32, "symbols": 4, "eval_rows": 500}
FULL = {"steps": 5000, "width": 64, "batch": 128, "lr": 3e-3, "length": 64, "symbols": 8}
SEEDS = 2, 5


@dataclass(frozen=True, kw_only=True)
class TwoPlaces(Test):
    """Symbols; at each step, which two stood `near` and `far` steps before, as one answer out of all pairs."""

    kind: ClassVar[str] = "two-places"
    dial: ClassVar[str] = "length"

    length: int = 32
    symbols: int = 4
    near: int = 3
    far: int = 7

    def problem(self) -> str | None:
        if not self.near < self.far < self.length:
            return f"near < far < length, found {self.near}, {self.far} and {self.length}"
        return None

    @property
    def inputs(self) -> int:
        return self.symbols

    @property
    def outputs(self) -> int:
        return self.symbols**2

    @property
    def steps(self) -> int:
        return self.length

    @property
    def judged(self) -> int:
        return self.length - self.far

    @property
    def chance(self) -> float:
        return 1 / self.symbols**2

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        x = rng.integers(0, self.symbols, size=(rows, self.length))
        later = np.arange(self.far, self.length)
        answers = x[:, later - self.near] * self.symbols + x[:, later - self.far]
        return Rows(x, everywhere(rows, self.length, self.far), answers)


class TwoPlacesTask(MemoryTask):
    """Telling which two symbols stood at two distances before."""

    data_config = TwoPlaces


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    found: dict[str, dict[int, list[float]]] = {}
    params = set()
    for name, feed in {"attention alone": False, "with feed-forward": True}.items():
        found[name] = {}
        for heads in HEADS:
            settings = terms | {"layers": 1, "heads": heads, "feed": feed}
            runs = train_seeds(TwoPlacesTask, "transformer", effort, SEEDS, **settings)
            found[name][heads] = [run.figures["accuracy"] for run in runs]
            params |= {(feed, run.figures["params"]) for run in runs}
    verdict, limits = judge(found)
    effects = "; ".join(
        f"{name}: " + ", ".join(f"{heads} head{'s' * (heads > 1)} {show(values)}" for heads, values in cells.items())
        for name, cells in found.items()
    )
    return Found(
        verdict=verdict,
        summary=f"Right answers: {effects}. {sentence(limits)}",
        figures={"accuracy": found, "params": sorted(count for _, count in params)},
        charts=[
            bars(
                "Two places looked up in one step",
                "heads",
                "right answers",
                curves({name: {str(heads): cells[heads] for heads in HEADS} for name, cells in found.items()}),
                level=1 / terms["symbols"] ** 2,
                level_name="chance",
            )
        ],
    )


def judge(found: Mapping[str, Mapping[int, Sequence[float]]]) -> tuple[Verdict, str]:
    """From {block: {heads: [accuracy of each seed]}}; the verdict is on all blocks."""
    one, two = HEADS
    shown: dict[str, str] = {}
    for name, cells in found.items():
        cannot = min(cells[two]) >= SOLVED and max(cells[one]) <= CANNOT
        worse = apart(cells[one], cells[two], BETTER)
        shown[name] = "one head cannot" if cannot else "one head does worse" if worse else "not shown"
    if set(shown.values()) == {"one head cannot"}:
        return Verdict.HOLDS, "one head cannot do it, two can"
    if set(shown.values()) != {"not shown"}:
        return Verdict.LIMITS, "; ".join(f"{name}: {what}" for name, what in shown.items())
    if all(min(cells[one]) >= max(cells[two]) - EQUAL for cells in found.values()):
        return Verdict.FAILS, "one head does as well"
    return Verdict.UNDECIDED, "the seeds of one and two heads overlap"


CLAIM = Claim(
    statement="Several attention heads do at once what one head of the same size cannot.",
    sources=(
        "Vaswani 2017, Attention Is All You Need, section 3.2.2 (arXiv 1706.03762)",
        "Michel 2019, Are Sixteen Heads Really Better than One? (arXiv 1905.10650)",
    ),
    experiment=f"""One Transformer block, with and without its feed-forward network, must say at each step which symbols
    stood {TwoPlaces.near} and {TwoPlaces.far} steps before. One head or two, with equal parameters: the same
    projections, cut in two.""",
    decided=f"""Holds: in both blocks two heads are right at least {SOLVED} and one head at most {CANNOT} of the time
    with every seed. Within limits: so in one block, or two heads are better by over {BETTER} for every pair of seeds.
    Does not hold: one head comes within {EQUAL} of two in both blocks with every seed. Quick: width {QUICK["width"]},
    {QUICK["symbols"]} symbols, {QUICK["length"]} steps, rotary positions, {QUICK["steps"]} steps of {QUICK["batch"]}
    rows, {SEEDS[0]} seeds. Full: width {FULL["width"]}, {FULL["symbols"]} symbols, {FULL["length"]} steps,
    {FULL["steps"]:,} steps of {FULL["batch"]} rows, {SEEDS[1]} seeds.""",
    note="""One head could in principle weigh two places unequally and have the sum taken apart again; whether training
    finds that is what is measured.""",
    run=run,
)
