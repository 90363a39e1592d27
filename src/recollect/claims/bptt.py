"""Four ways to cut backpropagation through time: what each costs, and what it buys."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from statistics import fmean
from typing import Any, get_args

from ..core.bptt import BpttName
from ..core.chart import Line
from ..measure import estimators
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import kept_bytes
from .laboratory.figures import bars, curve, said_each, sentence
from .laboratory.training import Trained, try_train

KINDS: tuple[BpttName, ...] = get_args(BpttName)
QUICK: dict[str, Any] = {
    "run": {"steps": 300, "width": 64, "context": 64, "batch": 16, "segment": 16, "eval_tokens": 20_000},
    "margin": 0.05,
    "batches": 60,
}
FULL: dict[str, Any] = {
    "run": {"steps": 4000, "width": 256, "context": 128, "batch": 32, "segment": 16},
    "margin": 0.02,
    "batches": 400,
}
COMMON = {"layers": 1, "windows": "random", "lr": 3e-3, "cut": 0.5}
SEEDS = 3, 3


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    runs: dict[str, list[Trained]] = {kind: [] for kind in KINDS}
    stopped = dict.fromkeys(KINDS, 0)
    for seed in effort.seed_range(*SEEDS):
        for kind in KINDS:
            found = try_train("text", "rnn", seed=seed, device=effort.device, bptt=kind, **COMMON | terms["run"])
            if found is None:
                stopped[kind] += 1
            else:
                runs[kind].append(found)
    losses = {kind: [found.metric for found in each] for kind, each in runs.items()}
    seconds = {kind: [found.figures["seconds"] for found in each] for kind, each in runs.items()}
    norms = {
        kind: [max(row["norm"] for row in found.curve if "norm" in row) for found in each]
        for kind, each in runs.items()
    }
    full = runs["full"][-1] if runs["full"] else None
    context, segment = terms["run"]["context"], terms["run"]["segment"]
    kept = {kind: 0 if full is None else saved_bytes(full, context if kind == "full" else segment) for kind in KINDS}
    quality = {} if full is None else judge_estimators(full, terms)
    verdict, limits = judge(losses, kept, terms["margin"])
    ratio = kept["full"] / max(1, kept["truncated"])
    measured = {kind: values for kind, values in losses.items() if values}
    times = ", ".join(f"{kind} {fmean(values):.1f}" for kind, values in seconds.items() if values)
    errors = ", ".join(f"{kind} {each['bias']:.4f} + {each['variance']:.2f}" for kind, each in quality.items())
    bias = {kind: each["bias"] for kind, each in quality.items()}
    return Found(
        verdict=verdict,
        summary=(
            f"Nats per character, mean and range over seeds: {said_each(measured)}. Memory for the backward pass of "
            f"the full one: {ratio:.1f} times that of a segment. Seconds of training: {times}. Runs that stopped: "
            f"{sum(stopped.values())}. Squared bias and variance of the gradient: {errors}. {sentence(limits)}"
        ),
        figures={
            "nats_per_token": losses,
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
                "Bias of the gradient, squared",
                "gradient",
                "share of its squared length",
                [Line("bias", list(bias), list(bias.values()))],
            ),
        ],
    )


def judge_estimators(trained: Trained, terms: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Bias² and variance of each gradient over data, at the weights that the full one reached."""
    model = trained.model.double()
    batches = [(batch.x, batch.y) for batch in islice(trained.task.batches("train", 1), terms["batches"])]
    found = estimators.compare(model, batches, segment=terms["run"]["segment"], cut=COMMON["cut"])
    return {kind: estimate._asdict() | {"total": estimate.bias + estimate.variance} for kind, estimate in found.items()}


def saved_bytes(trained: Trained, steps: int) -> int:
    """Bytes that autograd keeps for the backward pass over so many steps, weights not counted."""
    batch = next(trained.task.batches("train", 0))
    forward = partial(trained.model.nll, batch.x[:, :steps], batch.y[:, :steps], None)
    return kept_bytes(forward, trained.model.parameters())


def judge(losses: Mapping[str, Sequence[float]], kept: Mapping[str, int], margin: float) -> tuple[Verdict, str]:
    """From {gradient: [nats of each seed]}, the bytes of a backward pass, and how much counts as equal."""
    regular, chance, full = losses["truncated"], losses["random"], losses["full"]
    if not (len(regular) == len(chance) == len(full) > 0):
        return Verdict.UNDECIDED, "some runs stopped"
    against_random = [a - b for a, b in zip(regular, chance, strict=True)]
    against_full = [a - b for a, b in zip(regular, full, strict=True)]
    if min(against_random) > margin:
        return Verdict.FAILS, "random segments are better by more than the margin with every seed"
    if max(against_random) > margin:
        return Verdict.UNDECIDED, "seeds differ by more than the margin"
    if kept["full"] <= kept["truncated"]:
        return Verdict.LIMITS, "regular cuts do as well as random ones, but the full gradient needs no more memory"
    if max(against_full) > margin:
        return Verdict.LIMITS, "regular cuts do as well as random ones; the full gradient buys more than the margin"
    return Verdict.HOLDS, f"all within the margin of {margin} nats"


CLAIM = Claim(
    statement="""Cutting backpropagation through time at regular places does as well as at random ones, and the full
    gradient costs more for little.""",
    sources=(
        "Zhang 2023, Dive into Deep Learning, section 9.7",
        "Tallec & Ollivier 2017, Unbiasing Truncated Backpropagation Through Time (arXiv 1705.08209)",
        "003_c6efc9a4698e0e4d.txt",
    ),
    experiment="""A plain RNN learns Python's own source by characters, with the full gradient of its windows, with
    regular segments, with segments of random length, and with the unbiased estimator; then the bias and the variance of
    each gradient are measured on the same batches.""",
    decided=f"""Holds: with every seed regular segments end at most a margin above random ones and above the full
    gradient, which keeps more bytes for its backward pass. Within limits: the full one buys more than the margin. Does
    not hold: random segments are better by more than the margin with every seed. The margin is {QUICK["margin"]} nats
    (full form: {FULL["margin"]}). Quick: width {QUICK["run"]["width"]}, windows of {QUICK["run"]["context"]}, segments
    of {QUICK["run"]["segment"]}, {QUICK["run"]["steps"]} steps of {QUICK["run"]["batch"]} windows. Full: width
    {FULL["run"]["width"]}, windows of {FULL["run"]["context"]}, {FULL["run"]["steps"]:,} steps of
    {FULL["run"]["batch"]}. {SEEDS[0]} seeds. Times are told, not judged.""",
    note="""The note takes randomised truncation to be segments of random length, which are as biased as regular ones.
    What the theory praises is the estimator that scales what it lets through, so that nothing is lost on average; it is
    measured here beside them.""",
    run=run,
)
