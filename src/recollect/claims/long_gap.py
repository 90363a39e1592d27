"""I grew up in Italy … I speak fluent: what each memory still knows at the end.

The first form trained at all gaps from 12 words on at once, with a distractor between, where the plain RNN stood at
chance at the narrowest gap already. The gaps now begin at none, without distractors, and there are two ways of
training: at each gap alone, which is the sentence as it stands, and on gaps that widen.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.chart import Chart
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import curves, sentence, show
from .laboratory.floor import Floor
from .laboratory.gaps import WideningGapTask
from .laboratory.training import by_dial, train_models, train_seeds

KNOWN, LOST = 0.8, 0.5
PLAIN = "rnn"
ALONE, WIDENING = "at each gap alone", "at gaps that widen"
CELL: dict[str, Any] = {"layers": 1, "lr": 5e-3}
BLOCK: dict[str, Any] = {"layers": 2, "heads": 2, "lr": 3e-3}
MODELS: dict[str, dict[str, Any]] = {PLAIN: CELL, "gru": CELL, "transformer": BLOCK}
RUN: dict[str, Any] = {"width": 64, "batch": 32, "distractors": 0}
QUICK: dict[str, Any] = {
    "alone": {"steps": 500, "eval_rows": 300},
    "gaps": (0, 8, 48),
    "widening": {"steps": 1000, "widen": 600, "distance": 48, "eval_rows": 300, "lr": 3e-3},
}
FULL: dict[str, Any] = {
    "alone": {"steps": 1000},
    "gaps": (0, 8, 120),
    "widening": {"steps": 1500, "widen": 1000, "distance": 120, "lr": 2e-3},
}
SEEDS = 3, 3
FLOOR = Floor(easy="after 0 words", figure="right answers", least=0.9, models=f"the plain RNN, trained {ALONE},")


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    alone = {
        model: {
            gap: [
                run.figures["accuracy"]
                for run in train_seeds("gap", model, effort, SEEDS, distance=gap, **RUN | own | terms["alone"])
            ]
            for gap in (terms["gaps"] if model == PLAIN else (terms["gaps"][0], terms["gaps"][-1]))
        }
        for model, own in MODELS.items()
    }
    settings = RUN | {"vary": True} | terms["widening"]
    models = {model: {key: value for key, value in own.items() if key != "lr"} for model, own in MODELS.items()}
    found = {ALONE: alone, WIDENING: by_dial(train_models(WideningGapTask, models, effort, SEEDS, **settings))}
    verdict, limits = judge(found)
    near, far = terms["gaps"][0], terms["gaps"][-1]
    effects = ". ".join(
        f"Trained {way}: "
        + ", ".join(f"{model} {show(each[near])} → {show(each[far])}" for model, each in ways.items())
        for way, ways in found.items()
    )
    return Found(
        verdict=verdict,
        summary=f"Right answers after {near} → {far} words. {effects}. {sentence(limits)}",
        figures={"accuracy": found},
        charts=[
            Chart(
                f"Grew up in Italy … speaks fluent, trained {way}",
                "words between",
                "right answers",
                curves(ways),
                level=1 / 12,
                level_name="chance",
            )
            for way, ways in found.items()
        ],
    )


def judge(found: Mapping[str, Mapping[str, Mapping[int, Sequence[float]]]]) -> tuple[Verdict, str]:
    """From {way of training: {model: {words between: [accuracy of each seed]}}}."""
    plain = {way: models[PLAIN] for way, models in found.items()}
    near, far = min(plain[ALONE]), max(plain[ALONE])
    if missing := FLOOR.missing({PLAIN: plain[ALONE][near]}):
        return Verdict.NOT_LEARNT, missing
    able = [model for model, each in found[ALONE].items() if model != PLAIN and max(each[far]) >= KNOWN]
    carries = [way for way, each in plain.items() if min(each[far]) >= KNOWN]
    loses = [way for way, each in plain.items() if max(each[far]) < LOST]
    if ALONE in carries:
        return Verdict.FAILS, f"the plain RNN learns it over {far} words by themselves"
    if ALONE not in loses:
        return Verdict.UNDECIDED, f"seeds differ over {far} words"
    others = f"{', '.join(able)} can" if able else "so can no other model"
    if WIDENING in carries:
        return Verdict.LIMITS, (
            f"trained {ALONE} the plain RNN cannot learn it over {far} words, and {others}; trained {WIDENING} it can, "
            "so that it is training that does not find it, not the state that cannot keep it"
        )
    if WIDENING in loses and able:
        return Verdict.HOLDS, f"the plain RNN loses it in both ways of training, {', '.join(able)} need not"
    return Verdict.LIMITS, f"trained {ALONE} the plain RNN cannot learn it; {others}; trained {WIDENING} seeds differ"


def _form(terms: Mapping[str, Any], seeds: int) -> str:
    alone, widening = terms["alone"], terms["widening"]
    return (
        f"gaps of {', '.join(map(str, terms['gaps']))} words alone (the other models at the first and the last), "
        f"{alone['steps']:,} steps; widening to {widening['distance']} by step {widening['widen']:,} of "
        f"{widening['steps']:,}, rate {widening['lr']:g}; {seeds} seeds"
    )


CLAIM = Claim(
    statement="""“I grew up in Italy … I speak fluent …”: as the gap widens, a plain RNN can no longer learn to join the
    two.""",
    sources=(
        "Bengio, Simard & Frasconi 1994, Learning long-term dependencies with gradient descent is difficult",
        "Olah 2015, Understanding LSTM Networks",
        "the overview note: 「随着这种间隔的拉长，RNNs就会无法学习连接信息」",
    ),
    experiment=f"""Generated English in which a country named early decides a language asked for late. A plain RNN, a
    GRU and a Transformer are trained {ALONE}, and {WIDENING}: from none on, one after the other let in.""",
    decided=f"""{FLOOR} Holds: over the widest gap the plain RNN is right less than {LOST} of the time with every seed
    in both ways of training, and another model, trained at that gap alone, at least {KNOWN} with some seed. Within
    limits: it is so at that gap alone only, or no other model can either. Does not hold: trained at the widest gap
    alone it is right at least {KNOWN} of the time with every seed; else undecided. Width {RUN["width"]}, batches of
    {RUN["batch"]}, rates {CELL["lr"]:g} for cells and {BLOCK["lr"]:g} for the Transformer at a gap alone. Quick (about
    three minutes): {_form(QUICK, SEEDS[0])}. Full: {_form(FULL, SEEDS[1])}.""",
    note="""The example goes back to Olah's page, where the country is France. What the note says of learning to connect
    goes back to Hochreiter 1991 and Bengio 1994.""",
    run=run,
    chapter=4,
)
