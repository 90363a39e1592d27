"""Weights that are chosen while reading against weights that are fixed: how positions are mixed, for two inputs."""

import torch
from torch import Tensor

from ..core.chart import Chart, Line, Map
from ..layers import conv, encoder, lstm, window
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import outputs, slopes

DIM, STEPS, SEED, PAIRS = 16, 8, 0, 10
STATIC = 1e-12  # largest difference between two mixing matrices that counts as none
MOVES = 1e-3  # least mean total variation between two rows of attention weights


def variation(a: Tensor, b: Tensor) -> float:
    """Mean total variation between the rows of two weight matrices: 0 the same, 1 nothing in common."""
    return float((a - b).abs().sum(dim=-1).mean() / 2)


def judge(fixed: dict[str, float], chosen: dict[str, float]) -> Verdict:
    """`fixed`: change of the convolution's and window's matrices; `chosen`: the least change of attention's weights."""
    holds = max(fixed.values()) <= STATIC and min(chosen.values()) >= MOVES
    return Verdict.HOLDS if holds else Verdict.FAILS


def run(effort: Effort) -> Found:
    torch.manual_seed(SEED)
    pairs = [torch.randn(2, STEPS, DIM, dtype=torch.float64) for _ in range(PAIRS)]
    still = {"convolution": conv.Config(dim=DIM), "window, linear": window.Config(dim=DIM)}
    fixed = {}
    for name, config in still.items():
        function = outputs(config.build().double())
        fixed[name] = max(float((slopes(function, x[:1]) - slopes(function, x[1:])).abs().max()) for x in pairs)
    moving = {
        "attention, x·x": encoder.AttentionConfig(dim=DIM, project=False),
        "attention, random W": encoder.AttentionConfig(dim=DIM, heads=2),
    }
    chosen, shown = {}, []
    valid = torch.ones(1, STEPS, dtype=torch.bool)
    with torch.no_grad():
        for name, config in moving.items():
            layer = config.build().double()
            weights = [[layer.weights(row, valid)[0] for row in x.split(1)] for x in pairs]
            chosen[name] = min(variation(a, b) for a, b in weights)
            shown.append(weights[0])
        gates = lstm.Config(dim=DIM).build().double()
        open_gates = [gates.explain(gates.initial_state(2, like=x), x[:, 0])["forget"] for x in pairs]
        gate = min(float((both[0] - both[1]).abs().mean()) for both in open_gates)
    told = ", ".join(f"{name} {value:.2g}" for name, value in chosen.items())
    return Found(
        verdict=judge(fixed, chosen),
        summary=(
            f"{PAIRS} pairs of random inputs. Convolution and linear window mix positions by the same matrix (largest "
            f"difference {max(fixed.values()):.0e}); attention's weights differ (least mean total variation: {told}). "
            f"It is not alone in this: an LSTM's forget gates move with the input too (by {gate:.2g} on average)."
        ),
        figures={"fixed": fixed, "chosen": chosen, "lstm_forget_gate": gate},
        charts=[
            *(
                Map(f"Attention weights by x·x, {name} input", "input position", "output position", grid[0].tolist())
                for name, grid in zip(("one", "another"), shown[0], strict=True)
            ),
            Chart(
                "How much the mixing matrix changes with the input",
                "layer",
                "change",
                [Line("change", [*fixed, *chosen], [*fixed.values(), *chosen.values()])],
                kind="bars",
            ),
        ],
    )


CLAIM = Claim(
    statement="The weights by which attention mixes positions depend on the input; those of a convolution do not.",
    sources=("Vaswani et al. 2017", "the overview note: 「注意力机制使用动态权重」"),
    experiment="Give each layer two inputs and compare the matrices by which it mixes positions.",
    decided=f"""{PAIRS} pairs of inputs of {STEPS} steps, width {DIM}, float64: ∂y/∂x of a convolution and of a linear
    window differs by at most {STATIC:g}; attention's weights by a mean total variation of at least {MOVES:g} for every
    pair.""",
    note="""What attention learns (W_q, W_k, W_v) is as fixed after training as a convolution's kernel; what changes
    with the input is the mixing that these compute. Gates of an LSTM are chosen by the input as well.""",
    run=run,
    chapter=7,
    deterministic=True,
)
