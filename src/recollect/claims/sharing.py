"""One set of weights for all steps, or one for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..core.contract import Cell, Cost, Memory
from ..models import classifier
from ..models.size import parameters
from ..tasks.memory.data import Adding
from ..tasks.memory.generator import Rows
from ..tasks.memory.settings import Config
from ..tasks.memory.task import AddingTask
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import apart, bars, curves, sentence, show
from .laboratory.floor import Floor
from .laboratory.training import fit

WAYS = {"shared": True, "a set for each step": False, "a set for each step, narrow": False}
SHARED, OWN, NARROW = WAYS
QUICK = {"rows": 200, "length": 12, "width": 16, "narrow": 4, "steps": 600, "batch": 50}
FULL = {"rows": 1000, "length": 24, "width": 32, "narrow": 6, "steps": 5000, "batch": 100}
RATE = 5e-3
FLOOR = Floor(
    easy="on the rows it learns from", figure="squared error", most=1 / 24, models="each of the two wide ones"
)
SEEDS = 3, 5


class State(NamedTuple):
    h: Tensor  # B W
    clock: Tensor  # B, int64


class Untied(Cell[State]):
    """A plain recurrent cell that has weights of its own at every step: h ← tanh(W_t x + U_t h + b_t)."""

    def __init__(self, dim: int, width: int, steps: int) -> None:
        super().__init__()
        self.dim, self.width = dim, width
        bound = width**-0.5  # as the shared cell starts
        self.weight = nn.Parameter(torch.empty(steps, width, dim + width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(steps, width).uniform_(-bound, bound))

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> State:
        like = self.like(like)
        return State(like.new_zeros(batch, self.width), torch.zeros(batch, dtype=torch.int64, device=like.device))

    def update(self, state: State, x: Tensor) -> State:
        both = torch.cat([x, state.h], dim=1)[..., None]  # B D+W 1
        h = torch.tanh((self.weight[state.clock] @ both)[..., 0] + self.bias[state.clock])
        return State(h, state.clock + 1)

    def read(self, state: State, x: Tensor) -> Tensor:
        return state.h.clone()

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        flops = 2 * batch * steps * self.width * (self.dim + self.width)
        return Cost(flops, batch * (self.width * self.element_size() + 8))


@dataclass(frozen=True, kw_only=True)
class FewRows(Adding):
    """Adding with `rows` rows to learn from, drawn once by `pool`; validation as ever."""

    kind: ClassVar[str] = "adding"
    rows: int = 200
    pool: int = 1

    def batch(self, part: str, seed: int, number: int, rows: int) -> Rows:
        if part != "train":
            return super().batch(part, seed, number, rows)
        known = super().batch(part, self.pool, 0, self.rows)
        chosen = np.random.default_rng([seed, number]).permutation(self.rows)[:rows]
        return Rows(*(array[chosen] for array in known))


class Fitted(NamedTuple):
    train: float  # squared error on the rows that it learnt from
    valid: float
    params: int


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    found = {way: [learn(way, seed, effort.device, terms) for seed in effort.seed_range(*SEEDS)] for way in WAYS}
    gaps = {way: [each.valid - each.train for each in runs] for way, runs in found.items()}
    errors = {way: [each.valid for each in runs] for way, runs in found.items()}
    learnt = {way: [each.train for each in runs] for way, runs in found.items()}
    params = {way: runs[0].params for way, runs in found.items()}
    verdict, limits = judge(params, gaps, errors, {way: learnt[way] for way in (SHARED, OWN)})
    effects = "; ".join(
        f"{way} ({params[way]:,} parameters): validation {show(errors[way], 4)}, of which above training "
        f"{show(gaps[way], 4)}"
        for way in WAYS
    )
    return Found(
        verdict=verdict,
        summary=f"Squared error: {effects}. {sentence(limits)}",
        figures={way: [each._asdict() for each in runs] for way, runs in found.items()},
        charts=[
            bars(
                f"Adding, learnt from {terms['rows']} rows",
                "weights",
                "squared error",
                curves({"training": learnt, "validation": errors}),
                level=1 / 6,
                level_name="always saying 1",
            )
        ],
    )


def learn(way: str, seed: int, device: str, terms: Mapping[str, int]) -> Fitted:
    """One model, trained on a pool of its own."""
    test = FewRows(length=terms["length"], rows=terms["rows"], pool=seed + 1)
    width = terms["narrow" if way == NARROW else "width"]

    def build() -> Any:
        shape = {"inputs": test.inputs, "outputs": test.outputs, "tokens": False, "pool": "each"}
        model = classifier.Config(model="rnn", width=width, layers=1, **shape).build()
        if not WAYS[way]:
            model.body.layers[0] = Untied(width, width, test.length)
        return model

    task = AddingTask(Config(batch=terms["batch"], eval_rows=terms["rows"]), test, device)
    steps = terms["steps"]
    model = fit(task, build, steps=steps, rate=RATE, seed=seed, device=device, warmup=steps // 10)
    errors = {split: float(task.judge(model, split, test.value).losses.mean()) for split in ("train", "valid")}
    return Fitted(errors["train"], errors["valid"], parameters(model))


def judge(
    params: Mapping[str, int],
    gaps: Mapping[str, Sequence[float]],
    errors: Mapping[str, Sequence[float]],
    learnt: Mapping[str, Sequence[float]],
) -> tuple[Verdict, str]:
    """From the parameters, how far validation lies above training, its error, and the error of training."""
    if missing := FLOOR.missing(learnt):
        return Verdict.NOT_LEARNT, missing
    if params[SHARED] >= params[OWN]:
        return Verdict.FAILS, "sharing saves no parameters"
    less = apart(gaps[SHARED], gaps[OWN])
    better = apart(errors[SHARED], errors[OWN])
    narrow = apart(errors[SHARED], errors[NARROW])
    equal = "and errs less than" if narrow else "not shown against"
    equal += " own weights of as many parameters"
    if less and better:
        return Verdict.HOLDS, f"sharing overfits less; {equal}"
    if less is False:
        return Verdict.FAILS, "shared weights overfit at least as much"
    if less or better:
        return Verdict.LIMITS, "fewer parameters; " + (
            "less overfitting" if less else "a lower error, not less overfitting"
        )
    return Verdict.UNDECIDED, "fewer parameters, but seeds overlap"


CLAIM = Claim(
    statement="Sharing weights over time lowers the number of parameters and the overfitting.",
    sources=("Goodfellow 2016, Deep Learning, chapter 10", "the overview note: 「可以减少模型参数量，降低过拟合风险」"),
    experiment="""Plain recurrent cells, one with the same weights at every step and one with a set for each, learn
    to add two marked numbers from few rows; a narrow one with own weights has about as many parameters as the
    shared one.""",
    decided=f"""{FLOOR} Overfitting is the squared error on fresh rows less that on the rows learnt from. Holds: fewer
    parameters, and for every pair of seeds less overfitting and a lower error on fresh rows. Within limits: one of the
    two. Does not hold: at least as much overfitting for every pair of seeds. Quick: {QUICK["rows"]} rows of
    {QUICK["length"]} steps, width {QUICK["width"]} (narrow: {QUICK["narrow"]}), {QUICK["steps"]} steps of
    {QUICK["batch"]} rows, {SEEDS[0]} seeds. Full: {FULL["rows"]:,} rows of {FULL["length"]} steps, width
    {FULL["width"]} (narrow: {FULL["narrow"]}), {FULL["steps"]:,} steps of {FULL["batch"]}, {SEEDS[1]} seeds. Rate
    {RATE}, no weight decay, last weights.""",
    note="""The note also counts sharing among the drawbacks, as if each word then had the same weight in the sum.
    Shared weights are one rule for every step; how much a word changes the state still depends on the word and the
    state.""",
    run=run,
    chapter=2,
)
