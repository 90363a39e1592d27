"""Perplexity at its two fixed points, by the house's own measure of text.

Three language models built by hand over the same kind of network: one whose logits are all 0, one that is sure of the
token that does come, one that is sure of a token that never comes.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from ..core.chart import Line
from ..models import language
from ..tasks.text.task import TextTask
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import bars
from .laboratory.training import token_task

VOCABULARIES = (2, 27, 512)
TOKENS, CONTEXT = 4_097, 64
SURE = 50.0  # the logit of a model that is certain
CLOSE = 1e-5  # relative


def cycle(size: int) -> TextTask:
    """A text in which each token has one successor: 0, 1, 2, … and again."""
    tokens = (np.arange(TOKENS) % size).astype(np.uint16)
    letters = "".join(chr(0x4E00 + i) for i in range(size))
    return token_task(f"cycle of {size}", letters, tokens, tokens, context=CONTEXT)


def guesser(size: int, sure: float, ahead: int) -> language.LanguageModel:
    """Says that the token `ahead` places further on in the cycle comes next, with a logit of `sure`."""
    settings = {"vocab": size, "model": "ar", "width": size, "layers": 1, "tie": False, "layer": {"tau": 1}}
    model = language.Config(**settings).build()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight.copy_(torch.eye(size))
        model.body.layers[0].map.weight.copy_(torch.eye(size))
        model.head.weight.copy_(sure * torch.eye(size).roll(ahead, 0))
    return model.eval()


def judge(uniform: Sequence[float], perfect: Sequence[float]) -> Verdict:
    """Relative errors of the two fixed points."""
    return Verdict.HOLDS if max(*uniform, *perfect) <= CLOSE else Verdict.FAILS


def run(effort: Effort) -> Found:
    found: dict[int, dict[str, float]] = {}
    for size in VOCABULARIES:
        task = cycle(size)
        kinds = {"uniform": (0.0, 1), "perfect": (SURE, 1), "sure and wrong": (SURE, 0)}
        found[size] = {
            name: task.evaluate(guesser(size, sure, ahead), "valid")["perplexity"]
            for name, (sure, ahead) in kinds.items()
        }
    uniform = [abs(row["uniform"] / size - 1) for size, row in found.items()]
    perfect = [abs(row["perfect"] - 1) for row in found.values()]
    shown = ", ".join(f"{row['uniform']:.4f} of {size}" for size, row in found.items())
    names = [str(size) for size in VOCABULARIES]
    return Found(
        verdict=judge(uniform, perfect),
        summary=(
            f"Uniform guessing: {shown}; a perfect model: {max(row['perfect'] for row in found.values()):.6f}. There "
            f"is no upper end: being sure of a wrong token gives {found[VOCABULARIES[-1]]['sure and wrong']:.1e} "
            f"(e to the power of the logit, {SURE:g})."
        ),
        figures={
            "perplexity": {str(size): row for size, row in found.items()},
            "uniform_error": max(uniform),
            "perfect_error": max(perfect),
        },
        charts=[
            bars(
                "Perplexity of three guessers",
                "size of the vocabulary",
                "perplexity",
                [
                    Line(name, names, [found[size][name] for size in VOCABULARIES])
                    for name in ("perfect", "uniform", "sure and wrong")
                ],
                log_y=True,
                level=math.exp(0.0),
                level_name="a perfect model",
            )
        ],
    )


CLAIM = Claim(
    statement="Uniform guessing has a perplexity of the vocabulary's size, a perfect model one of 1.",
    sources=("Jelinek, Mercer, Bahl & Baker 1977", "the sequence-model note: 「困惑度为词表中唯一词元的数量」"),
    experiment="Three hand-made language models measured on a text of known order by the task that measures every run.",
    decided=f"Vocabularies of {VOCABULARIES}: both within {CLOSE:g} of their value, relatively.",
    note="""The sequence-model note calls guessing at random the baseline. The frequencies of the words alone already
    beat it on any real text, so `recollect eval` shows both.""",
    run=run,
    chapter=2,
    deterministic=True,
)
