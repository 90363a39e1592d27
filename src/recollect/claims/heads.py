"""One attention head against several, where several places must be looked at in the same step.

The first form asked for two places at once, where two heads with some seeds had not learnt it and one head with others
had. In trials at other rates, where everything was learnt, one head did two places as well as two heads. How many
places are asked for is now the axis: one, which every number of heads must have learnt, and four. Of four heads without
the feed-forward network one seed of three stays at two places, with more steps and other rates too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..tasks.memory.generator import Rows, Test, everywhere
from ..tasks.memory.task import MemoryTask
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import apart, bars, curves, sentence, show
from .laboratory.floor import Floor
from .laboratory.training import train_seeds

SOLVED, CANNOT, BETTER, EQUAL = 0.95, 0.75, 0.05, 0.02
HEADS = (1, 4)
PLACES = (1, 4)
APART = 3  # steps from one place to the next
BLOCKS = {"attention alone": False, "with feed-forward": True}
QUICK: dict[str, Any] = {"steps": 800, "width": 32, "batch": 32, "lr": 1e-2, "length": 24, "eval_rows": 300}
FULL: dict[str, Any] = {"steps": 1000, "width": 64, "batch": 128, "lr": 3e-3, "length": 64}
SEEDS = 3, 5
FLOOR = Floor(easy=f"of {PLACES[0]} place", figure="right answers", least=SOLVED, models="every number of heads")


@dataclass(frozen=True, kw_only=True)
class ManyPlaces(Test):
    """Symbols; at each step, which stood at so many places before it, as one answer out of all combinations."""

    kind: ClassVar[str] = "many-places"
    dial: ClassVar[str] = "length"

    length: int = 24
    symbols: int = 2
    places: int = 2

    def problem(self) -> str | None:
        if not self.distances[-1] < self.length:
            return f"a length of more than {self.distances[-1]} for {self.places} places, found {self.length}"
        return None

    @property
    def distances(self) -> list[int]:
        return [APART * (number + 1) - 1 for number in range(self.places)]

    @property
    def inputs(self) -> int:
        return self.symbols

    @property
    def outputs(self) -> int:
        return self.symbols**self.places

    @property
    def steps(self) -> int:
        return self.length

    @property
    def judged(self) -> int:
        return self.length - self.distances[-1]

    @property
    def chance(self) -> float:
        return 1 / self.outputs

    def draw(self, rng: np.random.Generator, rows: int) -> Rows:
        x = rng.integers(0, self.symbols, size=(rows, self.length))
        later = np.arange(self.distances[-1], self.length)
        digits = [x[:, later - distance] for distance in self.distances]
        answers = sum(digit * self.symbols**power for power, digit in enumerate(digits))
        return Rows(x, everywhere(rows, self.length, self.distances[-1]), np.asarray(answers))


class ManyPlacesTask(MemoryTask):
    """Telling which symbols stood at several distances before."""

    data_config = ManyPlaces


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    found: dict[str, dict[int, dict[int, list[float]]]] = {}
    params = set()
    for name, feed in BLOCKS.items():
        found[name] = {}
        for places in PLACES:
            found[name][places] = {}
            for heads in HEADS:
                settings = terms | {"layers": 1, "heads": heads, "feed": feed, "places": places}
                runs = train_seeds(ManyPlacesTask, "transformer", effort, SEEDS, **settings)
                found[name][places][heads] = [run.figures["accuracy"] for run in runs]
                params |= {(feed, places, run.figures["params"]) for run in runs}
    verdict, limits = judge(found)
    effects = "; ".join(
        f"{name}, {places} place{'s' * (places > 1)}: "
        + ", ".join(f"{heads} head{'s' * (heads > 1)} {show(values)}" for heads, values in cells.items())
        for name, each in found.items()
        for places, cells in each.items()
    )
    most = PLACES[-1]
    return Found(
        verdict=verdict,
        summary=f"Right answers: {effects}. {sentence(limits)}",
        figures={"accuracy": found, "params": sorted(count for *_, count in params)},
        charts=[
            bars(
                f"{most} places looked up in one step",
                "heads",
                "right answers",
                curves({name: {str(h): each[most][h] for h in HEADS} for name, each in found.items()}),
                level=1 / 2**most,
                level_name="chance",
            )
        ],
    )


def judge(found: Mapping[str, Mapping[int, Mapping[int, Sequence[float]]]]) -> tuple[Verdict, str]:
    """From {block: {places: {heads: [accuracy of each seed]}}}; the verdict is on all blocks."""
    few, most = min(PLACES), max(PLACES)
    one, many = HEADS
    easy = {f"{heads} heads, {name}": each[few][heads] for name, each in found.items() for heads in HEADS}
    if missing := FLOOR.missing(easy):
        return Verdict.NOT_LEARNT, missing
    shown: dict[str, str] = {}
    for name, each in found.items():
        cells = each[most]
        cannot = min(cells[many]) >= SOLVED and max(cells[one]) <= CANNOT
        worse = apart(cells[one], cells[many], BETTER)
        shown[name] = "one head cannot" if cannot else "one head does worse" if worse else "not shown"
    if set(shown.values()) == {"one head cannot"}:
        return Verdict.HOLDS, f"one head cannot do it, {many} can"
    if set(shown.values()) != {"not shown"}:
        return Verdict.LIMITS, "; ".join(f"{name}: {what}" for name, what in shown.items())
    if all(min(each[most][one]) >= max(each[most][many]) - EQUAL for each in found.values()):
        return Verdict.FAILS, "one head does as well"
    return Verdict.UNDECIDED, f"the seeds of {one} and {many} heads overlap"


def _form(terms: Mapping[str, Any], seeds: int) -> str:
    return (
        f"width {terms['width']}, rows of {terms['length']}, {terms['steps']:,} steps of {terms['batch']} rows at rate "
        f"{terms['lr']:g}, {seeds} seeds"
    )


CLAIM = Claim(
    statement="Several attention heads do at once what one head of the same size cannot.",
    sources=(
        "Vaswani 2017, Attention Is All You Need, section 3.2.2 (arXiv 1706.03762)",
        "Michel 2019, Are Sixteen Heads Really Better than One? (arXiv 1905.10650)",
        "the Transformer note: 「分成多个通道去找特征」",
    ),
    experiment=f"""One Transformer block with rotary positions, with and without its feed-forward network, must say at
    each step which of two symbols stood at {PLACES[0]} place and at {PLACES[1]} places {APART} steps apart. One head or
    {HEADS[1]}, with equal parameters: the same projections, cut up.""",
    decided=f"""{FLOOR} Holds: with {PLACES[1]} places, in both blocks {HEADS[1]} heads are right at least {SOLVED} and
    one head at most {CANNOT} of the time with every seed. Within limits: so in one block, or {HEADS[1]} heads are
    better by over {BETTER} for every pair of seeds. Does not hold: one head comes within {EQUAL} of them in both blocks
    with every seed; else undecided. Quick: {_form(QUICK, SEEDS[0])}. Full: {_form(FULL, SEEDS[1])}.""",
    note="""One head could in principle weigh several places unequally and have the sum taken apart again; whether
    training finds that is what is measured. For two places it does: in trials one head did as well as two there, so
    that the verdict is about four.""",
    run=run,
    chapter=9,
)
