"""The bytes of state of every layer after more and more steps."""

from collections.abc import Mapping

import torch

from ..core import laws
from ..core import state as states
from ..core.contract import Config, Example
from ..layers import LINEAGE, attention
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import exponent, law_breakers
from .laboratory.figures import growth, rows

DIM, LENGTHS = 16, (16, 64, 256, 1024)
GROWING = "attention"  # the one layer whose state is a cache
WINDOW = 64
LINEAR = (0.98, 1.02)  # exponents of growth that count as one key and value a step


@torch.no_grad()
def measured(config: Config, device: str) -> list[int]:
    """Bytes after each of LENGTHS, the state carried from one to the next."""
    example = config.example(1, LENGTHS[-1], torch.float32)
    layer = config.build().to(device)
    x, memory = states.move(Example(*example), device=device)
    state = layer.initial_state(1, memory=memory)
    found, at = [], 0
    for n in LENGTHS:
        _, state = layer(x[:, at:n], state)
        found.append(states.nbytes(state))
        at = n
    return found


def judge(power: float, fixed: Mapping[str, list[int]], wrong: int) -> Verdict:
    """`power`: exponent of attention's state; `fixed`: bytes of all others; `wrong`: layers that break the Size law."""
    grows = LINEAR[0] <= power <= LINEAR[1]
    still = all(len(set(row)) == 1 for row in fixed.values())
    return Verdict.HOLDS if grows and still and not wrong else Verdict.FAILS


def run(effort: Effort) -> Found:
    torch.manual_seed(0)
    found = {name: measured(kind(dim=DIM, **_source(kind)), effort.device) for name, kind in LINEAGE.items()}
    window = measured(attention.Config(dim=DIM, window=WINDOW), effort.device)
    shared = measured(attention.Config(dim=DIM, heads=4, kv_heads=1), effort.device)
    fixed = {name: row for name, row in found.items() if name != GROWING}
    power = exponent(LENGTHS, found[GROWING])
    _, wrong = law_breakers(lambda layer, example: laws.size(layer, example.x, memory=example.memory), 9)
    step = (found[GROWING][-1] - found[GROWING][-2]) / (LENGTHS[-1] - LENGTHS[-2])
    still = sum(len(set(row)) == 1 for row in fixed.values())
    return Found(
        verdict=judge(power, fixed, len(wrong)),
        summary=(
            f"Width {DIM}, float32: attention's cache grows by {step:g} bytes a step (n^{power:.3f}; "
            f"{found[GROWING][-1]:,} bytes after {LENGTHS[-1]:,}); the state of {still} of {len(fixed)} other layers "
            f"is the same after {LENGTHS[0]} and {LENGTHS[-1]:,} steps. A window of {WINDOW} stops the growth at "
            f"{window[-1]:,} bytes, heads that share their keys take {shared[-1]:,}. The Size law is broken by "
            f"{len(wrong)} settings."
        ),
        figures={
            "lengths": list(LENGTHS),
            "bytes": found,
            "window": window,
            "shared_keys": shared,
            "exponent": power,
            "bytes_a_step": step,
            "law_broken": wrong,
        },
        charts=[
            growth(
                f"Bytes of state, width {DIM}",
                "steps read",
                "bytes",
                rows(LENGTHS, found | {f"attention, window {WINDOW}": window}),
            )
        ],
    )


def _source(kind: type[Config]) -> dict[str, int]:
    """Layers that read a source need its width."""
    return {"memory_dim": DIM} if "memory_dim" in kind.__dataclass_fields__ else {}


CLAIM = Claim(
    statement="Attention's KV cache grows with every token, a fixed state does not.",
    sources=(
        "Vaswani et al. 2017",
        "Katharopoulos et al. 2020",
        "the overview note: 「使用一个列表（KV Cache）存储所有context」",
    ),
    experiment=f"""Bytes of state, storage counted, of every layer of the lineage after {LENGTHS[0]} to {LENGTHS[-1]:,}
    steps; the Size law.""",
    decided=f"""Width {DIM}: attention's state grows with an exponent between {LINEAR[0]} and {LINEAR[1]}, every other
    layer's has the same bytes at every length, and no setting breaks the Size law.""",
    note="What a decoder keeps of its source (soft-align, cross-attention) is fixed too: as long as the source.",
    run=run,
    chapter=12,
)
