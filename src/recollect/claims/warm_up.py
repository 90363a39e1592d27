"""Where the norm stands in a Transformer's block, and whether its learning rate must start low."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..core.chart import Chart, Line
from ..models import language
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import bars, in_words, sentence, share, shares
from .laboratory.training import Trained, try_train

NEEDS, FINE = 1 / 2, 1 / 6
QUICK: dict[str, Any] = {
    "run": {"steps": 120, "context": 32, "batch": 8, "eval_tokens": 8000},
    "model": {"layers": 6, "width": 32, "heads": 4},
    "rates": (3e-3, 1e-2, 3e-2),
}
FULL: dict[str, Any] = {
    "run": {"steps": 1000, "context": 128, "batch": 32, "eval_tokens": 100_000},
    "model": {"layers": 12, "width": 256, "heads": 8},
    "rates": (3e-4, 1e-3, 3e-3, 1e-2),
}
SEEDS = 2, 3
WAYS = {
    "post-norm": ("post", False),
    "post-norm, warm-up": ("post", True),
    "pre-norm": ("pre", False),
    "pre-norm, warm-up": ("pre", True),
}


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    losses: dict[str, dict[float, list[float | None]]] = {}
    failed: dict[str, dict[float, list[bool]]] = {}
    some: Trained | None = None
    for way, (order, warm) in WAYS.items():
        losses[way], failed[way] = {}, {}
        for rate in terms["rates"]:
            settings = terms["run"] | terms["model"] | {"order": order, "lr": rate, "schedule": "constant"}
            settings |= {"warmup": terms["run"]["steps"] // 2 if warm else 0, "device": effort.device}
            runs = [try_train("text", "transformer", seed=seed, **settings) for seed in effort.seed_range(*SEEDS)]
            some = next((run for run in reversed(runs) if run), some)
            losses[way][rate] = [run.metric if run else None for run in runs]
            failed[way][rate] = [not run or run.metric > run.figures["baselines"]["unigram"] for run in runs]
    verdict, limits = judge(failed)
    counts = ", ".join(f"{way} {count(each)}" for way, each in failed.items())
    norms = {} if some is None else {order: gradients(some, terms["model"], order) for order in ("pre", "post")}
    spread = ", ".join(f"{order} {each[-1] / each[0]:.2f}" for order, each in norms.items())
    return Found(
        verdict=verdict,
        summary=f"Runs that failed: {counts}. Gradient of the last block over the first's at the start: {spread}. "
        + sentence(limits),
        figures={"nats_per_token": losses, "failed": failed, "gradients": norms},
        charts=[
            bars(
                "Runs that did no better than counting characters",
                "learning rate",
                "share of seeds",
                [shares(way, each) for way, each in failed.items()],
            ),
            Chart(
                "Gradient at the start, by depth",
                "block",
                "norm",
                [Line(f"{order}-norm", list(range(len(each))), each) for order, each in norms.items()],
                log_y=True,
            ),
        ],
    )


def gradients(trained: Trained, model: Mapping[str, Any], order: str) -> list[float]:
    """The norm of each block's gradient (attention's and the network's) before the first step."""
    torch.manual_seed(0)
    config = language.Config(vocab=trained.artifacts.size, model="transformer", order=order, **model)  # type: ignore[arg-type]
    fresh = config.build()
    batch = next(trained.task.batches("train", 0))
    fresh.nll(batch.x.cpu(), batch.y.cpu(), None)[0].mean().backward()
    blocks = [layer for layer in fresh.body.layers if hasattr(layer, "layer")]
    pairs = [blocks[at : at + 2] for at in range(0, len(blocks), 2)]
    return [
        sum(float(p.grad.square().sum()) for part in pair for p in part.parameters() if p.grad is not None) ** 0.5
        for pair in pairs
    ]


def count(found: Mapping[float, Sequence[bool]]) -> str:
    values = [value for each in found.values() for value in each]
    return f"{sum(values)} of {len(values)}"


def judge(failed: Mapping[str, Mapping[float, Sequence[bool]]]) -> tuple[Verdict, str]:
    """From {way: {rate: [whether each seed failed]}}."""
    cold, warm = share(failed["post-norm"]), share(failed["post-norm, warm-up"])
    pre = share(failed["pre-norm"])
    if cold >= NEEDS and warm <= FINE and pre <= FINE:
        return Verdict.HOLDS, "post-norm learns with warm-up alone, pre-norm without"
    if cold > max(warm, pre):
        return Verdict.LIMITS, "post-norm fails more often without warm-up, though not as clearly as the claim has it"
    if cold <= pre and cold <= warm:
        return Verdict.FAILS, "post-norm without warm-up fails no more often than the others"
    return Verdict.UNDECIDED, "failures lie elsewhere"


CLAIM = Claim(
    statement="""A Transformer with its norms after the sum needs a learning rate that warms up; one with norms before
    the sublayers does not.""",
    sources=(
        "Xiong 2020, On Layer Normalization in the Transformer Architecture (arXiv 2002.04745)",
        "Vaswani 2017, Attention Is All You Need, section 5.3 (arXiv 1706.03762)",
    ),
    experiment="""Transformers of six layers or more learn Python's own source by characters, with the norm before or
    after, with and without warm-up, at a fixed grid of rates. A run fails when it stops, or ends no better than
    counting characters. The gradient at the start is measured by depth.""",
    decided=f"""Holds: of the runs with post-norm and no warm-up at least {in_words(NEEDS)} fail, and at most
    {in_words(FINE)} of those with post-norm and warm-up, and of those with pre-norm and none. Within limits: post-norm
    without warm-up fails more often than both, by less than that. Does not hold: it fails no more often than both.
    Quick: {QUICK["model"]["layers"]} layers of {QUICK["model"]["width"]}, rates {", ".join(map(str, QUICK["rates"]))},
    {QUICK["run"]["steps"]} steps of {QUICK["run"]["batch"]} windows of {QUICK["run"]["context"]}, warm-up over half of
    them, {SEEDS[0]} seeds. Full: {FULL["model"]["layers"]} layers of {FULL["model"]["width"]}, rates {FULL["rates"][0]}
    to {FULL["rates"][-1]}, {FULL["run"]["steps"]:,} steps, {SEEDS[1]} seeds. The rate is otherwise constant.""",
    note="""Both orders start from the same weights here, with what writes into the shortcut scaled down by depth as in
    GPT-2, which is gentler to post-norm than the paper's own start.""",
    run=run,
)
