"""How much of a gradient an LSTM's cell hands on over 50 steps, by the bias of its forget gates.

With all other weights at zero every forget gate is σ(b) and the gradient along the cell is σ(b)^50 exactly; with
torch's random weights and random inputs it is what backpropagation says.
"""

import math
import statistics
from collections.abc import Mapping

import torch
from torch import Tensor

from ..core.chart import Chart, Line
from ..layers import lstm
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import curve, interval

STEPS, WIDTH = 50, 8
BIASES = (0.0, 1.0, 2.0, 5.0)  # of the forget gate, in all
EXACT = 1e-10
SEEDS = 5
FACTOR = 1_000.0  # between the gradients at the biases 5 and 1, with random weights


def carried(layer: lstm.LSTM, x: Tensor) -> float:
    """The spectral norm of ∂c_T/∂c_0."""
    start = layer.initial_state(1, like=x)
    first = start.c.clone().requires_grad_()
    _, final = layer(x, start._replace(c=first))
    rows = [torch.autograd.grad(last, first, retain_graph=True)[0][0, 0] for last in final.c[0, 0]]
    return float(torch.linalg.matrix_norm(torch.stack(rows), ord=2))


def alone(bias: float) -> float:
    """With every other weight at zero."""
    layer = lstm.Config(dim=WIDTH).build().double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.get_parameter("bias_hh_l0")[WIDTH : 2 * WIDTH] = bias
    return carried(layer, torch.zeros(1, STEPS, WIDTH, dtype=torch.float64))


def random(bias: float, seed: int) -> float:
    """With torch's first weights and random inputs; a bias of 0 is torch's own, near it."""
    torch.manual_seed(seed)
    layer = lstm.Config(dim=WIDTH, forget_bias=bias).build().double()
    return carried(layer, torch.randn(1, STEPS, WIDTH, dtype=torch.float64))


def judge(error: float, medians: Mapping[float, float]) -> Verdict:
    holds = error <= EXACT and medians[5.0] >= FACTOR * medians[1.0]
    return Verdict.HOLDS if holds else Verdict.FAILS


def run(effort: Effort) -> Found:
    wanted = {bias: (1 / (1 + math.exp(-bias))) ** STEPS for bias in BIASES}
    found = {bias: alone(bias) for bias in BIASES}
    error = max(abs(found[bias] / wanted[bias] - 1) for bias in BIASES)
    drawn = {bias: [random(bias, seed) for seed in effort.seed_range(SEEDS, SEEDS)] for bias in BIASES}
    medians = {bias: statistics.median(values) for bias, values in drawn.items()}
    exact = ", ".join(f"{found[bias]:.2g} at b = {bias:g}" for bias in BIASES)
    loose = ", ".join(f"{m:.2g} ({min(drawn[b]):.2g} to {max(drawn[b]):.2g}) at b = {b:g}" for b, m in medians.items())
    names = [f"{bias:g}" for bias in BIASES]
    return Found(
        verdict=judge(error, medians),
        summary=(
            f"After {STEPS} steps the cell hands on σ(b)^{STEPS}: {exact} (closed form within {error:.0e}). "
            f"With random weights and inputs, median and range over seeds: {loose}."
        ),
        figures={
            "product": {str(bias): value for bias, value in found.items()},
            "closed_form_error": error,
            "random": {str(bias): list(interval(values)) for bias, values in drawn.items()},
            "random_median": {str(bias): value for bias, value in medians.items()},
        },
        charts=[
            Chart(
                f"What is left of a gradient after {STEPS} steps",
                "bias of the forget gate",
                "‖∂c_T/∂c_(T−50)‖",
                [
                    Line("gates alone", names, [found[bias] for bias in BIASES]),
                    curve(
                        "random weights and inputs", {f"{bias:g}": drawn[bias] for bias in BIASES}, statistics.median
                    ),
                ],
                log_y=True,
            )
        ],
    )


CLAIM = Claim(
    statement="An LSTM's cell carries a gradient far only while its forget gates stay open.",
    sources=(
        "Hochreiter & Schmidhuber 1997",
        "Gers, Schmidhuber & Cummins 2000",
        "Jozefowicz, Zaremba & Sutskever 2015",
    ),
    experiment=f"""∂c_T/∂c_(T−{STEPS}) by backpropagation through the layer: with nothing but a forget bias b, and with
    random weights and inputs.""",
    decided=f"""Biases {BIASES}, width {WIDTH}: the gates alone within {EXACT:g} of σ(b)^{STEPS}; with random weights
    ({SEEDS} seeds) the median at b = 5 at least {FACTOR:,.0f} times that at b = 1.""",
    note="""The bias is the total one: torch keeps two, which add up. An LSTM does not cure vanishing by itself; at b =
    1, the usual advice, a path of 50 steps still keeps less than a millionth.""",
    run=run,
    chapter=4,
    deterministic=True,
)
