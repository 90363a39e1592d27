"""The gradient of a plain RNN over k steps.

A relu RNN that rests at h = 1 has all its units active, so it is a linear RNN: ∂h_T/∂h_{T−k} must be the k-th power of
its matrix U. A tanh RNN multiplies U by the slope of each unit at each step, and its inputs decide those slopes.

Changed after its first run, the thresholds left as they were: tanh curves were fitted over 50 steps, over which those
that are nearly flat move less than they wobble (R² = .62), so they are now followed for 400.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from torch import Tensor

from ..core.chart import Chart, Line
from ..layers import rnn
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import slope
from .laboratory.figures import curve, interval

RADII = (0.8, 1.0, 1.2)  # spectral radii of the linear RNN
WIDTH, STEPS, FIT = 16, 100, (50, 100)
EXACT = 1e-10  # largest relative difference to the matrix power
SLOPE = 0.02  # largest difference between the slope of log ‖∂h‖ and log of the spectral radius
COUPLING, TRANSIENT = 1.0, (0.9, 8)  # a triangular matrix: radius, width

GAINS = (0.5, 0.9, 1.5, 3.0)  # U ~ gain·N(0, 1/width)
SCALES = (0.01, 1.0, 10.0)  # σ of W x
TANH_WIDTH, TANH_STEPS, WARM, SEEDS = 32, 400, 50, 4
LEAST = 1e-290
STRAIGHT, FLAT = 0.95, 0.02  # R² of a geometric curve; |slope| below which it is neither shrinking nor growing


def back(layer: rnn.RNN, x: Tensor, h: Tensor) -> Tensor:
    """∂h_T/∂h_{T−k} for k = 1 … T, by backpropagation: T W W. x: 1 T D, h: 1 1 W."""
    state = rnn.State(h.clone().requires_grad_())
    seen = [state.h]
    for x_t in x.split(1, dim=1):
        _, state = layer(x_t, state)
        seen.append(state.h)
    each = torch.eye(layer.width, dtype=h.dtype)[:, None, None]  # one number of h_T after the other
    found = torch.autograd.grad(state.h, seen[:-1], each, is_grads_batched=True)
    return torch.stack([rows[:, 0, 0] for rows in reversed(found)])


def linear(U: Tensor, steps: int) -> Tensor:
    """`back` of the linear RNN h ← U h + x, held at h = 1 by x = 1 − U·1."""
    width = len(U)
    layer = rnn.Config(dim=width, nonlinearity="relu", bias=False).build().double()
    with torch.no_grad():
        layer.get_parameter("weight_ih_l0").copy_(torch.eye(width))
        layer.get_parameter("weight_hh_l0").copy_(U)
    rest = torch.ones(1, 1, width, dtype=torch.float64)
    return back(layer, (rest - rest @ U.mT).expand(1, steps, width), rest)


def tanh_norms(gain: float, scale: float, seed: int) -> list[float]:
    """‖∂h_T/∂h_{T−k}‖ of a tanh RNN that has read WARM inputs before."""
    draw = torch.Generator().manual_seed(seed)
    layer = rnn.Config(dim=TANH_WIDTH, bias=False).build().double()
    with torch.no_grad():
        for name, size in (("weight_ih_l0", scale), ("weight_hh_l0", gain)):
            matrix = torch.randn(TANH_WIDTH, TANH_WIDTH, generator=draw, dtype=torch.float64)
            layer.get_parameter(name).copy_(matrix * size / math.sqrt(TANH_WIDTH))
        x = torch.randn(1, WARM + TANH_STEPS, TANH_WIDTH, generator=draw, dtype=torch.float64)
        _, state = layer(x[:, :WARM], layer.initial_state(1, like=x))
    return torch.linalg.matrix_norm(back(layer, x[:, WARM:], state.h), ord=2).tolist()


def fitted(norms: Sequence[float], first: int = FIT[0]) -> tuple[float, float]:
    """Slope of log ‖∂h‖ a step over the later distances, as far as float64 can tell it from 0, and R²."""
    places = [k for k in range(first, len(norms) + 1) if norms[k - 1] > LEAST]
    return slope(places, [math.log(norms[k - 1]) for k in places])


def judge(
    power: float, off: Sequence[float], straight: Sequence[float], signs: Mapping[float, Sequence[float]]
) -> Verdict:
    """`power` and `off`: errors of the linear RNN; `straight`: R² of tanh curves; `signs`: slopes by gain and scale."""
    if power > EXACT or max(off) > SLOPE or min(straight, default=1.0) < STRAIGHT:
        return Verdict.FAILS
    flips = any(min(row) < -FLAT and max(row) > FLAT for row in signs.values())
    return Verdict.LIMITS if flips else Verdict.HOLDS


def run(effort: Effort) -> Found:
    draw = torch.Generator().manual_seed(0)
    raw = torch.randn(WIDTH, WIDTH, generator=draw, dtype=torch.float64)
    raw = raw / torch.linalg.eigvals(raw).abs().max()
    lines, errors, off = [], [], []
    for radius in RADII:
        found = linear(raw * radius, STEPS)
        powers = torch.stack([torch.linalg.matrix_power(raw * radius, k + 1) for k in range(STEPS)])
        errors.append(float(((found - powers).abs().amax(dim=(1, 2)) / powers.abs().amax(dim=(1, 2))).max()))
        norms = torch.linalg.matrix_norm(found, ord=2).tolist()
        off.append(abs(fitted(norms)[0] - math.log(radius)))
        lines.append(Line(f"radius {radius:g}", list(range(1, STEPS + 1)), norms))
    radius, width = TRANSIENT
    skew = radius * torch.eye(width, dtype=torch.float64) + COUPLING * torch.eye(width, dtype=torch.float64).roll(1, 1)
    skew[-1, 0] = 0
    norms = torch.linalg.matrix_norm(linear(skew, STEPS), ord=2).tolist()
    peak = max(range(STEPS), key=lambda k: norms[k])
    lines.append(Line(f"radius {radius:g}, not normal", list(range(1, STEPS + 1)), norms))

    slopes: dict[float, dict[float, list[float]]] = {gain: {} for gain in GAINS}
    straight = []
    for gain in GAINS:
        for scale in SCALES:
            fits = [fitted(tanh_norms(gain, scale, seed)) for seed in effort.seed_range(SEEDS, SEEDS)]
            slopes[gain][scale] = [fit[0] for fit in fits]
            straight += [fit[1] for fit in fits if abs(fit[0]) > FLAT]
    means = {gain: [fmean(values) for values in row.values()] for gain, row in slopes.items()}
    flipped = [gain for gain, row in means.items() if min(row) < -FLAT and max(row) > FLAT]
    verdict = judge(max(errors), off, straight, means)
    changes = "; ".join(
        f"at gain {gain:g} the tanh RNN's gradient changes by {math.expm1(means[gain][0]):+.0%} a step with inputs of "
        f"σ {SCALES[0]:g} and by {math.expm1(means[gain][-1]):+.0%} with σ {SCALES[-1]:g}"
        for gain in flipped
    )
    summary = (
        f"Linear RNN: equal to the matrix power within {max(errors):.0e}, slope within {max(off):.0e} of log radius. "
        f"A matrix of radius {radius:g} that is not normal first grows to {norms[peak]:,.0f} (k = {peak + 1}). "
        f"tanh: the least straight of the curves that are not flat has R² = {min(straight):.3f} on a log axis. "
        + (
            f"Which way it goes is not the matrix's alone: {changes}."
            if flipped
            else "The sign follows the gain alone."
        )
    )
    return Found(
        verdict=verdict,
        summary=summary,
        figures={
            "power_error": max(errors),
            "slope_error": dict(zip(map(str, RADII), off, strict=True)),
            "transient": {"peak": norms[peak], "at": peak + 1},
            "tanh_slopes": {
                str(gain): {str(scale): list(interval(values)) for scale, values in row.items()}
                for gain, row in slopes.items()
            },
            "least_r2": min(straight),
            "mean_r2": fmean(straight),
        },
        charts=[
            Chart("A linear RNN's gradient", "steps back", "‖∂h_T/∂h_(T−k)‖", lines, log_y=True),
            Chart(
                "A tanh RNN's gradient: growth a step",
                "gain of U",
                "slope of log ‖∂h‖",
                [
                    curve(f"inputs of σ {scale:g}", {gain: row[scale] for gain, row in slopes.items()})
                    for scale in SCALES
                ],
                level=0.0,
                level_name="neither shrinks nor grows",
            ),
        ],
    )


CLAIM = Claim(
    statement="The gradient that a plain RNN sends back over k steps shrinks or grows geometrically with k.",
    sources=(
        "Hochreiter 1991",
        "Bengio, Simard & Frasconi 1994",
        "Pascanu, Mikolov & Bengio 2013",
        "the overview note: 「将导致梯度反传时指数级地消失或爆炸」",
        "the sequence-model note: 「小于1的特征值将会消失，大于1的特征值将会发散」",
    ),
    experiment="""∂h_T/∂h_(T−k) by backpropagation, in a linear RNN against the k-th power of its matrix, and in tanh
    RNNs of four gains with inputs of three sizes.""",
    decided=f"""Linear, width {WIDTH}, radii {RADII}: within {EXACT:g} of the matrix power, slope of log norm over k =
    {FIT[0]} to {FIT[1]} within {SLOPE} of log radius. tanh, width {TANH_WIDTH}, gains {GAINS}, input σ {SCALES},
    {SEEDS} seeds, k = {FIT[0]} to {TANH_STEPS}: R² ≥ {STRAIGHT} wherever |slope| > {FLAT}. Within limits if at one gain
    the sign of the mean slope differs between input sizes: the matrix alone then does not decide.""",
    note="""The sequence-model note reads the fate of a gradient off the eigenvalues of W_hh. That is exact for a linear
    RNN in the long run; matrices that are not normal can grow first, and in a tanh RNN the inputs have a say.""",
    run=run,
    chapter=4,
    deterministic=True,
)
