"""Four ways to cut backpropagation through time: what each costs, and what it buys.

The first form read real text alone, where no cut hurts, and its memory was that of a loop of its own: the trainer kept
every segment until the end of the window. Now a second text has nothing to learn but what a cut of the gradient loses,
and all is measured in the trainer.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import log
from statistics import fmean
from typing import Any, get_args

import numpy as np

from ..core.bptt import BpttName
from ..core.chart import Line
from ..measure import estimators
from ..models import language
from ..tasks.text.task import TextTask
from ..training.loop import Trainer
from ..training.settings import Settings
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import peak_kept_bytes
from .laboratory.figures import bars, curve, curves, said_each, sentence
from .laboratory.floor import Floor
from .laboratory.training import Trained, fit, token_task, try_train

KINDS: tuple[BpttName, ...] = get_args(BpttName)
KEYS, WAIT, ASK = "ab", ".", "?"
LETTERS = KEYS + WAIT + ASK
QUICK: dict[str, Any] = {
    "run": {"steps": 200, "width": 64, "context": 64, "batch": 16, "segment": 16, "eval_tokens": 20_000},
    "margin": 0.05,
    "batches": 60,
    "lags": {2: 150, 8: 350},  # steps of carrying, and of training
    "carry": {"width": 64, "context": 32, "batch": 32, "segment": 4, "rate": 1e-2},
}
FULL: dict[str, Any] = {
    "run": {"steps": 4000, "width": 256, "context": 128, "batch": 32, "segment": 16},
    "margin": 0.02,
    "batches": 400,
    "lags": {2: 300, 8: 1000, 12: 3000},
    "carry": {"width": 128, "context": 64, "batch": 64, "segment": 4, "rate": 5e-3},
}
COMMON = {"layers": 1, "windows": "random", "lr": 3e-3, "cut": 0.5}
SEEDS = 3, 3
CARRY_MARGIN = 0.25  # of the answer's nats
NEAR = Floor(
    easy=f"over {min(QUICK['lags'])} steps", figure="of the answer's nats lost", most=0.1, models="every gradient"
)
FAR = replace(NEAR, easy="over the most steps", models="the full gradient")


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    runs: dict[str, list[Trained]] = {kind: [] for kind in KINDS}
    lost: dict[int, dict[str, list[float]]] = {lag: {kind: [] for kind in KINDS} for lag in terms["lags"]}
    stopped = dict.fromkeys(KINDS, 0)
    for seed in effort.seed_range(*SEEDS):
        for kind in KINDS:
            found = try_train("text", "rnn", seed=seed, device=effort.device, bptt=kind, **COMMON | terms["run"])
            if found is None:
                stopped[kind] += 1
            else:
                runs[kind].append(found)
            for lag, steps in terms["lags"].items():
                lost[lag][kind].append(carry(kind, lag, steps, seed, effort.device, **terms["carry"]))
    losses = {kind: [found.metric for found in each] for kind, each in runs.items()}
    seconds = {kind: [found.figures["seconds"] for found in each] for kind, each in runs.items()}
    norms = {
        kind: [max(row["norm"] for row in found.curve if "norm" in row) for found in each]
        for kind, each in runs.items()
    }
    full = runs["full"][-1] if runs["full"] else None
    kept = {kind: 0 if full is None else saved_bytes(full, kind) for kind in KINDS}
    quality = {} if full is None else judge_estimators(full, terms)
    verdict, limits = judge(losses, lost, kept, terms["margin"])
    ratio = kept["full"] / max(1, kept["truncated"])
    measured = {kind: values for kind, values in losses.items() if values}
    times = ", ".join(f"{kind} {fmean(values):.1f}" for kind, values in seconds.items() if values)
    errors = ", ".join(f"{kind} {each['bias']:.4f} + {each['variance']:.2f}" for kind, each in quality.items())
    bias = {kind: each["bias"] for kind, each in quality.items()}
    far = max(lost)
    return Found(
        verdict=verdict,
        summary=(
            f"Nats per character, mean and range over seeds: {said_each(measured)}. A key carried over {far} steps, "
            f"the share of its nats that is lost: {said_each(lost[far])}. The most bytes kept for the backward pass in "
            f"the trainer: with the full gradient {ratio:.1f} times those with regular cuts. Seconds of training on "
            f"text: {times}. Runs that stopped: {sum(stopped.values())}. Squared bias and variance of the gradient: "
            f"{errors}. {sentence(limits)}"
        ),
        figures={
            "nats_per_token": losses,
            "lost": lost,
            "seconds": seconds,
            "largest_norm": norms,
            "stopped": stopped,
            "saved_bytes": kept,
            "estimators": quality,
        },
        charts=[
            bars(
                "A plain RNN, its gradient cut in four ways",
                "gradient",
                "nats per character",
                [curve("validation", measured)],
            ),
            bars(
                f"A key carried by a GRU, gradients cut every {terms['carry']['segment']} steps",
                "steps of carrying",
                "share of the answer's nats lost",
                curves({kind: {str(lag): each[kind] for lag, each in lost.items()} for kind in KINDS}),
            ),
            bars(
                "Bias of the gradient, squared",
                "gradient",
                "share of its squared length",
                [Line("bias", list(bias), list(bias.values()))],
            ),
        ],
    )


def lagged(lag: int, records: int, seed: int) -> np.ndarray:
    """A text of records: a key, a wait, a question mark `lag` steps after the key, and the key again."""
    keys = np.random.default_rng([seed, lag]).integers(len(KEYS), size=records)
    rows = np.full((records, lag + 2), LETTERS.index(WAIT))
    rows[:, 0] = rows[:, lag + 1] = keys
    rows[:, lag] = LETTERS.index(ASK)
    return rows.ravel().astype(np.uint16)


def lag_task(kind: BpttName, lag: int, device: str = "cpu", seed: int = 0, **settings: Any) -> TextTask:
    """The text of records as a task; a gradient joins answer and key only in a segment of more than `lag` steps."""
    texts = lagged(lag, 4000, seed=1), lagged(lag, 200, seed=2)
    return token_task("records", LETTERS, *texts, device, seed, bptt=kind, cut=COMMON["cut"], **settings)


def lost_share(task: TextTask, model: Any, lag: int) -> float:
    """The mean nats of the answers on validation, as a share of those of a guess."""
    answers = task.losses(model, "valid", "stateful")[lag :: lag + 2]
    return float(answers.mean()) / log(len(KEYS))


def carry(
    kind: BpttName, lag: int, steps: int, seed: int, device: str, *, width: int, rate: float, **settings: Any
) -> float:
    """What a GRU loses of a key over `lag` steps, once it is trained."""
    task = lag_task(kind, lag, device, seed, **settings)
    config = language.Config(vocab=len(LETTERS), model="gru", width=width, layers=1)
    model = fit(task, config.build, steps=steps, rate=rate, seed=seed, device=device, warmup=steps // 10)
    return lost_share(task, model, lag)


def judge_estimators(trained: Trained, terms: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Bias² and variance of each gradient over data, at the weights that the full one reached."""
    model = trained.model.double()
    batches = [(batch.x, batch.y) for batch in islice(trained.task.batches("train", 1), terms["batches"])]
    found = estimators.compare(model, batches, segment=terms["run"]["segment"], cut=COMMON["cut"])
    return {kind: estimate._asdict() | {"total": estimate.bias + estimate.variance} for kind, estimate in found.items()}


