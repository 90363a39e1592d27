"""Films and users as vectors: whether the learned dimensions are the ones that the ratings were made from.

Turning all vectors by one rotation changes no score, so nothing in the data prefers the true axes: what can be found is
the space that they span.
"""

from collections.abc import Sequence

import numpy as np
import torch

from ..tasks.ratings.model import recovery
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import bars, curve, decimal, gather, limits, show
from .laboratory.training import train

RANK = 4
QUICK = {"users": 400, "items": 300, "ratings": 30_000}
FULL = {"users": 2000, "items": 1500, "ratings": 400_000}
STEPS = (600, 3000)
SEEDS = (5, 10)
ENOUGH = 0.9  # a correlation that counts as recovered
TURNS = 1000  # random rotations of the true features, to see what chance gives


def run(effort: Effort) -> Found:
    found = gather(one(seed, effort) for seed in effort.seed_range(*SEEDS))
    verdict = judge(found["canonical"], found["alone"])
    compared = {"the space": "canonical", "one dimension": "alone", "one dimension, by chance": "by chance"}
    return Found(
        verdict=verdict,
        summary=(
            f"least canonical correlation of learned and true film features {show(found['canonical'])}; best "
            f"correlation of a true feature with one learned dimension {show(found['alone'])}, where a random rotation "
            f"of the true ones has {show(found['by chance'])}; a rotation of all vectors moves scores by at most "
            f"{max(found['turned']):.1e}; RMSE learned {show(found['learned'])}, with hand-set features "
            f"{show(found['hand-set'])}, noise {found['noise'][0]:.3f}"
            + limits(verdict, "; the limits: up to a rotation: the space is found, its axes are not")
        ),
        figures=found,
        charts=[
            bars(
                "How much of the true features is found",
                "compared",
                "correlation",
                [curve("films", {name: found[key] for name, key in compared.items()})],
                level=ENOUGH,
                level_name="counts as recovered",
            )
        ],
    )


def one(seed: int, effort: Effort) -> dict[str, float]:
    data = effort.pick(QUICK, FULL) | {"rank": RANK, "data_seed": seed}
    common = {"steps": effort.pick(*STEPS), "seed": seed, "device": effort.device}
    learned = train("ratings", "dot", dim=RANK, **common, **data)
    given = train("ratings", "features", features="truth", **common, **data)
    held = learned.figures["item_recovery"]
    draw = torch.Generator().manual_seed(seed)
    true = torch.from_numpy(learned.task.data.truth.items)
    chance = np.mean([recovery(true @ rotation(RANK, draw), true).alone for _ in range(TURNS)])
    users, items = learned.model.vectors()
    turn = rotation(RANK, draw).to(users)
    moved = (users @ turn @ (items @ turn).mT - users @ items.mT).abs().max()
    return {
        "canonical": held["canonical"],
        "rotated": held["rotated"],
        "alone": held["alone"],
        "by chance": float(chance),
        "turned": float(moved),
        "learned": learned.metric,
        "hand-set": given.metric,
        "noise": float(learned.figures["baselines"]["noise"]),
    }


def rotation(size: int, draw: torch.Generator) -> torch.Tensor:
    """A random one, every one as likely as any other."""
    q, r = torch.linalg.qr(torch.randn(size, size, generator=draw, dtype=torch.float64))
    return q * r.diagonal().sign()


def judge(canonical: Sequence[float], alone: Sequence[float]) -> Verdict:
    """From each seed's correlations: of the spaces, and of single dimensions."""
    if min(alone) >= ENOUGH:
        return Verdict.HOLDS
    if min(canonical) >= ENOUGH:
        return Verdict.LIMITS
    return Verdict.FAILS if max(canonical) < ENOUGH else Verdict.UNDECIDED


CLAIM = Claim(
    statement="Features of films that are only learned from ratings come to mean something, dimension by dimension.",
    sources=(
        "Bloem 2019, Transformers from scratch",
        "Koren, Bell & Volinsky 2009, Matrix Factorization Techniques for Recommender Systems",
        "the self-attention note: 「某个维度可能对应“浪漫”」",
    ),
    experiment=f"""Ratings are made from {RANK} known features of each film and each user; vectors of {RANK} dimensions
    are learned from them and held to the truth: as a space, and each true feature against its best single dimension.
    Beside them stands a model that is given the films' true features.""",
    decided=f"""{QUICK["users"]} users, {QUICK["items"]} films and {QUICK["ratings"]:,} ratings, {STEPS[0]} steps,
    {SEEDS[0]} seeds of data and weights (full: {FULL["users"]:,}, {FULL["items"]:,}, {FULL["ratings"]:,}, {STEPS[1]:,}
    steps, {SEEDS[1]} seeds). Holds if in every seed the mean best correlation of a true feature with a single learned
    dimension is at least {decimal(ENOUGH)}; within limits (up to a rotation) if only the least canonical correlation
    is; does not hold if no seed's is; otherwise undecided.""",
    run=run,
    chapter=8,
    note="""The note says that a dimension may come to stand for romance and another for action. Since any rotation
    of all vectors gives the same scores, the ratings alone cannot make it so: a direction has a meaning, an axis
    need not.""",
)
