"""Kernel regression beside self-attention, with the same queries, keys and values.

A learner without parameters that is trained on the pairs (key, value) read so far, by keeping them, says of a query the
mean of the values weighted by a kernel: Nadaraya (1964) and Watson (1964).
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ..core.chart import Chart, Line
from ..layers import attention
from .claim import Claim, Effort, Found, Verdict

DIM, HEADS, STEPS, ROWS, SEED = 12, 2, 40, 3, 0
SIZE = DIM // HEADS
EXACT = 1e-10  # relative to the largest entry
OTHER = 1e-3  # a kernel that differs changes the outputs by at least so much
Kernel = Callable[[Tensor, Tensor], Tensor]


def exponential(q: Tensor, k: Tensor, width: float = SIZE**0.5) -> Tensor:
    """exp(q·k / width): a query and a key, both of d numbers."""
    return torch.exp(q @ k / width)


def gaussian(q: Tensor, k: Tensor) -> Tensor:
    """exp(−|q − k|² / 2√d), which is exp(q·k / √d) once |q| and |k| are the same for all keys."""
    return torch.exp(-(q - k).square().sum() / (2 * SIZE**0.5))


KERNELS: dict[str, Kernel] = {
    "exp(q·k), without √d": partial(exponential, width=1.0),
    "Gaussian": gaussian,
    "even weights": lambda q, k: torch.ones((), dtype=q.dtype),
}


def regress(layer: attention.Attention, x: Tensor, kernel: Kernel, unit: bool = False) -> Tensor:
    """What kernel regression says at each step of each row, by the definition: one head, one query at a time.

    With `unit` all keys are cut to a length of 1 first.
    """
    weights = {name: getattr(layer.heads, name).weight for name in ("q", "k", "v", "out")}
    rows = []
    for row in x:
        seen = []
        for t in range(len(row)):
            read = []
            for head in range(HEADS):
                own = slice(head * SIZE, (head + 1) * SIZE)
                q = weights["q"][own] @ row[t]
                keys = [weights["k"][own] @ row[s] for s in range(t + 1)]
                keys = [k / k.norm() for k in keys] if unit else keys
                near = torch.stack([kernel(q, k) for k in keys])
                values = torch.stack([weights["v"][own] @ row[s] for s in range(t + 1)])
                read.append((near[:, None] * values).sum(dim=0) / near.sum())
            seen.append(weights["out"] @ torch.cat(read))
        rows.append(torch.stack(seen))
    return torch.stack(rows)


def difference(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


def compare(layer: attention.Attention, x: Tensor) -> dict[str, float]:
    """Relative differences between kernel regression and the layer: of outputs and of the gradient of the inputs."""
    pairs = []
    for read in (
        partial(regress, layer, kernel=exponential),
        lambda x: layer(x, layer.initial_state(len(x), like=x))[0],
    ):
        seen = x.clone().requires_grad_()
        y = read(seen)
        pairs.append((y.detach(), *torch.autograd.grad(y.square().sum(), seen)))
    (y, slope), (expected, wanted) = pairs
    return {"outputs": difference(y, expected), "gradients": difference(slope, wanted)}


def judge(errors: dict[str, float], others: dict[str, float]) -> Verdict:
    """Errors with the kernel exp(q·k/√d), and how far other kernels are from attention."""
    if max(errors.values()) > EXACT:
        return Verdict.FAILS
    return Verdict.HOLDS if min(others.values()) >= OTHER else Verdict.LIMITS


def run(effort: Effort) -> Found:
    torch.manual_seed(SEED)
    layer = attention.Config(dim=DIM, heads=HEADS).build().double()
    x = torch.randn(ROWS, STEPS, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(SEED))
    errors = compare(layer, x)
    with torch.no_grad():
        expected = layer(x, layer.initial_state(ROWS, like=x))[0]
        others = {name: difference(regress(layer, x, kernel), expected) for name, kernel in KERNELS.items()}
        alike = difference(regress(layer, x, gaussian, unit=True), regress(layer, x, exponential, unit=True))
    told = ", ".join(f"{name} {value:.2g}" for name, value in others.items())
    return Found(
        verdict=judge(errors, others),
        summary=(
            f"With the kernel exp(q·k/√d), outputs and gradients agree with attention within "
            f"{max(errors.values()):.0e}. Other kernels change the outputs by (share of the largest): {told}. Between "
            f"keys of one length the Gaussian kernel is the same one (within {alike:.0e}): its |q|² cancels, and only "
            "its |k|², which attention does not have, differs from key to key."
        ),
        figures={"difference": errors, "other_kernels": others, "gaussian_between_keys_of_one_length": alike},
        charts=[
            Chart(
                "How far kernel regression is from attention, by kernel",
                "kernel",
                "largest relative difference of the outputs",
                [Line("difference", ["exp(q·k/√d)", *others], [max(errors["outputs"], 1e-16), *others.values()])],
                kind="bars",
                log_y=True,
            )
        ],
    )


CLAIM = Claim(
    statement="Kernel regression (Nadaraya–Watson) with the kernel exp(q·k/√d) is self-attention.",
    sources=(
        "Sun et al. 2024, arXiv 2407.04620, theorem 2",
        "Nadaraya 1964; Watson 1964",
        "Zhang et al., Dive into Deep Learning, Attention Pooling by Similarity",
    ),
    experiment="""Kernel regression, written out as sums over the pairs read so far, on the queries, keys and values of
    our attention layer, and that layer; then other kernels in its place.""",
    decided=f"""{ROWS} rows of {STEPS} steps, width {DIM}, {HEADS} heads, float64. Does not hold unless outputs and the
    gradient of the inputs are within {EXACT:g} of each other, relative to the largest entry; holds if every other
    kernel changes the outputs by at least {OTHER:g}, so that it is this kernel that does it; else within limits.""",
    note="""In the theorem's words: test-time training whose inner model is this regression, a learner without
    parameters that learns a pair by keeping it, is self-attention. What it keeps is the KV cache, which is why it
    grows. The kernel is not symmetric, since a query and a key are made by different matrices.""",
    run=run,
    chapter=12,
    deterministic=True,
)
