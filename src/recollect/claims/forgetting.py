"""A text whose statistics switch: one layer, its forget dial at none and at a rate for each step.

Every letter is followed by a letter of its own for as long as a subject lasts; with the next subject all successors are
drawn anew. What was learnt of a subject while reading it is wrong in the next.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..models import language
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import apart, bars, curve, said_each, sentence
from .laboratory.floor import Floor
from .laboratory.training import fit, token_task

LETTERS = "abcdefgh"
SURE = 0.9  # the chance of a letter's own successor; else any letter follows
MODEL = "gated-delta"
FORGETS: dict[str, dict[str, Any]] = {name: {"forget": name, "write": "add"} for name in ("none", "step")}
MARGIN = 0.05  # nats a letter
LEARNT = 1.1  # nats a letter: halfway between knowing all and nothing, from .47 to 2.08, and a little better
QUICK: dict[str, Any] = {
    "switching": 32, "lasting": 4096, "letters": 200_000, "test": 20_000,
    "body": {"width": 32, "heads": 2, "layers": 1, "taps": 2},
    "run": {"context": 128, "batch": 16}, "steps": 400, "rate": 5e-3,
}  # fmt: skip
FULL: dict[str, Any] = {
    "switching": 64, "lasting": 16_384, "letters": 4_000_000, "test": 100_000,
    "body": {"width": 64, "heads": 2, "layers": 2, "taps": 2},
    "run": {"context": 512, "batch": 32}, "steps": 3000, "rate": 3e-3,
}  # fmt: skip
SEEDS = 2, 3
FLOOR = Floor(easy="where the subject stays", figure="nats a letter", most=LEARNT, models="both")


def run(effort: Effort) -> Found:
    terms = effort.pick(QUICK, FULL)
    found: dict[str, dict[str, list[float]]] = {name: {} for name in FORGETS}
    for kind in ("lasting", "switching"):
        for name, own in FORGETS.items():
            seeds = effort.seed_range(*SEEDS)
            found[name][kind] = [learn(terms, terms[kind], own, seed, effort.device) for seed in seeds]
    switching = {name: each["switching"] for name, each in found.items()}
    lasting = {name: each["lasting"] for name, each in found.items()}
    verdict, told = judge(switching, lasting)
    return Found(
        verdict=verdict,
        summary=(
            f"Nats a letter where the subject changes every {terms['switching']} letters: "
            f"{said_each(named(switching))}; where it stays: {said_each(named(lasting))}. {sentence(told)}"
        ),
        figures={"nats": found},
        charts=[
            bars(
                "A text that changes its subject, and one that does not",
                "the subject",
                "nats a letter",
                [curve(name, each) for name, each in named(found).items()],
            )
        ],
    )


def named(found: Mapping[str, Any]) -> dict[str, Any]:
    """The same by what the dial does."""
    return {"forgets nothing" if name == "none" else "forgets by the step": own for name, own in found.items()}


def write(letters: int, each: int, seed: int) -> np.ndarray:
    """A text of so many letters, whose subject lasts for `each` of them."""
    draw, count = np.random.default_rng(seed), len(LETTERS)
    loose, other = draw.random(letters) >= SURE, draw.integers(count, size=letters)
    text, now = np.empty(letters, dtype=np.int64), 0
    follows = np.arange(count)
    for t in range(letters):
        if t % each == 0:
            circle = draw.permutation(count)  # every letter is met: the successors form one circle
            follows[circle] = np.roll(circle, -1)
        now = int(other[t]) if loose[t] else int(follows[now])
        text[t] = now
    return text


def learn(terms: Mapping[str, Any], each: int, own: dict[str, Any], seed: int, device: str) -> float:
    """Nats a letter of a model that was trained on a text with subjects of so many letters."""
    text = write(terms["letters"] + terms["test"], each, seed)
    train, valid = text[: terms["letters"]], text[terms["letters"] :]
    task = token_task(f"subjects of {each}", LETTERS, train, valid, device, seed, **terms["run"])
    size = task.data.tokenizer.size
    config = language.Config(vocab=size, model=MODEL, layer=dict(own), **terms["body"])
    model = fit(task, config.build, steps=terms["steps"], rate=terms["rate"], seed=seed, device=device)
    return float(task.evaluate(model, "valid", "windows")["nats_per_token"])


def judge(switching: Mapping[str, Sequence[float]], lasting: Mapping[str, Sequence[float]]) -> tuple[Verdict, str]:
    """From {forget: [nats of each seed]} where the subject changes, and where it stays."""
    if missing := FLOOR.missing(named(lasting)):
        return Verdict.NOT_LEARNT, missing
    helps = apart(switching["step"], switching["none"], MARGIN)
    if helps is None:
        return Verdict.UNDECIDED, "the seeds overlap"
    if not helps:
        return Verdict.FAILS, "who forgets reads no better"
    if apart(lasting["step"], lasting["none"], MARGIN):
        return Verdict.LIMITS, "who forgets reads better, but so it does where the subject stays"
    return Verdict.HOLDS, "who forgets reads better, and only where the subject changes"


def _form(terms: Mapping[str, Any], seeds: int) -> str:
    body, own = terms["body"], terms["run"]
    return (
        f"{terms['letters']:,} letters, subjects of {terms['switching']} and of {terms['lasting']:,}, "
        f"{body['layers']} {'layer' if body['layers'] == 1 else 'layers'} of {body['width']}, {body['heads']} heads, "
        f"{terms['steps']:,} steps of {own['batch']} rows of {own['context']}, rate {terms['rate']:g}, {seeds} seeds"
    )


CLAIM = Claim(
    statement="Forgetting helps where a text changes its subject.",
    sources=(
        "Yang 2024, Gated Delta Networks: Improving Mamba2 with Delta Rule (arXiv 2412.06464)",
        "Dao 2024, Transformers are SSMs (arXiv 2405.21060)",
    ),
    experiment=f"""A generated text in which each of {len(LETTERS)} letters has a successor of its own, until the
    subject changes and all successors are drawn anew; one layer whose matrix is added to, with its forget dial at
    none and at a rate for each step.""",
    decided=f"""{FLOOR} Where the subject changes, for every pair of seeds: holds if the layer that forgets is better by
    over {MARGIN} nats a letter, and is not better by as much where the subject stays; within limits if it is better
    there too; does not hold if it is not better where the subject changes; else undecided. Quick:
    {_form(QUICK, SEEDS[0])}. Full: {_form(FULL, SEEDS[1])}.""",
    note="""What is forgotten here is what has become wrong. A delta rule mends some of that by itself, since a letter's
    new successor replaces the old one; so the dial is turned on a memory that only adds.""",
    run=run,
    chapter=13,
)
