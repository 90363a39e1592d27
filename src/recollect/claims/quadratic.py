"""How attention's and a recurrence's cost grow with length: operations counted, memory counted, time taken."""

from collections.abc import Mapping
from functools import partial

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..layers import attention, lstm
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import exponent, forward_seconds, kept_bytes, outputs
from .laboratory.figures import growth, limits, rows

DIM = 64
LENGTHS = (256, 512, 1024, 2048, 4096)  # counted
TIMED = ((1024, 2048, 4096, 8192), (1024, 2048, 4096, 8192, 16384))  # quick, full
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
    return {name: forward_seconds(config, 1, lengths, device) for name, config in layers.items()}


def judge(flops: Mapping[str, float], memory: Mapping[str, float]) -> Verdict:
    """Fitted exponents."""
    work = flops["attention, scores and mixing"] >= SQUARE and flops["lstm"] <= STRAIGHT
    if not work or memory["lstm"] > STRAIGHT:
        return Verdict.FAILS
    return Verdict.HOLDS if memory["attention, fused"] >= SQUARE else Verdict.LIMITS


def run(effort: Effort) -> Found:
    torch.manual_seed(0)
    long = effort.pick(*TIMED)
    flops, times = counted(), timed(long, effort.device)
    lengths = LENGTHS[:-1]  # what is written out at 4,096 is 64 MB a head, and tells nothing new
    memory = remembered(lengths, effort.device)
    powers = {name: exponent(LENGTHS, row) for name, row in flops.items()}
    kept = {name: exponent(lengths, row) for name, row in memory.items()}
    late = {name: exponent(long, row) for name, row in times.items()}
    doubling = exponent(lengths[-2:], memory["attention, naive"][-2:])
    half = next(n for n in range(1, 10**6) if counted_half(n))
    verdict = judge(powers, kept)
    return Found(
        verdict=verdict,
        summary=(
            f"Operations: attention's scores and mixing n^{powers['attention, scores and mixing']:.2f}, an LSTM "
            f"n^{powers['lstm']:.2f}; at width {DIM} the n² part is half of attention from n = {half} on. Memory kept "
            f"for training: n^{kept['attention, naive']:.2f} with the weights written out (n^{doubling:.2f} over the "
            f"last doubling), but n^{kept['attention, fused']:.2f} with the fused kernel (LSTM n^{kept['lstm']:.2f}). "
            f"Time of a forward pass on {effort.device} at n = {long[-1]:,}: {times['attention'][-1] * 1e3:.1f} ms "
            f"(n^{late['attention']:.2f} from n = {long[0]:,} on) against {times['lstm'][-1] * 1e3:.1f} "
            f"ms (n^{late['lstm']:.2f})." + limits(verdict, " So it is true of operations, not of memory.")
        ),
        figures={
            "flops": flops,
            "flops_exponent": powers,
            "kept_bytes": memory,
            "kept_exponent": kept,
            "seconds": times,
            "seconds_exponent": late,
            "half_at": half,
            "lengths": {"flops": list(LENGTHS), "kept": list(lengths), "seconds": list(long)},
        },
        charts=[
            growth(f"Operations of a forward pass, width {DIM}", "length n", "FLOP", rows(LENGTHS, flops)),
            growth("Memory kept for the backward pass", "length n", "bytes", rows(lengths, memory)),
            growth(f"Time of a forward pass on {effort.device}", "length n", "seconds", rows(long, times)),
        ],
    )


def counted_half(n: int) -> bool:
    """Whether scores and mixing are half of attention's operations at this length, or more."""
    pairs, projections = n * (n + 1) // 2, 8 * n * DIM * DIM
    return 4 * DIM * pairs >= projections


CLAIM = Claim(
    statement="Attention costs n² in the length of the sequence, a recurrence n.",
    sources=(
        "Vaswani et al. 2017, table 1",
        "Dao et al. 2022 (FlashAttention)",
        "the overview note: 「呈平方级增长」",
        "the lecture note: 「会占用大量内存」",
    ),
    experiment="""Fitted exponents of the operations and of the memory kept for training, with attention's weights
    written out and with the fused kernel; the time of a forward pass beside them.""",
    decided=f"""Width {DIM}, n = {LENGTHS[0]} to {LENGTHS[-1]:,}: n² is an exponent of at least {SQUARE}, n one of at
    most {STRAIGHT}. Holds if attention's score operations and its memory also when fused are n² and all of the LSTM's
    are n; within limits if the fused memory is not n². Time is shown and decides nothing.""",
    note="""The overview note and the lecture note count memory among the costs that grow as n². That was so while the n
    × n weights were written out; fused kernels keep a number a row instead. The KV cache grows as n.""",
    run=run,
    chapter=11,
)
