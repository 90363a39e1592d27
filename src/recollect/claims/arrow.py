"""Likelihood has no arrow of time; causes do.

A chain of six letters walks round a circle, mostly by one step. Its reverse is as regular, with the same entropy, so a
model of the text read backwards is as good as one read forwards. Then a letter is set by hand in the middle: with the
same noise the letters before it stay as they were, and whoever infers them from the letter that was set is misled.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..models import language
from ..tasks.text.task import TextTask
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import bars, curve, decimal, gather, limits, show
from .laboratory.training import fit, text_task

LETTERS = "abcdef"
STEP, STAY = 0.7, 0.2  # the chances of the next letter of the circle and of the same; the others share what is left
LENGTH = (60_000, 600_000)
TEST = 20_000
WIDTH = 16
STEPS = (200, 2000)
RATE = 1e-2
CONTEXT, BATCH = 32, 32
SEEDS = (3, 5)
WORLDS = 4000  # runs of the chain in which a letter is set
AROUND = 12  # letters before it, and after
LEARNT, NEARLY = 0.02, 0.1  # nats above what the chain itself would say
SAME, MISLED = 0.05, 0.5  # nats that setting a letter by hand adds


def run(effort: Effort) -> Found:
    found = gather(one(seed, effort) for seed in effort.seed_range(*SEEDS))
    entropy = float(-(chain() * np.log(chain())).sum(axis=1).mean())
    verdict = judge(found)
    return Found(
        verdict=verdict,
        summary=(
            f"nats a letter above the chain's own {entropy:.3f}: forward {show(found['forward gap'])}, backward "
            f"{show(found['backward gap'])}; a letter set by hand changed {show(found['past moved'])} of the letters "
            f"before it and {show(found['future moved'])} of those right after; it adds "
            f"{show(found['forward misled'])} nats to the next letter by the forward model and "
            f"{show(found['backward misled'])} to the one before by the backward model"
            + limits(verdict, f"; the limits: learnt to within {NEARLY} nats, not {LEARNT}")
        ),
        figures=found | {"entropy": entropy},
        charts=[
            bars(
                "What setting a letter by hand adds to the surprise",
                "model",
                "nats",
                [
                    curve("above the chain, as observed", {way: found[f"{way} gap"] for way in WAYS}),
                    curve("added by setting the letter", {way: found[f"{way} misled"] for way in WAYS}),
                ],
            )
        ],
    )


WAYS = ("forward", "backward")


def chain() -> np.ndarray:
    """The chance of each letter (column) after each (row)."""
    count = len(LETTERS)
    rest = (1 - STEP - STAY) / (count - 2)
    return np.full((count, count), rest) + (STAY - rest) * np.eye(count) + (STEP - rest) * np.roll(np.eye(count), 1, 1)


def walk(noise: np.ndarray, first: np.ndarray, chances: np.ndarray, fixed: dict[int, int] | None = None) -> np.ndarray:
    """Letters W T that noise W T−1 drives from `first`; `fixed` sets the letter at a place, whatever came before."""
    edges = chances.cumsum(axis=1)
    letters = [first]
    for t in range(noise.shape[1] + 1):
        if t:
            letters.append((noise[:, t - 1, None] >= edges[letters[-1]][:, :-1]).sum(axis=1))
        if fixed and t in fixed:
            letters[t] = np.full_like(letters[t], fixed[t])
    return np.stack(letters, axis=1)


def one(seed: int, effort: Effort) -> dict[str, float]:
    draw = np.random.default_rng(seed)
    chances = chain()
    length = effort.pick(*LENGTH)
    text = walk(draw.random((1, length - 1)), draw.integers(len(LETTERS), size=1), chances)[0]
    noise, first = draw.random((WORLDS, 2 * AROUND)), draw.integers(len(LETTERS), size=WORLDS)
    seen, done = walk(noise, first, chances), walk(noise, first, chances, {AROUND: 0})
    found = {
        "past moved": float((seen[:, :AROUND] != done[:, :AROUND]).mean()),
        "future moved": float((seen[:, AROUND + 1] != done[:, AROUND + 1]).mean()),
    }
    for way, turn in zip(WAYS, (1, -1), strict=True):
        own = chances if turn == 1 else chances.T  # every letter is as frequent as any other
        model, task = learn(text[::turn], seed, effort)
        tokens = task.tokens("valid")
        order = letters_of(task)[tokens]
        true = -np.log(own[order[:-1], order[1:]]).mean()
        found[f"{way} gap"] = float(task.evaluate(model, "valid", "stateful")["nats_per_token"] - true)
        cost = [next_cost(model, task, worlds[:, ::turn]) for worlds in (seen, done)]
        found[f"{way} misled"] = cost[1] - cost[0]
    return found


def learn(text: np.ndarray, seed: int, effort: Effort) -> tuple[Any, TextTask]:
    """A GRU of the text, whose last letters are for the test."""
    letters = "".join(LETTERS[i] for i in text)
    parts = {"train": letters[:-TEST], "test": letters[-TEST:]}
    task = text_task(parts, effort.device, seed, context=CONTEXT, batch=BATCH)
    config = language.Config(vocab=task.data.tokenizer.size, model="gru", width=WIDTH, layers=1)
    return fit(task, config.build, steps=effort.pick(*STEPS), rate=RATE, seed=seed, device=effort.device), task


def letters_of(task: TextTask) -> np.ndarray:
    """The letter of each token."""
    tokens = task.data.tokenizer.encode(LETTERS)
    found = np.zeros(task.data.tokenizer.size, dtype=np.int64)
    found[tokens] = np.arange(len(LETTERS))
    return found


@torch.no_grad()
def next_cost(model: Any, task: TextTask, worlds: np.ndarray) -> float:
    """Mean nats of the letter right after the middle of each world, given those up to the middle."""
    tokens = task.data.tokenizer.encode(LETTERS)[worlds].astype(np.int64)
    rows = torch.from_numpy(tokens[:, : AROUND + 2]).to(task.device)
    losses, _ = model.nll(rows[:, :-1], rows[:, 1:])
    return float(losses[:, -1].double().mean())


def judge(found: Mapping[str, Sequence[float]]) -> Verdict:
    """From each seed's gaps to the chain's own likelihood and what setting a letter by hand adds to each model."""
    worst = {way: max(found[f"{way} gap"]) for way in WAYS}
    if worst["forward"] > NEARLY:
        return Verdict.UNDECIDED
    if min(found["backward gap"]) > NEARLY or max(found["backward misled"]) < SAME or max(found["past moved"]) > 0:
        return Verdict.FAILS
    if min(found["backward misled"]) < MISLED or max(found["forward misled"]) > SAME:
        return Verdict.UNDECIDED
    if max(worst.values()) <= LEARNT:
        return Verdict.HOLDS
    return Verdict.LIMITS if worst["backward"] <= NEARLY else Verdict.UNDECIDED


CLAIM = Claim(
    statement="What came before can be learnt from what follows as well as the reverse, but is not caused by it.",
    sources=(
        "Zhang et al., Dive into Deep Learning, Sequence models",
        "Pearl 2009, Causality",
        "the sequence-model note: 「这并不意味着其是有意义的」",
    ),
    experiment=f"""A GRU reads the text of a Markov chain, another reads it from its end; then in {WORLDS:,} runs of the
    chain the middle letter is set by hand with all noise kept, and each model is asked for the letter that follows it
    in its own direction.""",
    decided=f"""{LENGTH[0]:,} letters ({LENGTH[1]:,} in full), {STEPS[0]} steps of {BATCH} rows of {CONTEXT}
    ({STEPS[1]:,} in full), width {WIDTH}, rate {decimal(RATE)}, {SEEDS[0]} seeds ({SEEDS[1]}). Holds if in every seed
    both models are within {decimal(LEARNT)} nats of the chain's own likelihood, the letters before the one that was set
    do not move, setting it adds at most {decimal(SAME)} nats for the forward model and at least {decimal(MISLED)} for
    the backward one; within limits if the models are only within {decimal(NEARLY)}; does not hold if the backward model
    is never within {decimal(NEARLY)}, is never misled by {decimal(SAME)}, or the past moves; otherwise undecided.""",
    run=run,
    chapter=1,
    note="""The note says that a reverse conditional need not be meaningful. It is a true conditional of what is
    observed; what it lacks is a say about what happens when somebody steps in.""",
)
