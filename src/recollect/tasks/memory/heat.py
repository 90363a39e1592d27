"""How tests of memory are raced: a heat for each, the ladder of state, and the ladder of what a matrix can do."""

from dataclasses import replace

from ...core.heat import Heat, Metric, Rung
from ...models.body import KINDS
from ..metrics import RIGHT

SQUARED_ERROR = Metric(name="mse", place=("mse",), label="squared error")
NETWORKS = tuple(name for name in KINDS if name != "ar")


def _heat(
    task: str,
    title: str,
    question: str,
    *,
    metric: Metric = RIGHT,
    validation: Metric = RIGHT,
    settings: dict[str, str] | None = None,
    default_rank: int | None = None,
) -> Heat:
    return Heat(
        name=task,
        task=task,
        title=title,
        question=question,
        metric=metric,
        validation=validation,
        models=NETWORKS,
        params=30_000,
        steps=400,
        settings=settings or {"batch": "64", "eval_rows": "500"},
        default_rank=default_rank,
    )


RECALL = _heat(
    "recall",
    "Recall: who was with whom?",
    "A row names pairs, a key and its value each, and later asks for the value of every key. Whoever "
    "keeps all pairs apart answers all; whoever squeezes them into a small state mixes them up. Every memory "
    "stands in the same block, which shows it each token beside the one before, since keeping is asked for "
    "here and not how soon one finds out what to look back at.",
    metric=replace(RIGHT, label="share recalled"),
    settings={
        "length": "16",
        "load": "4",
        "vocab": "32",
        "batch": "64",
        "heads": "1",
        "block": "residual",
        "taps": "2",
        "eval_rows": "400",
        "eval_batch": "200",
    },
    default_rank=1,
)
HEATS = (
    RECALL,
    _heat(
        "copy",
        "Copy: say it again, later",
        "A few symbols, a silence, then the same symbols in their order: the state must hold them all the while.",
        validation=Metric(name="loss", place=("loss",), label="nats per step"),
    ),
    _heat(
        "adding",
        "Adding: two numbers among many",
        "Of a row of numbers two are marked; their sum is asked for at the end.",
        metric=SQUARED_ERROR,
        validation=SQUARED_ERROR,
    ),
    _heat(
        "parity",
        "Parity: odd or even so far?",
        "After each bit, whether the ones so far are odd: one bit of state is enough, but it must never slip.",
    ),
    _heat(
        "gap",
        "Gap: who grew up where?",
        "A country is named early, its language asked for late, with other sentences between.",
    ),
    _heat(
        "order",
        "Order: as it was, or shuffled?",
        "Numbers that rise, or the same numbers in another order: who sees what there is but not when cannot tell.",
    ),
    _heat(
        "clouds",
        "Clouds: what is asked for stands near",
        "A long text, then a sentence whose second word decides its last: the easy partner of the gap.",
    ),
    _heat(
        "agreement",
        "Agreement: which noun does the verb follow?",
        "The verb agrees with the first noun, however many others, one or several, stand between.",
    ),
    _heat(
        "nested",
        "Nested clauses: the last noun's verb comes first",
        "Nouns in a row, then their verbs in reverse: what was read last is asked for first.",
    ),
)

STATE = (
    Rung(name="RNN", model="rnn", change="One vector, overwritten at each step."),
    Rung(name="linear attention", model="linear-transformer", change="A matrix, added to at each step."),
    Rung(name="TTT", model="ttt-linear", change="A small model's weights, trained on what is read."),
    Rung(name="attention", model="transformer", change="Everything is kept: the state grows with the text."),
)
MEMORY = (
    Rung(
        name="add", model="linear-transformer", change="Each value is added to one matrix under its key; nothing goes."
    ),
    Rung(name="forget", model="mamba2", change="Before each write the matrix fades, by as much as the input says."),
    Rung(name="delta", model="delta", change="What stands under a key is taken away before the new value is written."),
    Rung(name="gated delta", model="gated-delta", change="Both: the matrix fades, and the write replaces."),
    Rung(
        name="TTT-linear",
        model="ttt-linear",
        change="The matrix is a model with a norm inside, trained on a mini-batch of inputs at a time.",
    ),
    Rung(name="TTT-MLP", model="ttt-mlp", change="The model has two layers: keys are told apart that a matrix mixes."),
    Rung(name="attention", model="transformer", change="Everything is kept: the state grows with the text."),
)
LADDERS = (
    replace(
        RECALL,
        name="ladder-state",
        title="The ladder of state: what a byte of memory buys",
        ladder="state",
        rungs=STATE,
    ),
    replace(
        RECALL,
        name="ladder-memory",
        title="The ladder of memory: what a matrix can do with what it is given",
        question="Recall where each of four keys comes three times, each time with another value, and the last one is "
        "asked for: a memory that only adds returns the sum of all three. From rung to rung the memory can do one "
        "thing more.",
        ladder="memory",
        rungs=MEMORY,
        settings={**RECALL.settings, "rounds": "3", "length": "32"},
    ),
)