def saved_bytes(trained: Trained, kind: BpttName) -> int:
    """The most bytes that autograd keeps at a time in one step of the trainer, weights not counted."""
    task, model = trained.task, copy.deepcopy(trained.model).float()
    config = replace(task.config, bptt=kind, eval_tokens=2)
    settings = Settings(steps=1, warmup=0, seed=task.seed)
    trainer = Trainer(TextTask(config, task.data, task.device, task.seed), model, settings, None, task.device)
    return peak_kept_bytes(trainer.run, model.parameters())


def behind(found: Mapping[str, Sequence[float]], other: str, margin: float) -> bool | None:
    """Whether regular cuts end above another gradient by more than the margin: with every seed, with none, or None."""
    apart = [a - b for a, b in zip(found["truncated"], found[other], strict=True)]
    if min(apart) > margin:
        return True
    return False if max(apart) <= margin else None


def judge(
    losses: Mapping[str, Sequence[float]],
    lost: Mapping[int, Mapping[str, Sequence[float]]],
    kept: Mapping[str, int],
    margin: float,
) -> tuple[Verdict, str]:
    """From {gradient: [nats of each seed]} of text, {steps: {gradient: [share lost]}} and the most bytes kept."""
    near, far = lost[min(lost)], lost[max(lost)]
    if len({len(losses[kind]) for kind in ("truncated", "random", "full")} | {len(far["full"])}) > 1:
        return Verdict.UNDECIDED, "some runs on text stopped"
    if missing := NEAR.missing(near) or FAR.missing({"full": far["full"]}):
        return Verdict.NOT_LEARNT, missing
    places = {"on text": (losses, margin), f"over {max(lost)} steps": (far, CARRY_MARGIN)}
    found = {
        other: {place: behind(each, other, own) for place, (each, own) in places.items()}
        for other in ("random", "full")
    }
    if any(worse is None for each in found.values() for worse in each.values()):
        return Verdict.UNDECIDED, "seeds differ by more than the margin"
    worse = {other: [place for place, is_worse in each.items() if is_worse] for other, each in found.items()}
    said = [f"regular cuts are behind {_NAMES[other]} {' and '.join(where)}" for other, where in worse.items() if where]
    if kept["full"] <= kept["truncated"]:
        said.append("the full gradient needs no more memory")
    if any(len(where) == len(places) for where in worse.values()):
        return Verdict.FAILS, "; ".join(said)
    if said:
        return Verdict.LIMITS, "; ".join([*said, "elsewhere all are within the margin"])
    return Verdict.HOLDS, "all within the margin, on text and beyond a segment"


