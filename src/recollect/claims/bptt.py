"""Four ways to cut backpropagation through time: what each costs, and what it buys."""

from collections.abc import Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import Any, get_args

import torch
from torch import Tensor

from ..core.bptt import BpttName
from ..core.chart import Chart, Line
from ..measure import estimators
from ..train.loop import TrainingStopped
from ._shown import curve, said, sentence
from ._trained import Trained, seeds, train
from .claim import Claim, Effort, Found, Verdict

KINDS: tuple[BpttName, ...] = get_args(BpttName)
QUICK = {
    "run": {"steps": 300, "width": 64, "context": 64, "batch": 16, "segment": 16, "eval_tokens": 20_000},
    "margin": 0.05,
    "batches": 60,
}
FULL = {
    "run": {"steps": 4000, "width": 256, "context": 128, "batch": 32, "segment": 16},
    "margin": 0.02,
    "batches": 400,
}
COMMON = {"layers": 1, "windows": "random", "lr": 3e-3, "cut": 0.5}
SEEDS = 3, 3


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    losses: dict[str, list[float]] = {kind: [] for kind in KINDS}
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    norms: dict[str, list[float]] = {kind: [] for kind in KINDS}
    stopped = dict.fromkeys(KINDS, 0)
    full: Trained | None = None
    for seed in seeds(effort, *SEEDS):
        for kind in KINDS:
            try:
                found = train("text", "rnn", seed=seed, device=effort.device, bptt=kind, **COMMON | terms["run"])
            except TrainingStopped:
                stopped[kind] += 1
                continue
            losses[kind].append(found.metric)
            seconds[kind].append(found.figures["seconds"])
            norms[kind].append(max(row["norm"] for row in found.curve if "norm" in row))
            full = found if kind == "full" else full
    context, segment = terms["run"]["context"], terms["run"]["segment"]
    kept = {kind: 0 if full is None else saved_bytes(full, context if kind == "full" else segment) for kind in KINDS}
    quality = {} if full is None else judge_estimators(full, terms)
    verdict, limits = judge(losses, kept, terms["margin"])
    ratio = kept["full"] / max(1, kept["truncated"])
    effects = ", ".join(f"{kind} {said(values)}" for kind, values in losses.items() if values)
    times = ", ".join(f"{kind} {fmean(values):.1f}" for kind, values in seconds.items() if values)
    errors = ", ".join(f"{kind} {each['bias']:.4f} + {each['variance']:.2f}" for kind, each in quality.items())
    summary = (
        f"Nats per character, mean and range over seeds: {effects}. Memory for the backward pass of the full one: "
        f"{ratio:.1f} times that of a segment. Seconds of training: {times}. Runs that stopped: "
        f"{sum(stopped.values())}. Squared bias and variance of the gradient: {errors}. {sentence(limits)}"
    )
    charts = [
        Chart(
            title="A plain RNN, its gradient cut in four ways",
            x="gradient",
            y="nats per character",
            lines=[curve("validation", {kind: values for kind, values in losses.items() if values})],
            kind="bars",
        ),
        Chart(
            title="Bias of the gradient, squared",
            x="gradient",
            y="share of its squared length",
            lines=[Line(name="bias", x=list(quality), y=[each["bias"] for each in quality.values()])],
            kind="bars",
        ),
    ]
    figures = {
        "nats_per_token": losses,
        "seconds": seconds,
        "largest_norm": norms,
        "stopped": stopped,
        "saved_bytes": kept,
        "estimators": quality,
    }
    return Found(verdict=verdict, summary=summary, figures=figures, charts=charts)


def judge_estimators(trained: Trained, terms: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Bias² and variance of each gradient over data, at the weights that the full one reached."""
    model = trained.model.double()
    batches = [(batch.x, batch.y) for batch in islice(trained.task.batches("train", 1), terms["batches"])]
    found = estimators.compare(model, batches, segment=terms["run"]["segment"], cut=COMMON["cut"])
    return {kind: estimate._asdict() | {"total": estimate.bias + estimate.variance} for kind, estimate in found.items()}


def saved_bytes(trained: Trained, steps: int) -> int:
    """Bytes that autograd keeps for the backward pass over so many steps, weights not counted."""
    batch = next(trained.task.batches("train", 0))
    own = {parameter.untyped_storage().data_ptr() for parameter in trained.model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        trained.model.nll(batch.x[:, :steps], batch.y[:, :steps], None)
    return sum(kept.values())


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
    id="bptt",
    statement="Cutting backpropagation through time at regular places does as well as at random ones, and the full "
    "gradient costs more for little.",
    sources=(
        "Zhang 2023, Dive into Deep Learning, section 9.7",
        "Tallec & Ollivier 2017, Unbiasing Truncated Backpropagation Through Time (arXiv 1705.08209)",
        "003_c6efc9a4698e0e4d.txt",
    ),
    experiment="A plain RNN learns Python's own source by characters, with the full gradient of its windows, with "
    "regular segments, with segments of random length, and with the unbiased estimator; then the bias and the variance "
    "of each gradient are measured on the same batches.",
    decided="Holds: with every seed regular segments end at most a margin above random ones and above the full "
    "gradient, which keeps more bytes for its backward pass. Within limits: the full one buys more than the margin. "
    "Does not hold: random segments are better by more than the margin with every seed. The margin is 0.05 nats "
    "(full form: 0.02). Quick: width 64, windows of 64, segments of 16, 300 steps of 16 windows. Full: width 256, "
    "windows of 128, 4,000 steps of 32. 3 seeds. Times are told, not judged.",
    note="The note takes randomised truncation to be segments of random length, which are as biased as regular ones. "
    "What the theory praises is the estimator that scales what it lets through, so that nothing is lost on average; "
    "it is measured here beside them.",
    run=run,
)
