"""Reading the source from its end, with and without attention.

Reversed, the first symbol to be written is the last that was read. Attention finds it wherever it stands.

Attention soon copies without an error, and then has nothing left to gain: so it was in the first form of this
experiment, which compared the ends of training alone. What is compared now is the mean share of wrong symbols over the
whole of training, where both models have errors to lose.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from .claim import Claim, Effort, Found, Verdict
from .laboratory.copying import Copying, course_chart, follow_each, full_form, quick_form
from .laboratory.figures import apart, decimal, in_words, limits, scientific, show

MODELS = ("fixed", "attend")
TRANSLATORS = {
    name + turned: {"model": name, "reverse": bool(turned)} for name in MODELS for turned in ("", ", reversed")
}
QUICK = quick_form(Copying(shortest=3, longest=8), steps=300, every=20, seeds=5)
FULL = full_form(Copying(shortest=3, longest=24, train=100_000), steps=2000, every=100)
LONG = (7, 17)  # quick, full: sources of at least so many symbols are the long ones
MARGIN = 0.03  # of the share of wrong symbols, in the mean over training
ROOM = 3 * MARGIN  # that attention must err over training, so that there is something to gain
LEARNT = 0.5  # wrong symbols at the end, at most


def run(effort: Effort) -> Found:
    form, long = effort.pick(QUICK, FULL), effort.pick(*LONG)
    found = follow_each(form, TRANSLATORS, effort, long)
    means = {name: [course.mean for course in each] for name, each in found.items()}
    ends = {name: [course.end for course in each] for name, each in found.items()}
    gains = {name: gained(means, name) for name in MODELS}
    verdict = judge(gains, means["attend"], ends)
    steps = found["fixed"][0].steps
    errors = {name: [list(course.errors) for course in each] for name, each in found.items()}
    return Found(
        verdict=verdict,
        summary=(
            f"wrong symbols that reversal saves on sources of {long} and more, in the mean over training: "
            f"one vector {show(gains['fixed'])} of {show(means['fixed'])}, attention {show(gains['attend'])} of "
            f"{show(means['attend'])}; at the end: one vector {show(gained(ends, 'fixed'))} of {show(ends['fixed'])}, "
            f"attention {show(gained(ends, 'attend'))} of {show(ends['attend'])}"
            + limits(verdict, "; the limits: attention gains too, though less")
        ),
        figures={"steps": list(steps), "errors": errors, "means": means, "ends": ends, "gains": gains},
        charts=[course_chart("Wrong symbols of long sources, read from either end", errors, steps, form.copying)],
    )


def gained(errors: Mapping[str, Sequence[float]], model: str) -> list[float]:
    """What reversal saves in each seed."""
    pairs = zip(errors[model], errors[f"{model}, reversed"], strict=True)
    return [plain - turned for plain, turned in pairs]


def judge(gains: Mapping[str, Sequence[float]], room: Sequence[float], ends: Mapping[str, Sequence[float]]) -> Verdict:
    """From what reversal saves in each seed, what attention errs over training without it, and errors at the end."""
    if max(max(each) for each in ends.values()) > LEARNT:
        return Verdict.NOT_LEARNT
    if min(room) < ROOM:
        return Verdict.UNDECIDED
    if max(gains["fixed"]) <= MARGIN:
        return Verdict.FAILS
    if min(gains["fixed"]) <= MARGIN:
        return Verdict.UNDECIDED
    less = apart(gains["attend"], gains["fixed"])
    if less and fmean(gains["attend"]) <= MARGIN:
        return Verdict.HOLDS
    return {True: Verdict.LIMITS, False: Verdict.FAILS, None: Verdict.UNDECIDED}[less]


CLAIM = Claim(
    statement="Reading the source from its end helps a translator without attention, and not one with it.",
    sources=(
        "Sutskever, Vinyals & Le 2014, Sequence to Sequence Learning with Neural Networks",
        "Bahdanau, Cho & Bengio 2015, Neural Machine Translation by Jointly Learning to Align and Translate",
    ),
    experiment="""A GRU that begins with its encoder's last state and one that attends learn to copy random symbols,
    each with the source read forward and from its end; on long sources the share of wrong symbols is measured all
    through training.""",
    decided=f"""Quick: {QUICK.copying} out of {QUICK.copying.symbols}, long from {LONG[0]}, {QUICK}, measured every
    {QUICK.every}, rate {scientific(QUICK.rate)}, {QUICK.seeds} seeds; full: {FULL.copying}, long from {LONG[1]},
    {FULL}, every {FULL.every}, rate {scientific(FULL.rate)}, {FULL.seeds} seeds. What reversal saves is the mean share
    of wrong symbols over training without it less that with it. Holds if it saves more than {decimal(MARGIN)} in every
    seed without attention, and with attention at most {decimal(MARGIN)} in the mean and in all seeds less than in any
    without; within limits if attention gains more than {decimal(MARGIN)}, but less in all seeds; does not hold if no
    seed without attention gains more than {decimal(MARGIN)}, or attention gains as much in all; otherwise undecided, as
    where attention errs on less than {decimal(ROOM)} over training, so that there is little to gain. Not learnt where
    any model still errs on more than {in_words(LEARNT)} of the symbols at the end.""",
    run=run,
    chapter=5,
    note="""An earlier form of this experiment held, but compared the ends of training alone, where attention made no
    error and had nothing to gain. It was redesigned for that reason.""",
)
