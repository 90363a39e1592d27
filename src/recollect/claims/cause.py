"""The past does not see the future: the Cause law on every layer, and what happens to a model that cheats in training.

Two Transformers learn a text in which each letter has four equally likely successors, so that nobody can be better than
ln 4 nats. One of them is trained without the causal mask: it can look the answer up, one place to the right.
"""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from ..core import laws
from ..core.chart import Chart, Line
from ..core.contract import Example, Layer
from ..decode.engine import generate_tokens
from ..decode.position import read_prompts
from ..decode.sampling import Config as Sampling
from ..layers import attention
from ..models import language
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import breaks, law_breakers
from .laboratory.training import fit, token_task

LETTERS, SUCCESSORS = 16, 4
TOKENS, CONTEXT, BATCH, STEPS, RATE = 40_000, 32, 16, 500, 3e-3
WIDTH, LAYERS, HEADS = 32, 2, 2
STEPS_READ = 8  # by the layers that are put to the law
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


def learn(masked: bool, device: str) -> Judged:
    """Train one of the two and see how it reads and writes."""
    letters = "".join(chr(ord("a") + i) for i in range(LETTERS))
    sizes = {"context": CONTEXT, "batch": BATCH, "eval_tokens": TOKENS // 10}
    task = token_task("a chain of letters", letters, text(TOKENS, 0), text(TOKENS // 10, 1), device, **sizes)
    config = language.Config(
        vocab=LETTERS, model="transformer", width=WIDTH, layers=LAYERS, heads=HEADS, layer={"masked": masked}
    )
    settings = {"warmup": STEPS // 10, "weight_decay": 0.1}
    model = fit(task, config.build, steps=STEPS, rate=RATE, seed=0, device=device, **settings)
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


def see_no_future(layer: Layer[Any], example: Example) -> None:
    """The Cause law at every step but the first."""
    for t in range(1, STEPS_READ):
        laws.cause(layer, example.x, t, memory=example.memory)


def unmasked_breaks() -> bool:
    """Whether attention without its mask breaks the Cause law."""
    config = attention.Config(dim=8, masked=False)
    return breaks(laws.cause, config.build().double(), config.example(2, STEPS_READ).x, 4)


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
    count, broken = law_breakers(see_no_future, STEPS_READ)
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
                "Trained with and without the causal mask",
                "how it is read",
                "nats a letter",
                [
                    Line("with the mask", names, [honest.train, honest.stepwise]),
                    Line("without", names, [cheat.train, cheat.stepwise]),
                ],
                kind="bars",
                level=math.log(SUCCESSORS),
                level_name="the best that is possible",
            )
        ],
    )


CLAIM = Claim(
    statement="What a sequence model says at a step does not depend on later inputs, and training must not let it.",
    sources=(
        "Vaswani et al. 2017, section 3.2.3",
        "the Transformer note: 「我们在训练时不希望让其看到完整的输出」",
        "the sequence-model note: 「t 时刻之前的值、分布是不受到影响的」",
    ),
    experiment="""The Cause law on every layer of the lineage; and two Transformers on a text with four equally likely
    successors of each letter, one trained without the mask, then both writing by themselves.""",
    decided=f"""No layer may break the law (1e-10, float64), and attention without its mask must. Within the training:
    {LAYERS} layers of width {WIDTH}, {STEPS} steps of {BATCH} × {CONTEXT}, one seed; without the mask the training loss
    must be at most {CHEAPER:g} of that with it, and impossible successions in the writing at least {OFTEN:.0%} and
    {WORSE:g} times as many. If only the law holds: within limits.""",
    note="""The sequence-model note says it of time series: changing x_t leaves what came before alone. In a network
    that is a property of how it is wired, so it is tested as a law.""",
    run=run,
    chapter=2,
    deterministic=True,
)
