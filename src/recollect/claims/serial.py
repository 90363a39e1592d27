"""What must wait for what: the longest chain of operations of each layer, a scan, and Newton's way round.

A linear recurrence h_t = A_t h_(t−1) + b_t can be computed in log₂ n rounds, since two of its steps make one of the
same kind. For h_t = tanh(…) no such form exists, but all steps can be guessed at once and the guess improved by
Newton's method, each round of which is a linear recurrence (Lim et al. 2024).
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ..core.chart import Chart, Line
from ..layers import attention, conv, gru, linear_attention, lstm, rnn, ttt
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import depth, exponent, forward_seconds, outputs
from .laboratory.figures import growth, limits, rows

DIM = 16
LENGTHS = (64, 128, 256)
GROWS, CONSTANT = 0.9, 0.1  # exponents of the longest chain
EXACT = 1e-10  # scan against loop
REACHED = 1e-8  # Newton against loop
FEW = 8  # rounds: at most n / FEW
NEWTON, WIDTH = 256, 16
CALM, WILD = (0.5, 1.0), (3.0, 0.1)  # gain of U, σ of the inputs
SHOWN = 1e3  # errors above are drawn as this
TIMED = ((64, 256, 1024), (256, 1024, 4096, 16384))  # quick, full


def scan(A: Tensor, b: Tensor) -> tuple[Tensor, int]:
    """All h_t = A_t h_(t−1) + b_t from h_0 = 0 (A: T W W, b: T W) by doubling, and the rounds it took."""
    reach, rounds = 1, 0
    while reach < len(A):
        b = torch.cat([b[:reach], (A[reach:] @ b[:-reach, :, None])[..., 0] + b[reach:]])
        A = torch.cat([A[:reach], A[reach:] @ A[:-reach]])
        reach, rounds = 2 * reach, rounds + 1
    return b, rounds


def loop(A: Tensor, b: Tensor) -> Tensor:
    h, found = torch.zeros_like(b[0]), []
    for A_t, b_t in zip(A, b, strict=True):
        h = A_t @ h + b_t
        found.append(h)
    return torch.stack(found)


def tanh_rnn(gain: float, scale: float) -> tuple[rnn.RNN, Tensor]:
    draw = torch.Generator().manual_seed(0)
    layer = rnn.Config(dim=WIDTH, bias=False).build().double()
    with torch.no_grad():
        for name, size in (("weight_ih_l0", 1.0), ("weight_hh_l0", gain)):
            matrix = torch.randn(WIDTH, WIDTH, generator=draw, dtype=torch.float64)
            layer.get_parameter(name).copy_(matrix * size / math.sqrt(WIDTH))
    return layer, scale * torch.randn(1, NEWTON, WIDTH, generator=draw, dtype=torch.float64)


@torch.no_grad()
def newton(layer: rnn.RNN, x: Tensor) -> tuple[int | None, list[float]]:
    """Rounds until all states are those of the loop (None: not within n rounds), and the error after each."""
    expected, _ = layer(x, layer.initial_state(1, like=x))
    expected, U = expected[0], layer.get_parameter("weight_hh_l0")
    h, errors = torch.zeros_like(expected), []
    for rounds in range(1, len(expected) + 1):
        before = torch.cat([torch.zeros_like(h[:1]), h[:-1]])
        value = torch.tanh(layer.sums(0, x[0], before))
        A = (1 - value**2)[:, :, None] * U
        h, _ = scan(A, value - (A @ before[..., None])[..., 0])
        errors.append(float((h - expected).abs().max()))
        if not math.isfinite(errors[-1]):
            return None, errors[:-1]
        if errors[-1] <= REACHED:
            return rounds, errors
    return None, errors


def chains() -> dict[str, list[int]]:
    """The longest chain of each layer: of its definition where each step bends the state, else of its fast form."""
    torch.manual_seed(0)
    bent = {"rnn": rnn.Config(dim=DIM), "gru": gru.Config(dim=DIM), "lstm": lstm.Config(dim=DIM)}
    straight = {
        "ttt-linear, b = 16": ttt.Config(dim=DIM),
        "conv": conv.Config(dim=DIM),
        "attention": attention.Config(dim=DIM),
        "linear-attention": linear_attention.Config(dim=DIM),
    }
    found: dict[str, list[int]] = {name: [] for name in (*bent, *straight)}
    for n in LENGTHS:
        x = torch.randn(1, n, DIM)
        for name, config in bent.items():
            layer = config.build()
            found[name].append(depth(layer.unroll(x, layer.initial_state(1))[0]))
        for name, config in straight.items():
            found[name].append(depth(outputs(config.build())(x)))
    return found


def timed(lengths: tuple[int, ...], device: str) -> dict[str, list[float]]:
    """Seconds of a forward pass of an LSTM and of linear attention with as many FLOPs."""
    cell = lstm.Config(dim=64)
    target = cell.build().cost(1, 1).flops
    configs = [linear_attention.Config(dim=width) for width in range(16, 256, 8)]
    alike = min(configs, key=lambda config: abs(config.build().cost(1, 1).flops - target))
    layers = {"lstm": cell, "linear-attention": alike}
    return {name: forward_seconds(config, 8, lengths, device) for name, config in layers.items()}


def judge(chain: Mapping[str, float], error: float, calm: int | None, wild: int | None) -> Verdict:
    """Exponents of the chains, error of the scan, rounds that Newton's method needs in two tanh RNNs."""
    bent = min(chain[name] for name in ("rnn", "gru", "lstm")) >= GROWS
    linear = error <= EXACT and chain["linear-attention"] <= CONSTANT
    if not bent or not linear:
        return Verdict.FAILS
    around = [rounds is not None and rounds <= NEWTON // FEW for rounds in (calm, wild)]
    if all(around):
        return Verdict.FAILS
    return Verdict.LIMITS if any(around) else Verdict.HOLDS


def run(effort: Effort) -> Found:
    found = chains()
    powers = {name: exponent(LENGTHS, row) for name, row in found.items()}
    draw = torch.Generator().manual_seed(0)
    A = torch.randn(NEWTON, WIDTH, WIDTH, generator=draw, dtype=torch.float64) / math.sqrt(2 * WIDTH)
    b = torch.randn(NEWTON, WIDTH, generator=draw, dtype=torch.float64)
    (fast, rounds), slow = scan(A, b), loop(A, b)
    error = float((fast - slow).abs().max() / slow.abs().max())
    (calm, calm_errors), (wild, wild_errors) = newton(*tanh_rnn(*CALM)), newton(*tanh_rnn(*WILD))
    long = effort.pick(*TIMED)
    times = timed(long, effort.device)

    def format_rounds(rounds: int | None) -> str:
        return f"not within {NEWTON} rounds" if rounds is None else f"after {rounds} rounds"

    verdict = judge(powers, error, calm, wild)
    meaning = limits(verdict, ": so 'cannot' means not exactly and in one pass")
    return Found(
        verdict=verdict,
        summary=(
            f"Longest chain at n = {LENGTHS[-1]}: lstm {found['lstm'][-1]}, rnn {found['rnn'][-1]} (n^"
            f"{powers['rnn']:.2f}), linear-attention {found['linear-attention'][-1]}, attention "
            f"{found['attention'][-1]} (at n = {LENGTHS[0]}: {found['linear-attention'][0]} and "
            f"{found['attention'][0]}). A linear recurrence of {NEWTON} steps takes {rounds} rounds of a scan (off by "
            f"{error:.0e}). Newton's method reaches a calm tanh RNN's states {format_rounds(calm)}, a chaotic one's "
            f"{format_rounds(wild)}{meaning}. Time at n = {long[-1]:,} on {effort.device}, about as many FLOPs: lstm "
            f"{times['lstm'][-1] * 1e3:.1f} ms, linear-attention {times['linear-attention'][-1] * 1e3:.1f} ms."
        ),
        figures={
            "chain": found,
            "chain_exponent": powers,
            "scan": {"rounds": rounds, "error": error},
            "newton": {"calm": calm, "wild": wild, "calm_errors": calm_errors, "wild_errors": wild_errors},
            "seconds": times,
            "lengths": {"chain": list(LENGTHS), "seconds": list(long)},
        },
        charts=[
            growth(
                "The longest chain of operations that wait for each other",
                "length n",
                "operations",
                rows(LENGTHS, found),
            ),
            Chart(
                f"Newton's method on {NEWTON} steps of a tanh RNN at once",
                "round",
                f"largest error of a state (at most {SHOWN:g} shown)",
                [
                    Line(name, list(range(1, len(row) + 1)), [min(max(value, 1e-17), SHOWN) for value in row])
                    for name, row in (("calm", calm_errors), ("chaotic", wild_errors))
                ],
                log_y=True,
                level=REACHED,
                level_name="reached",
            ),
            growth(
                f"Time of a forward pass with as many operations, on {effort.device}",
                "length n",
                "seconds",
                rows(long, times),
            ),
        ],
    )


CLAIM = Claim(
    statement="A nonlinear recurrence cannot be parallelised over time; a linear one can.",
    sources=(
        "Blelloch 1990",
        "Martin & Cundy 2018",
        "Lim et al. 2024 (DEER)",
        "the overview note: 「RNN的串行计算阻碍了训练时的并行计算」",
        "the Transformer note: 「较难进行并行化处理」",
        "the lecture note: 「它并没有很好的并行处理」",
    ),
    experiment="""The longest chain of dependent operations by length; a linear recurrence by scan against its loop;
    Newton's method over all steps of a tanh RNN at once, calm and chaotic; time at equal operations as an
    illustration.""",
    decided=f"""Chains at n = {LENGTHS}: rnn, gru, lstm grow with an exponent of at least {GROWS}, linear attention at
    most {CONSTANT}; the scan is within {EXACT:g} of the loop. Newton on {NEWTON} steps, width {WIDTH}, calm (gain,
    input σ = {CALM}) and chaotic ({WILD}): reaching {REACHED:g} within n/{FEW} rounds in neither: holds; in one: within
    limits; in both: does not hold.""",
    note="""The overview, the Transformer and the lecture note speak of RNNs as such; the limit is in the nonlinearity
    on the path of the state, not in recurrence. A round of Newton's method costs W³ a step instead of W².""",
    run=run,
    chapter=11,
)