_NAMES = {"random": "random ones", "full": "the full gradient"}


def _form(terms: Mapping[str, Any], seeds: int) -> str:
    read, carried = terms["run"], terms["carry"]
    lags = ", ".join(f"{lag} ({steps:,} training steps)" for lag, steps in terms["lags"].items())
    return (
        f"text: width {read['width']}, windows of {read['context']}, segments of {read['segment']}, "
        f"{read['steps']:,} steps of {read['batch']} windows, margin {terms['margin']} nats; keys: width "
        f"{carried['width']}, windows of {carried['context']}, segments of {carried['segment']}, carried over {lags}, "
        f"rate {carried['rate']:g}, {carried['batch']} windows; {seeds} seeds"
    )


CLAIM = Claim(
    statement="""Cutting backpropagation through time at regular places does as well as at random ones, and the full
    gradient costs more for little.""",
    sources=(
        "Zhang 2023, Dive into Deep Learning, section 9.7",
        "Tallec & Ollivier 2017, Unbiasing Truncated Backpropagation Through Time (arXiv 1705.08209)",
        "the sequence-model note: 「随机截断在理论上具有吸引力」, but no better in practice",
    ),
    experiment="""A plain RNN learns Python's own source by characters, with the full gradient of its windows, with
    regular segments, with segments of random length, and with the unbiased estimator; the bias and the variance of
    each gradient are measured on the same batches. And a GRU learns to say a key again that it read more steps before
    than a segment has: there nothing but a gradient across the cut can teach it.""",
    decided=f"""{NEAR} {FAR} One gradient is behind another if with every seed it ends more than the margin of
    its text above it: on real text so many nats, with keys {CARRY_MARGIN} of the answer's nats. Holds: regular cuts are
    behind neither random ones nor the full gradient in either text, and the full one keeps more bytes in the trainer.
    Does not hold: in both texts they are behind one of the two. Within limits: in one text, or the full gradient keeps
    no more. Undecided: with some seeds, or runs stopped. Quick: {_form(QUICK, SEEDS[0])}. Full:
    {_form(FULL, SEEDS[1])}. Times are told, not judged.""",
    note="""The note takes randomised truncation to be segments of random length, which are as biased as regular ones.
    What the theory praises is the estimator that scales what it lets through, so that nothing is lost on average; it is
    measured here beside them. The note also says that truncation loses long dependencies, which the keys show.""",
    run=run,
    chapter=3,
)
