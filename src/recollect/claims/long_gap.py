"""I grew up in Italy … I speak fluent: what each memory still knows at the end.

The quick form leaves the TCN out, to keep within its time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import gap_chart, sentence, show
from .laboratory.training import BLOCKS, CELLS, GAP_MODELS, by_dial, train_models

KNOWN, LOST, FALL, ALWAYS = 0.8, 0.5, 0.2, 0.9
PLAIN = "rnn"
OTHERS = ("lstm", "gru", "transformer")
QUICK: dict[str, Any] = {
    "models": ("ar", "rnn", "lstm", "gru", "transformer"),
    "run": {"steps": 600, "distance": 48, "distractors": 1, "width": 32, "batch": 32, "eval_rows": 400},
}
FULL: dict[str, Any] = {
    "models": tuple(GAP_MODELS),
    "run": {"steps": 5000, "distance": 200, "distractors": 1, "width": 64, "batch": 64},
}
SEEDS = 2, 3


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    models = {model: GAP_MODELS[model] for model in terms["models"]}
    found = by_dial(train_models("gap", models, effort, SEEDS, vary=True, **terms["run"]))
    verdict, limits = judge(found)
    near, far = min(found[PLAIN]), max(found[PLAIN])
    effects = "; ".join(f"{model} {show(each[near])} → {show(each[far])}" for model, each in found.items())
    return Found(
        verdict=verdict,
        summary=f"Right answers after {near} → {far} words: {effects}. {sentence(limits)}",
        figures={"accuracy": found},
        charts=[gap_chart("Grew up in Italy … speaks fluent", found)],
    )


def judge(found: Mapping[str, Mapping[int, Sequence[float]]]) -> tuple[Verdict, str]:
    """From {model: {words between: [accuracy of each seed]}}."""
    near, far = min(found[PLAIN]), max(found[PLAIN])
    plain = found[PLAIN]
    if min(plain[far]) >= ALWAYS:
        return Verdict.FAILS, f"the plain RNN carries it over {far} words"
    able = [model for model in OTHERS if model in found and min(found[model][far]) >= KNOWN]
    if min(plain[near]) >= KNOWN and max(plain[far]) < LOST and able:
        return Verdict.HOLDS, f"the plain RNN loses it, {', '.join(able)} do not"
    falls = all(a - b >= FALL for a, b in zip(plain[near], plain[far], strict=True))
    if falls:
        others = f"{', '.join(able)} carry it" if able else "the others do not carry it either"
        return Verdict.LIMITS, f"the plain RNN falls off with the gap; {others}"
    if max(plain[near]) < LOST:
        carry = f"; {', '.join(able)} carry it over {far} words" if able else ""
        return Verdict.UNDECIDED, f"the plain RNN did not learn even the narrowest gap{carry}"
    return Verdict.UNDECIDED, "no clear fall with every seed"


CLAIM = Claim(
    statement="“I grew up in Italy … I speak fluent …”: as the gap widens, a plain RNN can no longer join the two.",
    sources=(
        "Bengio, Simard & Frasconi 1994, Learning long-term dependencies with gradient descent is difficult",
        "Olah 2015, Understanding LSTM Networks",
        "001_56d5b8bda4e4cf77.txt",
    ),
    experiment="""Generated English in which a country named early decides a language asked for late, with a distractor
    between; each model is trained at all gaps up to the widest and asked at four of them.""",
    decided=f"""Holds: with every seed the plain RNN is right at least {KNOWN} at the narrowest of the four gaps and
    below {LOST} at the widest, where an LSTM, GRU or Transformer is right at least {KNOWN}. Within limits: it falls by
    at least {FALL} with every seed, less clearly. Does not hold: it is right at least {ALWAYS} at the widest with every
    seed. Quick: gaps of {QUICK["run"]["distance"] // 4} to {QUICK["run"]["distance"]} words, width
    {QUICK["run"]["width"]}, {QUICK["run"]["steps"]} steps of {QUICK["run"]["batch"]} rows, {SEEDS[0]} seeds, five
    models. Full: {FULL["run"]["distance"] // 4} to {FULL["run"]["distance"]} words, width {FULL["run"]["width"]},
    {FULL["run"]["steps"]:,} steps of {FULL["run"]["batch"]} rows, {SEEDS[1]} seeds, all ten. Rates: {CELLS["lr"]} for
    windows and cells, {BLOCKS["lr"]} for the others.""",
    note="""The example goes back to Olah's page, where the country is France. What the note says of learning to connect
    goes back to Hochreiter 1991 and Bengio 1994.""",
    run=run,
)
