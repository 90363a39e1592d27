"""How far back a stack of convolutions sees: counted by gradient, and by formula."""

from collections.abc import Callable, Mapping

import torch

from ..core.chart import Chart
from ..layers import combine, conv
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import outputs
from .laboratory.figures import limits, rows

KERNEL, DEPTHS, DIM = 3, (1, 2, 3, 4, 5, 6), 4
TARGET = 1024  # inputs to be seen
WIDE = 64  # the kernel of a single layer beside the stacks
MANY = 10  # a plain stack needs this many times the layers of a dilated one: then it is dilation that decides


def seen(dilations: list[int], kernel: int = KERNEL) -> int:
    """Inputs that the last output of a stack depends on, by gradient."""
    torch.manual_seed(0)
    layers = tuple(conv.Config(dim=DIM, kernel=kernel, dilation=dilation) for dilation in dilations)
    stack = combine.StackConfig(dim=DIM, layers=layers).build().double()
    longest = formula(dilations, kernel) + 8
    x = torch.randn(1, longest, DIM, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(outputs(stack)(x)[0, -1].sum(), x)
    return int((gradient[0].abs().amax(dim=-1) > 0).sum())


def formula(dilations: list[int], kernel: int = KERNEL) -> int:
    return 1 + (kernel - 1) * sum(dilations)


def plain(depth: int) -> list[int]:
    return [1] * depth


def doubling(depth: int) -> list[int]:
    return [2**level for level in range(depth)]


def layers_for(target: int, dilations: Callable[[int], list[int]]) -> int:
    """The least depth that sees `target` inputs."""
    depth = 1
    while formula(dilations(depth)) < target:
        depth += 1
    return depth


def judge(wrong: int, needed: Mapping[str, int]) -> Verdict:
    """`wrong`: stacks whose measured field is not the formula's; `needed`: layers to see TARGET inputs."""
    if wrong or needed["plain"] <= 1:
        return Verdict.FAILS
    return Verdict.LIMITS if needed["plain"] >= MANY * needed["doubling"] else Verdict.HOLDS


def run(effort: Effort) -> Found:
    stacks = {"dilation 1": plain, "dilation doubling": doubling}
    measured = {name: [seen(build(depth)) for depth in DEPTHS] for name, build in stacks.items()}
    wrong = sum(
        found != formula(stacks[name](depth))
        for name, row in measured.items()
        for depth, found in zip(DEPTHS, row, strict=True)
    )
    needed = {name: layers_for(TARGET, build) for name, build in (("plain", plain), ("doubling", doubling))}
    one = seen([1], kernel=WIDE)
    verdict = judge(wrong, needed)
    return Found(
        verdict=verdict,
        summary=(
            f"Measured fields equal 1 + (k−1)·Σ dilation in {2 * len(DEPTHS) - wrong} of {2 * len(DEPTHS)} stacks. To "
            f"see {TARGET:,} inputs with {KERNEL} taps takes {needed['plain']} layers without dilation and "
            f"{needed['doubling']} with dilations that double; one layer with a kernel of {WIDE} sees {one}."
            + limits(verdict, " So depth is the price of short kernels without dilation.")
        ),
        figures={
            "measured": measured,
            "depths": list(DEPTHS),
            "wrong": wrong,
            "layers_needed": needed,
            "kernel_64": one,
        },
        charts=[
            Chart(
                f"Inputs that a stack of convolutions sees, {KERNEL} taps",
                "layers",
                "inputs seen",
                rows(DEPTHS, measured),
                log_y=True,
            )
        ],
    )


CLAIM = Claim(
    statement="Convolution needs depth to see far.",
    sources=(
        "van den Oord et al. 2016 (WaveNet)",
        "Bai, Kolter & Koltun 2018",
        "the lecture note: 「除非堆积很多一维卷积层」",
    ),
    experiment="Count by gradient how many inputs reach the last output of a stack, by depth and dilation.",
    decided=f"""{KERNEL} taps, {DEPTHS[0]} to {DEPTHS[-1]} layers: measured must equal 1 + (k−1)·Σ dilation. Within
    limits if seeing {TARGET:,} inputs takes at least {MANY} times as many layers without dilation as with dilations
    that double: depth then matters, but its logarithm is enough.""",
    note="""The lecture note has plain stacks in mind, where the field grows by k − 1 a layer; it does not mention
    dilation.""",
    run=run,
    chapter=11,
    deterministic=True,
)
