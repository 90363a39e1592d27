"""Three stores for what was read: a vector, a model trained on it, a list. How many pairs each gives back.

Before its first run the quick form was made easier to learn (a vocabulary of 16, rotary positions for attention, a rate
for each kind of model, 500 steps), since attention had not learnt a like task in as many steps for the claim `score`.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import apart, sentence, show, store_chart
from .laboratory.training import by_dial, train_models

RIGHT, MARGIN = 0.9, 0.1
RNN, TTT, LIST, SHORT = "rnn", "ttt-linear", "attention", "attention, as many bytes"
QUICK: dict[str, Any] = {
    "run": {"steps": 500, "length": 16, "load": 4, "vocab": 16, "batch": 32, "eval_rows": 500},
    "rates": {"rnn": 3e-3, "blocks": 1e-2},
    "width": 16,
    "heads": 2,
    "rnn": 288,
    "window": 9,
}
FULL: dict[str, Any] = {
    "run": {"steps": 5000, "length": 64, "load": 16, "vocab": 256, "batch": 128},
    "rates": {"rnn": 1e-3, "blocks": 2e-3},
    "width": 64,
    "heads": 4,
    "rnn": 2176,
    "window": 17,
}
SEEDS = 2, 3


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    runs = train_models("recall", stores(terms), effort, SEEDS, layers=2, vary=True, **terms["run"])
    found = by_dial(runs)
    sizes = {name: each[0].figures["state_bytes"] for name, each in runs.items()}
    verdict, limits = judge(found)
    most = max(found[LIST])
    effects = "; ".join(
        f"{name} ({sizes[name]:,} bytes): {pairs(each)}, {show(each[most])} right of {most}"
        for name, each in found.items()
    )
    return Found(
        verdict=verdict,
        summary=f"Most pairs recalled with at least {RIGHT:.0%} right: {effects}. {sentence(limits)}",
        figures={"accuracy": found, "state_bytes": sizes},
        charts=[store_chart("Pairs recalled, by store", found, sizes)],
    )


def stores(terms: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Model and settings of each store."""
    own = {"width": terms["width"], "heads": terms["heads"], "lr": terms["rates"]["blocks"]}
    return {
        RNN: {"model": "rnn", "width": terms["rnn"], "lr": terms["rates"]["rnn"]},
        TTT: own | {"model": "ttt-linear", "mini_batch": 4, "positions": "learned"},
        LIST: own | {"model": "transformer"},
        SHORT: own | {"model": "transformer", "window": terms["window"]},
    }


def pairs(found: Mapping[int, Sequence[float]]) -> int:
    """The threshold of a store: the largest load that it recalls, and all below; 0 where it recalls none."""
    kept = 0
    for load in sorted(found):
        if fmean(found[load]) < RIGHT:
            break
        kept = load
    return kept


def judge(found: Mapping[str, Mapping[int, Sequence[float]]]) -> tuple[Verdict, str]:
    """From {store: {pairs: [accuracy of each seed]}}, at the heaviest load."""
    most = max(found[LIST])
    vector, trained, full = (found[name][most] for name in (RNN, TTT, LIST))
    if min(full) < RIGHT:
        return Verdict.UNDECIDED, f"attention itself did not learn to recall {most} pairs with every seed"
    above = apart(vector, trained, MARGIN), apart(vector, full, MARGIN)
    if all(above):
        rest = apart(trained, full, MARGIN)
        order = "attention above both" if rest else "TTT as good as attention at this load"
        return Verdict.HOLDS, f"the vector keeps least at as many bytes as TTT; {order}"
    if above[1]:
        return Verdict.LIMITS, "attention keeps more than the vector; that TTT does is not shown"
    if apart(full, vector) or min(vector) >= RIGHT:
        return Verdict.FAILS, "the vector keeps as much as attention"
    return Verdict.UNDECIDED, "the seeds overlap"


CLAIM = Claim(
    statement="""A vector (RNN), weights trained while reading (TTT) and a list (attention) differ in how much context
    they keep.""",
    sources=(
        "Sun 2024, Learning to (Learn at Test Time): RNNs with Expressive Hidden States (arXiv 2407.04620)",
        "Arora 2023, Zoology: Measuring and Improving Recall in Efficient Language Models (arXiv 2312.04927)",
        "001_56d5b8bda4e4cf77.txt",
    ),
    experiment="""Each store is trained to recall the values of keys, one to so many pairs; RNN and TTT have equally
    many bytes of state, attention its whole list, and beside it a list cut to as many bytes as the others.""",
    decided=f"""At the heaviest load, for every pair of seeds: holds if the RNN is right less often than TTT and than
    attention by over {MARGIN}; within limits if only than attention; does not hold if it is right as often as attention
    or at least {RIGHT}; undecided if attention itself is below {RIGHT}. The threshold in pairs (at least {RIGHT} right
    in the mean) and the cut list are told. Quick: up to {QUICK["run"]["load"]} pairs in {QUICK["run"]["length"]} steps,
    vocabulary {QUICK["run"]["vocab"]}; 2 layers; RNN of {QUICK["rnn"]}, TTT and attention of {QUICK["width"]} with
    {QUICK["heads"]} heads, a list of {QUICK["window"]}; {QUICK["run"]["steps"]} steps of {QUICK["run"]["batch"]} rows,
    rate {QUICK["rates"]["rnn"]} for the RNN and {QUICK["rates"]["blocks"]} for the others, {SEEDS[0]} seeds. Full: up
    to {FULL["run"]["load"]} pairs in {FULL["run"]["length"]} steps, vocabulary {FULL["run"]["vocab"]}; RNN of
    {FULL["rnn"]:,}, the others {FULL["width"]} with {FULL["heads"]} heads, a list of {FULL["window"]};
    {FULL["run"]["steps"]:,} steps of {FULL["run"]["batch"]} rows, rates {FULL["rates"]["rnn"]} and
    {FULL["rates"]["blocks"]}, {SEEDS[1]} seeds.""",
    note="""The note says that attention does not compress. So it is while the list may grow: with as many bytes as the
    others it must drop what is old.""",
    run=run,
)
