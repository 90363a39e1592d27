"""What an RNN keeps while it is trained, and what it keeps while it is used, by the length of the context."""

from collections.abc import Mapping

import torch

from ..core import state as states
from ..layers import LAYERS
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import exponent, kept_bytes, outputs
from .laboratory.figures import growth, limits, rows

DIM, LENGTHS, SEGMENT = 32, (64, 128, 256, 512, 1024), 64
RNNS = ("rnn", "gru", "lstm")
GROWS, CONSTANT = 0.9, 0.01  # exponents


def training(name: str, length: int, device: str) -> int:
    """Bytes kept for a backward pass through the whole context."""
    layer = LAYERS[name](dim=DIM).build().to(device)
    x = torch.randn(1, length, DIM, device=device)
    return kept_bytes(lambda: outputs(layer)(x), [x, *layer.parameters()])


def truncated(name: str, length: int, device: str) -> int:
    """The most that is kept at a time where gradients are cut every SEGMENT steps."""
    layer = LAYERS[name](dim=DIM).build().to(device)
    state, most = layer.initial_state(1), 0
    for _ in range(0, length, SEGMENT):
        x = torch.randn(1, SEGMENT, DIM, device=device)
        most = max(most, kept_bytes(lambda x=x, state=state: layer(x, state), [x, *layer.parameters()]))
        state = states.detach(layer(x, state)[1])
    return most


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
    cut = {name: [truncated(name, n, device) for n in LENGTHS] for name in RNNS}
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
            f"{cut[shown][-1]:,}. Use: the state is {state[shown][0]:,} bytes after {LENGTHS[0]} steps and "
            f"{state[shown][-1]:,} after {LENGTHS[-1]:,}."
            + limits(verdict, " It is true of training through the whole context, not of use.")
        ),
        figures={
            "lengths": list(LENGTHS),
            "training": kept,
            "truncated": cut,
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
            )
        ],
    )


CLAIM = Claim(
    statement="The memory that an RNN needs grows with its context.",
    sources=("001_56d5b8bda4e4cf77.txt", "002_4ebd1d3d18a29ec3.txt"),
    experiment="Bytes kept for the backward pass, and bytes of state in use, at growing length.",
    decided=f"""rnn, gru and lstm of width {DIM}, {LENGTHS[0]} to {LENGTHS[-1]:,} steps: growing is an exponent of at
    least {GROWS}, constant one of at most {CONSTANT}. Both grow: holds; training grows and the state in use is
    constant: within limits; else it does not hold.""",
    note="""Notes 001 and 002 say that hidden states need much memory when the context is long. That is
    backpropagation's doing: an RNN in use forgets its old states, which is the point of it.""",
    run=run,
)
