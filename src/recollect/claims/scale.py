"""What dividing by √d does to a softmax over random queries and keys, and to the gradients behind it."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch

from ..core.chart import Chart, Line
from ..layers.score import ScoreName, build_score
from .claim import Claim, Effort, Found, Verdict

WIDTHS = (4, 16, 64, 256, 1024)
KEYS, QUERIES, BLOCK, SEED = 64, 4_000, 200, 0
SATURATED = 0.9  # mean largest weight, unscaled, at the greatest width
STEADY = 0.02  # range over widths of the mean largest weight, scaled
LOST = 100.0  # how many times smaller the median softmax Jacobian gets without the scale
LIMIT = 0.5  # no softmax has a Jacobian of a greater spectral norm
GROWTH = 10.0  # a gradient that explodes: the query's, this many times greater at the greatest width than at the least


class Seen(NamedTuple):
    largest: float  # mean largest weight
    jacobian: float  # median ‖∂softmax/∂scores‖, Frobenius
    steepest: float  # largest spectral norm of it
    query: float  # mean ‖∂y/∂q‖, y the weighted sum of random values


def measure_scores(width: int, score: ScoreName) -> Seen:
    """Over random normal queries, each with keys and values of its own."""
    draw = torch.Generator().manual_seed(SEED)
    of = build_score(score, 1, width)
    factor = of.as_dot(torch.zeros(1))[1]  # ∂score/∂q = factor·k
    largest, norms, steep, query = [], [], [], []
    for _ in range(0, QUERIES, BLOCK):
        q = torch.randn(BLOCK, 1, 1, width, generator=draw)
        k = torch.randn(BLOCK, 1, KEYS, width, generator=draw)
        v = torch.randn(BLOCK, KEYS, 1, generator=draw)
        weights = of(q, k)[:, 0, 0].softmax(dim=-1)  # Q K
        jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
        largest += weights.amax(dim=-1).tolist()
        norms += torch.linalg.matrix_norm(jacobian).tolist()
        steep.append(float(torch.linalg.matrix_norm(jacobian.double(), ord=2).max()))
        query += (factor * (jacobian @ v).mT @ k[:, 0])[:, 0].norm(dim=-1).tolist()
    return Seen(statistics.fmean(largest), statistics.median(norms), max(steep), statistics.fmean(query))


def judge(plain: Mapping[int, Seen], scaled: Mapping[int, Seen]) -> Verdict:
    last = WIDTHS[-1]
    saturates = plain[last].largest >= SATURATED and _rises([plain[width].largest for width in WIDTHS])
    kept = [scaled[width].largest for width in WIDTHS]
    steady = max(kept) - min(kept) <= STEADY
    lost = scaled[last].jacobian / plain[last].jacobian >= LOST
    if saturates and steady and lost:
        return Verdict.HOLDS
    return Verdict.LIMITS if saturates and steady else Verdict.FAILS


def _rises(values: Sequence[float]) -> bool:
    return all(a < b for a, b in pairwise(values))


def explodes(plain: Mapping[int, Seen]) -> bool:
    """Whether gradients explode without the scale, as the lecture note says they would."""
    growth = plain[WIDTHS[-1]].query / plain[WIDTHS[0]].query
    return max(seen.steepest for seen in plain.values()) > LIMIT + 1e-5 or growth > GROWTH


def run(effort: Effort) -> Found:
    plain = {width: measure_scores(width, "dot") for width in WIDTHS}
    scaled = {width: measure_scores(width, "scaled") for width in WIDTHS}
    last, first = WIDTHS[-1], WIDTHS[0]
    list_of = "/".join
    return Found(
        verdict=judge(plain, scaled),
        summary=(
            f"Mean largest of {KEYS} weights at d = {list_of(map(str, WIDTHS))}: "
            f"{list_of(f'{plain[w].largest:.2f}' for w in WIDTHS)} unscaled, "
            f"{list_of(f'{scaled[w].largest:.3f}' for w in WIDTHS)} scaled. Median softmax Jacobian at {last}: "
            f"{plain[last].jacobian:.1g} against {scaled[last].jacobian:.2g}. Gradients "
            f"{'explode' if explodes(plain) else 'do not explode'} without the scale: a softmax's Jacobian stays at or "
            f"below {max(seen.steepest for seen in plain.values()):.2f}, and the mean gradient of the query goes from "
            f"{plain[first].query:.2g} to {plain[last].query:.2g} (scaled: {scaled[first].query:.2g} to "
            f"{scaled[last].query:.2g})."
        ),
        figures={
            "unscaled": {str(width): seen._asdict() for width, seen in plain.items()},
            "scaled": {str(width): seen._asdict() for width, seen in scaled.items()},
            "explodes": explodes(plain),
        },
        charts=[
            Chart(
                f"The largest of {KEYS} attention weights",
                "width d of queries and keys",
                "mean largest weight",
                _lines(plain, scaled, "largest"),
                log_x=True,
                level=1 / KEYS,
                level_name="uniform",
            ),
            Chart(
                "What a softmax lets through of a gradient",
                "width d of queries and keys",
                "median ‖∂weights/∂scores‖",
                _lines(plain, scaled, "jacobian"),
                log_x=True,
                log_y=True,
            ),
        ],
    )


def _lines(plain: Mapping[int, Seen], scaled: Mapping[int, Seen], what: str) -> list[Line]:
    return [
        Line(name, list(WIDTHS), [getattr(found[width], what) for width in WIDTHS])
        for name, found in (("q·k", plain), ("q·k / √d", scaled))
    ]


CLAIM = Claim(
    statement="Dividing scores by √d keeps the softmax of attention from saturating.",
    sources=(
        "Vaswani et al. 2017",
        "the self-attention note: 「点积的值会变得很大」",
        "the lecture note: 「来使得相似性有一个限定范围」",
    ),
    experiment=f"Random normal queries, {KEYS} random keys each, with and without the scale, at growing width.",
    decided=f"""{QUERIES:,} queries a width, widths {WIDTHS}. Saturates: the mean largest weight rises with d and
    reaches {SATURATED} unscaled; kept: it stays within {STEADY} over all widths scaled; and the median Jacobian of the
    softmax at d = {WIDTHS[-1]} is at least {LOST:g} times smaller unscaled. The first two alone: within limits.
    Exploding would be a softmax Jacobian above {LIMIT} or a query's gradient more than {GROWTH:g} times greater at d =
    {WIDTHS[-1]} than at d = {WIDTHS[0]}.""",
    note="""The lecture note gives two reasons for the scale, gradients that explode and gradients that vanish. A
    softmax cannot make a gradient explode: its Jacobian's norm is never above ½. The self-attention note has the other
    reason alone.""",
    run=run,
    chapter=8,
    deterministic=True,
)
