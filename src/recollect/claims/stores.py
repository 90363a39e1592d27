"""Three stores for what was read: a vector, a model trained on it, a list. How many pairs each gives back.

Before its first run the quick form was made easier to learn (a vocabulary of 16, rotary positions for attention, a rate
for each kind of model, 500 steps), since attention had not learnt a like task in as many steps for the claim `score`.
In that form attention did not learn two pairs, at width 16 and rate .01. It has 24 and .003 now, and what each
store keeps of the lightest load must have been learnt.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import apart, sentence, show, store_chart
from .laboratory.floor import Floor
from .laboratory.training import by_dial, train_models

RIGHT, MARGIN = 0.9, 0.1
RNN, TTT, LIST, SHORT = "rnn", "ttt-linear", "attention", "attention, as many bytes"
QUICK: dict[str, Any] = {
    "run": {"steps": 700, "length": 16, "load": 4, "vocab": 16, "batch": 32, "eval_rows": 500},
    "rates": {"rnn": 2e-3, "ttt": 6e-3, "attention": 3e-3},
    "width": 24,
    "heads": {"ttt": 4, "attention": 2},
    "rnn": 336,
    "window": 7,
}
FULL: dict[str, Any] = {
    "run": {"steps": 2000, "length": 32, "load": 8, "vocab": 64, "batch": 128},
    "rates": {"rnn": 1e-3, "ttt": 4e-3, "attention": 2e-3},
    "width": 64,
    "heads": {"ttt": 4, "attention": 4},
    "rnn": 2176,
    "window": 17,
}
SEEDS = 3, 3
FLOOR = Floor(easy="of 1 pair", figure="right answers", least=RIGHT, models="every store")


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
    rates, heads, width = terms["rates"], terms["heads"], terms["width"]
    trained = {"width": width, "heads": heads["ttt"], "lr": rates["ttt"]}
    listed = {"model": "transformer", "width": width, "heads": heads["attention"], "lr": rates["attention"]}
    return {
        RNN: {"model": "rnn", "width": terms["rnn"], "lr": rates["rnn"]},
        TTT: trained | {"model": "ttt-linear", "mini_batch": 4, "positions": "learned"},
        LIST: listed,
        SHORT: listed | {"window": terms["window"]},
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
    if missing := FLOOR.missing({name: each[min(each)] for name, each in found.items()}):
        return Verdict.NOT_LEARNT, missing
    most = max(found[LIST])
    vector, trained, full = (found[name][most] for name in (RNN, TTT, LIST))
    if min(full) < RIGHT:
        return Verdict.NOT_LEARNT, f"attention itself did not learn to recall {most} pairs with every seed"
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


def _form(terms: Mapping[str, Any], seeds: int) -> str:
    run, rates, heads = terms["run"], terms["rates"], terms["heads"]
    return (
        f"up to {run['load']} pairs in {run['length']} steps, vocabulary {run['vocab']}, 2 layers; an RNN of "
        f"{terms['rnn']:,} at rate {rates['rnn']:g}, TTT of {terms['width']} with {heads['ttt']} heads at "
        f"{rates['ttt']:g}, attention of {terms['width']} with {heads['attention']} at {rates['attention']:g}, a cut "
        f"list of {terms['window']}; {run['steps']:,} steps of {run['batch']} rows, {seeds} seeds"
    )


CLAIM = Claim(
    statement="""A vector (RNN), weights trained while reading (TTT) and a list (attention) differ in how much context
    they keep.""",
    sources=(
        "Sun 2024, Learning to (Learn at Test Time): RNNs with Expressive Hidden States (arXiv 2407.04620)",
        "Arora 2023, Zoology: Measuring and Improving Recall in Efficient Language Models (arXiv 2312.04927)",
        "the overview note: 「使用一个列表（KV Cache）存储所有context，无压缩」",
    ),
    experiment="""Each store is trained to recall the values of keys, one to so many pairs; RNN and TTT have equally
    many bytes of state, attention its whole list, and beside it a list cut to as many bytes as the others.""",
    decided=f"""{FLOOR} So where attention itself is below {RIGHT} at the heaviest load. There, for every pair of seeds:
    holds if the RNN is right less often than TTT and than attention by over {MARGIN}; within limits if only than
    attention; does not hold if it is right as often as attention or at least {RIGHT}; else undecided. The threshold in
    pairs (at least {RIGHT} right in the mean) and the cut list are told. Quick: {_form(QUICK, SEEDS[0])}. Full:
    {_form(FULL, SEEDS[1])}.""",
    note="""The note says that attention does not compress. So it is while the list may grow: with as many bytes as the
    others it must drop what is old.""",
    run=run,
    chapter=12,
)
