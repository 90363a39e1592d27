"""How much a state of fixed size holds: more and more is asked of it at the same delay.

The first quick form (a delay of 10, rate 0.005, 500 steps) ended before the narrow GRU had learnt even the lightest
load, and could decide nothing; it now has a delay of 4 and rate 0.01, and 200 steps of recall instead of 300 to
keep within the time of a quick form. The thresholds are as they were. Its first result showed that TTT had only learnt
which values there were (right once in as many as there are pairs), so that the fall with the load said nothing: since
then recall counts only where the fewest pairs are recalled, by the threshold that copying has.
"""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from ..core.chart import Chart
from ..data.memory import Copy
from ._shown import curve, gather, said, sentence
from ._trained import seeds, train
from .claim import Claim, Effort, Found, Verdict, apart

KNOWN, KEPT, LOST = 0.9, 0.95, 0.9
BITS = 1.0  # by which the wider state must hold more
FALL = 0.05  # of the share of pairs recalled, from the lightest load to the heaviest
ASKED = log(Copy.symbols) / log(2)  # bits of a symbol
QUICK = {
    "widths": (16, 64),
    "loads": (2, 4, 8),
    "copy": {"steps": 500, "distance": 4, "batch": 32, "lr": 1e-2, "all_steps": False, "eval_rows": 500},
    "attention": {"width": 64, "heads": 1, "layers": 1, "positions": "learned"},
    "recall": {"steps": 200, "length": 32, "load": 8, "vocab": 64, "width": 32, "batch": 32, "lr": 3e-3},
}
FULL = {
    "widths": (32, 128),
    "loads": (2, 4, 8, 16, 32),
    "copy": {"steps": 5000, "distance": 20, "batch": 128, "lr": 3e-3, "all_steps": False},
    "attention": {"width": 128, "heads": 2, "layers": 2, "positions": "learned"},
    "recall": {"steps": 5000, "length": 128, "load": 32, "vocab": 256, "width": 64, "batch": 128, "lr": 3e-3},
}
SEEDS = 2, 3


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    loads, numbers = terms["loads"], seeds(effort, *SEEDS)

    def copy(model: str, load: int, seed: int, **settings: Any) -> dict[str, Any]:
        found = train("copy", model, seed=seed, device=effort.device, load=load, **terms["copy"] | settings)
        return found.figures

    accuracy: dict[int, dict[int, list[float]]] = {}
    bits: dict[int, dict[int, list[float]]] = {}
    for width in terms["widths"]:
        runs = [{load: copy("gru", load, seed, width=width, layers=1) for load in loads} for seed in numbers]
        accuracy[width] = gather({load: run[load]["accuracy"] for load in loads} for run in runs)
        bits[width] = gather({load: held(load, run[load]["loss"]) for load in loads} for run in runs)
    attention = [copy("transformer", loads[-1], seed, **terms["attention"])["accuracy"] for seed in numbers]
    asked = {"layers": 2, "heads": 2, "positions": "learned", "mini_batch": 4, "vary": True}
    pairs = gather(
        train("recall", "ttt-linear", seed=seed, device=effort.device, **asked | terms["recall"]).points()
        for seed in numbers
    )
    verdict, limits = judge(accuracy, bits, attention, pairs)
    narrow, wide = terms["widths"]
    last = loads[-1]
    summary = (
        f"Copying {last} symbols ({last * ASKED:.0f} bits): a GRU of {narrow} holds {said(bits[narrow][last], 1)} "
        f"bits, one of {wide} {said(bits[wide][last], 1)}; right answers {said(accuracy[narrow][last])} and "
        f"{said(accuracy[wide][last])}, attention {said(attention)}. Recall by a TTT-linear state: "
        + ", ".join(f"{load} pairs {said(values)}" for load, values in pairs.items())
        + f". {sentence(limits)}"
    )
    charts = [
        Chart(
            title="Bits of what was said that are still there",
            x="symbols to copy",
            y="bits held",
            lines=[curve(f"GRU of {width}", found) for width, found in bits.items()],
        ),
        Chart(
            title="Recall by a state of fixed size",
            x="pairs",
            y="right answers",
            lines=[curve("ttt-linear", pairs)],
        ),
    ]
    figures = {"accuracy": accuracy, "bits": bits, "attention": attention, "recall": pairs}
    return Found(verdict=verdict, summary=summary, figures=figures, charts=charts)


def held(load: int, nats: float) -> float:
    """Bits that the answers show to be held: those asked for, less what is still uncertain."""
    return load * max(0.0, ASKED - nats / log(2))


def judge(
    accuracy: Mapping[int, Mapping[int, Sequence[float]]],
    bits: Mapping[int, Mapping[int, Sequence[float]]],
    attention: Sequence[float],
    pairs: Mapping[int, Sequence[float]],
) -> tuple[Verdict, str]:
    """From {width: {load: [of each seed]}}, the control at the heaviest load, and {pairs: [of each seed]}."""
    narrow, wide = sorted(accuracy)
    first, *_, last = sorted(accuracy[narrow])
    if min(accuracy[narrow][first]) < KNOWN:
        return Verdict.UNDECIDED, f"the narrow state did not learn the lightest load of {first} symbols"
    if min(accuracy[narrow][last]) >= KEPT:
        return Verdict.FAILS, "the narrow state kept all that was asked of it"
    if max(accuracy[narrow][last]) >= LOST or not apart(bits[narrow][last], bits[wide][last], BITS):
        return Verdict.UNDECIDED, "seeds differ, or a wider state does not hold more"
    fewest, most = min(pairs), max(pairs)
    falls = all(high - low > FALL for high, low in zip(pairs[fewest], pairs[most], strict=True))
    if min(attention) < KEPT:
        return Verdict.LIMITS, "attention too did not copy the heaviest load: part of the fall may be one of learning"
    if min(pairs[fewest]) < KNOWN:
        return Verdict.LIMITS, f"shown for copying; recall was not learnt even of {fewest} pairs and says nothing"
    if not falls:
        return Verdict.LIMITS, f"shown for copying; recall did not fall from {fewest} to {most} pairs"
    return Verdict.HOLDS, "attention, whose state grows, copies the heaviest load in the same steps"


CLAIM = Claim(
    id="capacity",
    statement="A state of fixed size holds a bounded amount of what was said.",
    sources=(
        "Arora 2023, Zoology: Measuring and Improving Recall in Efficient Language Models (arXiv 2312.04927)",
        "001_56d5b8bda4e4cf77.txt",
    ),
    experiment="A GRU copies more and more symbols after the same delay; a TTT-linear model recalls more and more "
    "pairs. A wider GRU and attention show whether the state is what limits.",
    decided=f"Holds when the narrow GRU copies the lightest load (right at least {KNOWN}) and not the heaviest (below "
    f"{LOST}) with every seed, the wide one holds over {BITS:.0f} bit more for every pair of seeds, attention copies "
    f"the heaviest (at least {KEPT}), and recall, right at least {KNOWN} of the time with the fewest pairs, falls by "
    f"over {FALL} from the fewest to the most with every seed. Within limits: attention fails, recall is not learnt, "
    f"or recall does not fall. Does not hold: the narrow GRU keeps at least {KEPT} of the heaviest load. Quick: GRU "
    "of 16 and 64, 2 to 8 symbols of 3 bits over 4 steps, 500 steps of 32 rows; recall of up to 8 pairs, 200 steps; 2 "
    "seeds. Full: 32 and 128, up to 32 symbols; up to 32 pairs; 5,000 steps, 3 seeds.",
    note="Bounded is not small: in principle a real number holds anything. What is bounded is what training finds.",
    run=run,
)
