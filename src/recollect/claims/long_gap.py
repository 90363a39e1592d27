"""I grew up in Italy … I speak fluent: what each memory still knows at the end.

The quick form leaves the TCN out, to keep within its time.
"""

from collections.abc import Mapping, Sequence

from ..core.chart import Chart
from ._gaps import MODELS, by_gap
from ._shown import curve, said, sentence
from .claim import Claim, Effort, Found, Verdict

KNOWN, LOST, FALL, ALWAYS = 0.8, 0.5, 0.2, 0.9
PLAIN = "rnn"
OTHERS = ("lstm", "gru", "transformer")
QUICK = {
    "models": ("ar", "rnn", "lstm", "gru", "transformer"),
    "run": {"steps": 600, "distance": 48, "distractors": 1, "width": 32, "batch": 32, "eval_rows": 400},
}
FULL = {
    "models": tuple(MODELS),
    "run": {"steps": 5000, "distance": 200, "distractors": 1, "width": 64, "batch": 64},
}
SEEDS = 2, 3


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    found = by_gap(terms["models"], effort, terms["run"], SEEDS)
    verdict, limits = judge(found)
    near, far = min(found[PLAIN]), max(found[PLAIN])
    effects = "; ".join(f"{model} {said(each[near])} → {said(each[far])}" for model, each in found.items())
    chart = Chart(
        title="Grew up in Italy … speaks fluent",
        x="words between",
        y="right answers",
        lines=[curve(model, each) for model, each in found.items()],
        level=1 / 12,
        level_name="chance",
    )
    return Found(
        verdict=verdict,
        summary=f"Right answers after {near} → {far} words: {effects}. {sentence(limits)}",
        figures={"accuracy": found},
        charts=[chart],
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
    id="long-gap",
    statement="“I grew up in Italy … I speak fluent …”: as the gap widens, a plain RNN can no longer join the two.",
    sources=(
        "Bengio, Simard & Frasconi 1994, Learning long-term dependencies with gradient descent is difficult",
        "Olah 2015, Understanding LSTM Networks",
        "001_56d5b8bda4e4cf77.txt",
    ),
    experiment="Generated English in which a country named early decides a language asked for late, with a distractor "
    "between; each model is trained at all gaps up to the widest and asked at four of them.",
    decided=f"Holds: with every seed the plain RNN is right at least {KNOWN} at the narrowest of the four gaps and "
    f"below {LOST} at the widest, where an LSTM, GRU or Transformer is right at least {KNOWN}. Within limits: it "
    f"falls by at least {FALL} with every seed, less clearly. Does not hold: it is right at least {ALWAYS} at the "
    "widest with every seed. Quick: gaps of 12 to 48 words, width 32, 600 steps of 32 rows, 2 seeds, five models. "
    "Full: 50 to 200 words, width 64, 5,000 steps of 64 rows, 3 seeds, all ten. Rates: 0.01 for windows and cells, "
    "0.003 for the others.",
    note="The example goes back to Olah's page, where the country is France. What the note says of learning to connect "
    "goes back to Hochreiter 1991 and Bengio 1994.",
    run=run,
)
