"""The delta rule beside test-time training with a step after every input, with the same projections.

Keys of length one come of rotations and of inputs that have length one in each head, so that both layers see the very
same keys; β of the one and η of the other are the same function of the input.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..core.chart import Chart, Line
from ..layers import delta, ttt
from .claim import Claim, Effort, Found, Verdict
from .ttt_linear import difference

DIM, HEADS, STEPS, ROWS, SEED = 12, 2, 40, 3, 0
EXACT = 1e-10
STRENGTHS = (1.0, 2.0)  # the largest β: eigenvalues of a write in (0, 1), or in (−1, 1)
PLAIN = {"norm": False, "learn_start": False, "average": False, "out_norm": False, "bias": False, "mini_batch": 1}
SWITCHES = {  # one change each, away from the delta rule
    "a step every 8 inputs": {"mini_batch": 8},
    "a learned W₀": {"learn_start": True},
    "a bias inside": {"bias": True},
    "a LayerNorm and a residual inside": {"norm": True},
}


def pair(strength: float, **changes: object) -> tuple[ttt.Ttt, Any]:
    """TTT with a few changes, and the delta rule with its projections and rates."""
    torch.manual_seed(SEED)
    size = DIM // HEADS
    settings = {"dim": DIM, "heads": HEADS, "rate": strength * size} | PLAIN | changes
    inner = ttt.Config(**settings).build().double()  # type: ignore[arg-type]
    plain = delta.Config(dim=DIM, heads=HEADS, beta=strength, feature="identity", out_norm=False).build().double()
    with torch.no_grad():
        for name in ("q", "k"):
            turns = [torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0] for _ in range(HEADS)]
            getattr(inner, name).weight.copy_(torch.block_diag(*turns))
        for name in ("q", "k", "v", "out"):
            getattr(plain, name).weight.copy_(getattr(inner, name).weight)
        plain.strength.weight.copy_(inner.rate.weight)
        plain.strength_bias.copy_(inner.rate.bias)
    return inner, plain


def compare(x: Tensor, strength: float, **changes: object) -> dict[str, float]:
    """Relative differences of outputs, of the state and of the gradient of the inputs."""
    read = []
    layers: tuple[Any, ...] = pair(strength, **changes)
    for layer in layers:
        seen = x.clone().requires_grad_()
        unit = normalize(seen.unflatten(-1, (HEADS, -1)), dim=-1).flatten(-2)
        y, state = layer(unit, layer.initial_state(len(x), like=x))
        (slope,) = torch.autograd.grad(y.square().sum(), seen)
        read.append((y.detach(), state, slope))
    (y, state, slope), (expected, sums, wanted) = read
    weights = state.model.weights[0] - state.gradient.weights[0]
    return {
        "outputs": difference(y, expected),
        "state": difference(weights.detach(), sums.sums.detach()),
        "gradients": difference(slope, wanted),
    }


def judge(errors: dict[str, dict[str, float]]) -> Verdict:
    return Verdict.HOLDS if max(max(own.values()) for own in errors.values()) <= EXACT else Verdict.FAILS


def run(effort: Effort) -> Found:
    x = torch.randn(ROWS, STEPS, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(SEED))
    errors = {f"{strength:g}": compare(x, strength) for strength in STRENGTHS}
    apart = {name: compare(x, STRENGTHS[0], **change)["outputs"] for name, change in SWITCHES.items()}
    largest = max(max(own.values()) for own in errors.values())
    told = ", ".join(f"{value:.2g} by {name}" for name, value in apart.items())
    return Found(
        verdict=judge(errors),
        summary=(
            f"Outputs, state (W against S) and gradients agree within {largest:.0e}, with β up to "
            f"{' and up to '.join(errors)}. What makes TTT more than a delta rule, as the largest relative change of "
            f"the outputs: {told}."
        ),
        figures={"difference": errors, "one_change": apart},
        charts=[
            Chart(
                "How far TTT is from the delta rule, one change at a time",
                "change",
                "largest relative difference of the outputs",
                [Line("difference", ["none", *apart], [max(largest, 1e-16), *apart.values()])],
                kind="bars",
                log_y=True,
            )
        ],
    )


CLAIM = Claim(
    statement="DeltaNet is test-time training of f(x) = Wx with a gradient step after every input, from W₀ = 0.",
    sources=(
        "Schlag 2021, Linear Transformers Are Secretly Fast Weight Programmers (arXiv 2102.11174)",
        "Yang 2024, Parallelizing Linear Transformers with the Delta Rule over Sequence Length (arXiv 2406.06484)",
        "Sun 2024, Learning to (Learn at Test Time) (arXiv 2407.04620)",
    ),
    experiment="""Both layers with the same projections on the same random input: TTT-linear with mini-batches of 1 and
    neither bias, norm, residual nor a learned start, whose learned rate η is the delta rule's β.""",
    decided=f"""{ROWS} rows of {STEPS} steps, width {DIM}, {HEADS} heads, float64, keys and queries of length 1, β up to
    {STRENGTHS[0]:g} and up to {STRENGTHS[1]:g}: outputs, final state and the gradient of the input within {EXACT:g} of
    each other, relative to the largest entry.""",
    note="""DeltaNet brings keys to length 1 and TTT does not; so the inputs here have length 1 in each head, and keys
    and queries are turned by rotations. The fast forms are compared, and those are two different computations: TTT goes
    input by input, the delta rule by a triangular system for each chunk.""",
    run=run,
    chapter=13,
    deterministic=True,
)
