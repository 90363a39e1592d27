"""What an RNN keeps while it is trained, and what it keeps while it is used, by the length of the context."""

from collections.abc import Mapping

import numpy as np
import torch

from ..core import state as states
from ..core.bptt import BpttName
from ..layers import LAYERS
from ..models import language
from ..training.loop import Trainer
from ..training.settings import Settings
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import exponent, peak_kept_bytes
from .laboratory.figures import growth, limits, rows
from .laboratory.training import token_task

DIM, LENGTHS, SEGMENT = 32, (64, 128, 256, 512, 1024), 64
SEGMENTS = (16, 32, 64, 128, 256, 512, 1024)  # of the longest context
RNNS = ("rnn", "gru", "lstm")
LETTERS = "ab"
GROWS, CONSTANT = 0.9, 0.01  # exponents


def training(name: str, length: int, device: str, bptt: BpttName = "full", segment: int = SEGMENT) -> int:
    """The most bytes that the trainer keeps at a time for a backward pass, in a step over one row of so many tokens."""
    text = np.random.default_rng(0).integers(len(LETTERS), size=2 * length + 2, dtype=np.uint16)
    settings = {"context": length, "batch": 1, "bptt": bptt, "segment": segment, "eval_tokens": 2}
    task = token_task("letters", LETTERS, text, text, device, **settings)
    model = language.Config(vocab=len(LETTERS), model=name, width=DIM, layers=1).build()
    trainer = Trainer(task, model, Settings(steps=1, warmup=0), None, torch.device(device))
    return peak_kept_bytes(trainer.run, trainer.model.parameters())


@torch.no_grad()
def using(name: str, length: int, device: str) -> int:
    """Bytes of state after so many steps, one at a time."""
    layer = LAYERS[name](dim=DIM).build().to(device)
    state = layer.initial_state(1)
    for x_t in torch.randn(1, length, DIM, device=device).split(1, dim=1):
        _, state = layer(x_t, state)
    return states.nbytes(state)


def judge(trained: Mapping[str, float], used: Mapping[str, float]) -> Verdict:
    """Exponents of what is kept in training and in use, by cell."""
    grows = [min(found.values()) >= GROWS for found in (trained, used)]
    constant = [max(found.values()) <= CONSTANT for found in (trained, used)]
    if all(grows):
        return Verdict.HOLDS
    if grows[0] and constant[1]:
        return Verdict.LIMITS
    return Verdict.FAILS


def run(effort: Effort) -> Found:
    torch.manual_seed(0)
    device = effort.device
    kept = {name: [training(name, n, device) for n in LENGTHS] for name in RNNS}
    cut = {name: [training(name, n, device, "truncated") for n in LENGTHS] for name in RNNS}
    by_segment = {name: [training(name, LENGTHS[-1], device, "truncated", n) for n in SEGMENTS] for name in RNNS}
    state = {name: [using(name, n, device) for n in LENGTHS] for name in RNNS}
    powers = [{name: exponent(LENGTHS, row) for name, row in found.items()} for found in (kept, state, cut)]
    shown = "lstm"
    verdict = judge(powers[0], powers[1])
    return Found(
        verdict=verdict,
        summary=(
            f"Training: what is kept for the backward pass grows as n^{min(powers[0].values()):.2f} to "
            f"n^{max(powers[0].values()):.2f} ({shown}: {kept[shown][0]:,} bytes at {LENGTHS[0]} steps, "
            f"{kept[shown][-1]:,} at {LENGTHS[-1]:,}); with gradients cut every {SEGMENT} steps it stays at "
            f"{cut[shown][-1]:,}. Over {LENGTHS[-1]:,} steps it is {by_segment[shown][0]:,} with segments of "
            f"{SEGMENTS[0]} and {by_segment[shown][-1]:,} with one. Use: the state is {state[shown][0]:,} bytes after "
            f"{LENGTHS[0]} steps and {state[shown][-1]:,} after {LENGTHS[-1]:,}."
            + limits(verdict, " It is true of training through the whole context, not of use.")
        ),
        figures={
            "lengths": list(LENGTHS),
            "training": kept,
            "truncated": cut,
            "segments": list(SEGMENTS),
            "by_segment": by_segment,
            "state": state,
            "exponents": dict(zip(("training", "state", "truncated"), powers, strict=True)),
        },
        charts=[
            growth(
                f"What an RNN of width {DIM} keeps, by context",
                "steps of context",
                "bytes",
                rows(LENGTHS, {f"{name}, training": kept[name] for name in RNNS})
                + rows(LENGTHS, {f"{shown}, cut every {SEGMENT}": cut[shown]})
                + rows(LENGTHS, {f"{name}, in use": state[name] for name in RNNS}),
            ),
            growth(
                f"What training keeps over {LENGTHS[-1]:,} steps, by the segment between cuts",
                "steps of a segment",
                "bytes",
                rows(SEGMENTS, by_segment),
            ),
        ],
    )


CLAIM = Claim(
    statement="The memory that an RNN needs grows with its context.",
    sources=(
        "the overview note: 「当面对长序列时，RNN需要大量内存来维持长序列的隐状态」",
        "the Transformer note: 「隐藏状态需要占用大量内存空间」",
    ),
    experiment="""The most bytes that the trainer keeps at a time for the backward pass of a language model, with the
    full gradient and with regular cuts, and bytes of state in use, at growing length.""",
    decided=f"""rnn, gru and lstm of width {DIM}, {LENGTHS[0]} to {LENGTHS[-1]:,} steps: growing is an exponent of at
    least {GROWS}, constant one of at most {CONSTANT}. Both grow: holds; training grows and the state in use is
    constant: within limits; else it does not hold.""",
    note="""The notes say that hidden states need much memory when the context is long. Of training that is right, and
    it is backpropagation's doing; an RNN in use forgets its old states, which is the point of it.""",
    run=run,
    chapter=3,
)
