"""Is a token most like itself? Random tokens score each other, by raw dot products and through random W_q and W_k."""

import torch

from ..core.chart import Chart
from ..layers import encoder
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import curve, interval, limits

WIDTHS = (2, 4, 8, 16, 32, 64)
TOKENS, ROWS, SEEDS = 16, 256, 5
NEARLY, WIDE = 0.95, 16  # the share that counts as nearly all, from this width on
ALWAYS = 0.999  # "certainly the highest"
CHANCE = 2.0  # within this factor of one in TOKENS


def share(width: int, seed: int, *, project: bool) -> float:
    """The share of tokens whose largest attention weight is on themselves."""
    torch.manual_seed(seed)
    layer = encoder.AttentionConfig(dim=width, project=project, score="scaled").build()
    x = torch.randn(ROWS, TOKENS, width)
    valid = torch.ones(ROWS, TOKENS, dtype=torch.bool)
    if not project:
        best = layer.weights(x, valid)[:, 0].argmax(dim=-1)
        return float((best == torch.arange(TOKENS)).double().mean())
    hits = []
    for row in x.split(1):  # a W_q and a W_k of its own for every sequence
        layer = encoder.AttentionConfig(dim=width, score="scaled").build()
        best = layer.weights(row, valid[:1])[:, 0].argmax(dim=-1)
        hits.append((best == torch.arange(TOKENS)).double().mean())
    return float(torch.stack(hits).mean())


def judge(raw: dict[int, list[float]], projected: dict[int, list[float]]) -> Verdict:
    """Shares over seeds by width."""
    every = [value for found in (raw, projected) for values in found.values() for value in values]
    if min(every) >= ALWAYS:
        return Verdict.HOLDS
    wide = [value for width, values in raw.items() if width >= WIDE for value in values]
    if min(wide) >= NEARLY:
        return Verdict.LIMITS
    return Verdict.FAILS


def run(effort: Effort) -> Found:
    seeds = effort.seed_range(SEEDS, SEEDS)
    with torch.no_grad():
        raw = {width: [share(width, seed, project=False) for seed in seeds] for width in WIDTHS}
        drawn = {width: [share(width, seed, project=True) for seed in seeds] for width in WIDTHS}
    flat = [value for values in drawn.values() for value in values]
    by_chance = min(flat) >= 1 / TOKENS / CHANCE and max(flat) <= CHANCE / TOKENS
    told = ", ".join(
        f"{m:.1%} ({low:.1%} to {high:.1%}) at d = {w}" for w in (4, 16) for m, low, high in [interval(raw[w])]
    )
    mean, low, high = interval(flat)
    verdict = judge(raw, drawn)
    return Found(
        verdict=verdict,
        summary=(
            f"Of {TOKENS} random tokens, the share most like itself by x·x: {told}. Through random W_q and W_k "
            f"{mean:.1%} ({low:.1%} to {high:.1%}) at every width"
            + (f", as chance has it (1 in {TOKENS})." if by_chance else f", where chance is 1 in {TOKENS}.")
            + limits(verdict, " So it is true of wide vectors compared as they are.")
        ),
        figures={
            "raw": {str(width): list(interval(values)) for width, values in raw.items()},
            "projected": {str(width): list(interval(values)) for width, values in drawn.items()},
            "projected_by_chance": by_chance,
        },
        charts=[
            Chart(
                "How often a token's largest weight is on itself",
                "width d",
                "share of tokens",
                [curve("x·x", raw), curve("random W_q, W_k", drawn)],
                log_x=True,
                level=1 / TOKENS,
                level_name="chance",
            )
        ],
    )


CLAIM = Claim(
    statement="In self-attention a token is most like itself.",
    sources=("the Transformer note: 「自身相似度肯定最高」",),
    experiment=f"""Sequences of {TOKENS} random normal tokens: how often is a token's largest attention weight on
    itself, by raw x·x and through random W_q and W_k?""",
    decided=f"""Widths {WIDTHS}, {ROWS} sequences, {SEEDS} seeds. Holds if the share is at least {ALWAYS:.1%}
    everywhere, with and without projections; within limits if by raw x·x it is at least {NEARLY:.0%} from d = {WIDE} on
    for every seed; else it does not hold.""",
    note="""The Transformer note says that a token's similarity to itself is certainly the highest. That is a fact about
    long vectors compared with themselves; queries and keys come from two different matrices, and before training they
    owe each other nothing.""",
    run=run,
    chapter=8,
)
