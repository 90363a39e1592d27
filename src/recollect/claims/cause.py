"""The past does not see the future: the Cause law on every layer, and what happens to a model that cheats in training.

Two Transformers learn a text in which each letter has four equally likely successors, so that nobody can be better than
ln 4 nats. One of them is trained without the causal mask: it can look the answer up, one place to the right.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from ..core import laws
from ..core.chart import Chart, Line
from ..data.chars_and_bytes import Chars
from ..data.corpus import Corpus
from ..decode.engine import generate_tokens
from ..decode.position import read_prompts
from ..decode.sampling import Config as Sampling
from ..layers import LINEAGE, attention
from ..models import language
from ..tasks.text import Config as TaskConfig
from ..tasks.text import TextTask
from ..train.loop import Trainer
from ..train.settings import Settings
from .claim import Claim, Effort, Found, Verdict

LETTERS, SUCCESSORS = 16, 4
TOKENS, CONTEXT, BATCH, STEPS, RATE = 40_000, 32, 16, 500, 3e-3
WIDTH, LAYERS, HEADS = 32, 2, 2
WRITTEN, ROWS = 64, 16  # letters that each model writes, and how many texts
CHEAPER = 0.5  # training loss without the mask, as a share of that with it: at most this
WORSE = 5.0  # impossible successions written without the mask, as a multiple of those with it: at least this
OFTEN = 0.25  # and at least this share of all


class Judged(NamedTuple):
    """What one model reached."""

    train: float  # nats a letter, read as it was trained
    stepwise: float  # nats a letter of a new text, one letter at a time
    impossible: float  # share of successions in what it writes that the text does not have


def successors() -> np.ndarray:
    """LETTERS SUCCESSORS: what may follow each letter."""
    draw = np.random.default_rng(0)
    return np.stack([draw.permutation(LETTERS)[:SUCCESSORS] for _ in range(LETTERS)])


def text(length: int, seed: int) -> np.ndarray:
    choices, draw = successors(), np.random.default_rng([1, seed])
    tokens = np.zeros(length, dtype=np.uint16)
    for at, choice in enumerate(draw.integers(SUCCESSORS, size=length - 1), 1):
        tokens[at] = choices[tokens[at - 1], choice]
    return tokens


def corpus() -> Corpus:
    train, valid = text(TOKENS, 0), text(TOKENS // 10, 1)
    return Corpus(
        name="a chain of letters",
        tokenizer=Chars([chr(ord("a") + i) for i in range(LETTERS)]),
        train=train,  # type: ignore[arg-type]
        valid=valid,  # type: ignore[arg-type]
        test=None,
        text_bytes={"train": len(train), "valid": len(valid)},
        unknown_share={},
        fingerprint="a chain of letters",
        notes=[],
    )


def learn(masked: bool, device: str) -> Judged:
    """Train one of the two and see how it reads and writes."""
    task = TextTask(TaskConfig(context=CONTEXT, batch=BATCH, eval_tokens=TOKENS // 10), corpus(), device)
    torch.manual_seed(0)
    model = language.Config(
        vocab=LETTERS, model="transformer", width=WIDTH, layers=LAYERS, heads=HEADS, layer={"masked": masked}
    ).build()
    settings = Settings(steps=STEPS, lr=RATE, warmup=STEPS // 10, eval_every=STEPS, save_every=STEPS)
    Trainer(task, model, settings, None, torch.device(device)).run()
    windows = torch.from_numpy(text((CONTEXT + 1) * ROWS, 2).astype(np.int64)).view(ROWS, -1).to(device)
    with torch.no_grad():
        logits, _ = model.unroll(windows[:, :-1], model.initial_state(ROWS))
        stepwise = float(cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()))
    position = read_prompts(model, [[letter] for letter in range(ROWS)])
    for _ in generate_tokens(model, position, Sampling(length=WRITTEN)):
        pass
    allowed = [set(row.tolist()) for row in successors()]
    wrong = [b not in allowed[a] for row in position.written for a, b in pairwise(row)]
    train = task.evaluate(model, "train")["nats_per_token"]
    return Judged(train, stepwise, sum(wrong) / len(wrong))


def lawful() -> tuple[int, list[str]]:
    """How many settings of layers were put to the Cause law, and those that broke it."""
    torch.manual_seed(0)
    broken, count = [], 0
    for name, kind in LINEAGE.items():
        for config in kind.variants():
            example = config.example(2, 8)
            layer = config.build().double().eval()
            count += 1
            try:
                for t in range(1, 8):
                    laws.cause(layer, example.x, t, memory=example.memory)
            except laws.LawBroken:
                broken.append(name)
    return count, broken


def unmasked_breaks() -> bool:
    config = attention.Config(dim=8, masked=False)
    try:
        laws.cause(config.build().double(), config.example(2, 8).x, 4)
    except laws.LawBroken:
        return True
    return False


def judge(broken: int, caught: bool, honest: Judged, cheat: Judged) -> Verdict:
    """`broken`: layers that break the law; `caught`: whether attention without its mask does."""
    if broken or not caught:
        return Verdict.FAILS
    cheaper = cheat.train <= CHEAPER * honest.train
    worse = cheat.impossible >= max(OFTEN, WORSE * honest.impossible)
    if cheaper and worse:
        return Verdict.HOLDS
    return Verdict.LIMITS  # the law holds; what leaving the mask out costs does not show here


def run(effort: Effort) -> Found:
    count, broken = lawful()
    honest, cheat = learn(True, effort.device), learn(False, effort.device)
    names = ["loss in training", "loss step by step"]
    return Found(
        verdict=judge(len(broken), unmasked_breaks(), honest, cheat),
        summary=(
            f"{count - len(broken)} of {count} settings of all layers keep the law; attention without its mask "
            f"{'breaks it' if unmasked_breaks() else 'keeps it too'}. Trained without the mask the loss is "
            f"{cheat.train:.3f} nats instead of {honest.train:.3f} (nobody honest can go below "
            f"{math.log(SUCCESSORS):.3f}), but step by step it is {cheat.stepwise:.2f} instead of "
            f"{honest.stepwise:.2f}, and {cheat.impossible:.0%} of the successions that it writes are impossible "
            f"({honest.impossible:.1%} with the mask)."
        ),
        figures={
            "settings": count,
            "broken": broken,
            "masked": honest._asdict(),
            "unmasked": cheat._asdict(),
            "entropy": math.log(SUCCESSORS),
        },
        charts=[
            Chart(
                title="Trained with and without the causal mask",
                x="how it is read",
                y="nats a letter",
                lines=[
                    Line(name="with the mask", x=names, y=[honest.train, honest.stepwise]),
                    Line(name="without", x=names, y=[cheat.train, cheat.stepwise]),
                ],
                kind="bars",
                level=math.log(SUCCESSORS),
                level_name="the best that is possible",
            )
        ],
    )


CLAIM = Claim(
    id="cause",
    statement="What a sequence model says at a step does not depend on later inputs, and training must not let it.",
    sources=("Vaswani et al. 2017, section 3.2.3", "002_4ebd1d3d18a29ec3.txt", "003_c6efc9a4698e0e4d.txt"),
    experiment=(
        "The Cause law on every layer of the lineage; and two Transformers on a text with four equally likely "
        "successors of each letter, one trained without the mask, then both writing by themselves."
    ),
    decided=(
        "No layer may break the law (1e-10, float64), and attention without its mask must. Within the training: "
        f"{LAYERS} layers of width {WIDTH}, {STEPS} steps of {BATCH} × {CONTEXT}, one seed; without the mask the "
        f"training loss must be at most {CHEAPER:g} of that with it, and impossible successions in the writing at "
        f"least {OFTEN:.0%} and {WORSE:g} times as many. If only the law holds: within limits."
    ),
    note=(
        "Note 003 says it of time series: changing x_t leaves what came before alone. In a network that is a property "
        "of how it is wired, so it is tested as a law."
    ),
    run=run,
    deterministic=True,
)
