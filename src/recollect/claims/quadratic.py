"""How attention's and a recurrence's cost grow with length: operations counted, memory counted, time taken."""

from collections.abc import Mapping
from functools import partial

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..core.chart import Chart, Line
from ..layers import attention, lstm
from ._autograd import kept_bytes, outputs
from ._fit import exponent, seconds
from .claim import Claim, Effort, Found, Verdict

DIM = 64
LENGTHS = (256, 512, 1024, 2048, 4096)  # counted
TIMED = {False: (1024, 2048, 4096, 8192), True: (1024, 2048, 4096, 8192, 16384)}  # quick, full
SQUARE, STRAIGHT = 1.9, 1.1  # an exponent of at least this is n², of at most this n


def counted() -> dict[str, list[float]]:
    """Matrix-product FLOPs of the forward pass, as declared (and held to torch's own count by the tests)."""
    look, cell = attention.Config(dim=DIM).build(), lstm.Config(dim=DIM).build()
    return {
        "attention, scores and mixing": [look.attend.flops(n, n * (n + 1) // 2) for n in LENGTHS],
        "attention in all": [look.cost(1, n).flops for n in LENGTHS],
        "lstm": [cell.cost(1, n).flops for n in LENGTHS],
    }


def remembered(lengths: tuple[int, ...], device: str) -> dict[str, list[float]]:
    """Bytes kept for the backward pass: attention with its weights written out, fused, and the LSTM."""
    look, cell = attention.Config(dim=DIM).build().to(device), lstm.Config(dim=DIM).build().to(device)
    found: dict[str, list[float]] = {"attention, naive": [], "attention, fused": [], "lstm": []}
    for n in lengths:
        x = torch.randn(1, n, DIM, device=device)
        for name, kernels in (
            ("attention, naive", [SDPBackend.MATH]),
            ("attention, fused", [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]),
        ):
            with sdpa_kernel(kernels):
                found[name].append(kept_bytes(partial(outputs(look), x), [x, *look.parameters()]))
        found["lstm"].append(kept_bytes(partial(outputs(cell), x), [x, *cell.parameters()]))
    return found


def timed(lengths: tuple[int, ...], device: str) -> dict[str, list[float]]:
    """Seconds of a forward pass."""
    layers = {"attention": attention.Config(dim=DIM), "lstm": lstm.Config(dim=DIM)}
    found: dict[str, list[float]] = {}
    with torch.no_grad():
        for name, config in layers.items():
            forward = outputs(config.build().to(device))
            inputs = [torch.randn(1, n, DIM, device=device) for n in lengths]
            found[name] = [seconds(partial(forward, x), device) for x in inputs]
    return found


def judge(flops: Mapping[str, float], memory: Mapping[str, float]) -> Verdict:
    """Fitted exponents."""
    work = flops["attention, scores and mixing"] >= SQUARE and flops["lstm"] <= STRAIGHT
    if not work or memory["lstm"] > STRAIGHT:
        return Verdict.FAILS
    return Verdict.HOLDS if memory["attention, fused"] >= SQUARE else Verdict.LIMITS


def run(effort: Effort) -> Found:
    torch.manual_seed(0)
    flops, times = counted(), timed(TIMED[effort.full], effort.device)
    lengths = LENGTHS[:-1]  # what is written out at 4,096 is 64 MB a head, and tells nothing new
    memory = remembered(lengths, effort.device)
    powers = {name: exponent(LENGTHS, row) for name, row in flops.items()}
    kept = {name: exponent(lengths, row) for name, row in memory.items()}
    late = {name: exponent(TIMED[effort.full], row) for name, row in times.items()}
    doubling = exponent(lengths[-2:], memory["attention, naive"][-2:])
    half = next(n for n in range(1, 10**6) if counted_half(n))
    n = TIMED[effort.full][-1]
    verdict = judge(powers, kept)
    limits = " So it is true of operations, not of memory." if verdict is Verdict.LIMITS else ""
    return Found(
        verdict=verdict,
        summary=(
            f"Operations: attention's scores and mixing n^{powers['attention, scores and mixing']:.2f}, an LSTM "
            f"n^{powers['lstm']:.2f}; at width {DIM} the n² part is half of attention from n = {half} on. Memory kept "
            f"for training: n^{kept['attention, naive']:.2f} with the weights written out (n^{doubling:.2f} over the "
            f"last doubling), but n^{kept['attention, fused']:.2f} with the fused kernel (LSTM n^{kept['lstm']:.2f}). "
            f"Time of a forward pass on {effort.device} at n = {n:,}: {times['attention'][-1] * 1e3:.1f} ms "
            f"(n^{late['attention']:.2f} from n = {TIMED[effort.full][0]:,} on) against {times['lstm'][-1] * 1e3:.1f} "
            f"ms (n^{late['lstm']:.2f}).{limits}"
        ),
        figures={
            "flops": flops,
            "flops_exponent": powers,
            "kept_bytes": memory,
            "kept_exponent": kept,
            "seconds": times,
            "seconds_exponent": late,
            "half_at": half,
            "lengths": {"flops": list(LENGTHS), "kept": list(lengths), "seconds": list(TIMED[effort.full])},
        },
        charts=[
            Chart(
                title=f"Operations of a forward pass, width {DIM}",
                x="length n",
                y="FLOP",
                lines=[Line(name=name, x=list(LENGTHS), y=row) for name, row in flops.items()],
                log_x=True,
                log_y=True,
            ),
            Chart(
                title="Memory kept for the backward pass",
                x="length n",
                y="bytes",
                lines=[Line(name=name, x=list(lengths), y=row) for name, row in memory.items()],
                log_x=True,
                log_y=True,
            ),
            Chart(
                title=f"Time of a forward pass on {effort.device}",
                x="length n",
                y="seconds",
                lines=[Line(name=name, x=list(TIMED[effort.full]), y=row) for name, row in times.items()],
                log_x=True,
                log_y=True,
            ),
        ],
    )


def counted_half(n: int) -> bool:
    """Whether scores and mixing are half of attention's operations at this length, or more."""
    pairs, projections = n * (n + 1) // 2, 8 * n * DIM * DIM
    return 4 * DIM * pairs >= projections


CLAIM = Claim(
    id="quadratic",
    statement="Attention costs n² in the length of the sequence, a recurrence n.",
    sources=(
        "Vaswani et al. 2017, table 1",
        "Dao et al. 2022 (FlashAttention)",
        "001_56d5b8bda4e4cf77.txt",
        "004_ae40ae433d185804.txt",
    ),
    experiment=(
        "Fitted exponents of the operations and of the memory kept for training, with attention's weights written out "
        "and with the fused kernel; the time of a forward pass beside them."
    ),
    decided=(
        f"Width {DIM}, n = {LENGTHS[0]} to {LENGTHS[-1]:,}: n² is an exponent of at least {SQUARE}, n one of at most "
        f"{STRAIGHT}. Holds if attention's score operations and its memory also when fused are n² and all of the "
        "LSTM's are n; within limits if the fused memory is not n². Time is shown and decides nothing."
    ),
    note=(
        "Notes 001 and 004 count memory among the costs that grow as n². That was so while the n × n weights were "
        "written out; fused kernels keep a number a row instead. The KV cache grows as n."
    ),
    run=run,
)
