"""How language models are raced: one heat for all of them, and two ladders, of recurrence and of attention."""

from dataclasses import replace

from ...core.heat import Heat, Rung
from ..metrics import NATS
from .task import TextTask

TEXT = Heat(
    name="text",
    task="text",
    title="Text: what comes next?",
    question="Predict each token of a text from those before it. Most of that needs only the last few tokens, "
    "which counting does well; a longer memory pays off late, with more to learn from.",
    metric=NATS,
    validation=NATS,
    models=TextTask.models,
    params=150_000,
    steps=200,
    settings={"batch": "16", "context": "64", "eval_tokens": "16384"},
    data={"tokenizer": "bytes"},
)
HEATS = (TEXT,)

RECURRENCE = (
    Rung(name="n-gram", model="ngram", change="Counts what came after the last four tokens; learns nothing else."),
    Rung(name="autoregressive", model="mlp", change="A network reads the last eight tokens in place of a count."),
    Rung(name="RNN", model="rnn", change="A state is carried on in place of a window that ends."),
    Rung(name="GRU", model="gru", change="Gates decide what of the state stays."),
    Rung(name="LSTM", model="lstm", change="A second state that is added to, not overwritten."),
)
ATTENTION = tuple(
    Rung(name=name, model="transformer", change=change, settings=settings)
    for name, change, settings in (
        (
            "x·x",
            "No parameters: each token looks at those before it that are like it.",
            {"block": "plain", "heads": "1", "positions": "none", "project": "false", "score": "dot"},
        ),
        (
            "Q, K, V",
            "Three learned views of each token: what it asks, what it answers to, what it gives.",
            {"project": "true"},
        ),
        ("scaled", "Scores are divided by the root of the width, so that the softmax stays soft.", {"score": "scaled"}),
        ("heads", "Four narrow looks at once in place of one wide one.", {"heads": "4"}),
        ("positions", "Tokens know how far apart they stand.", {"positions": "rotary"}),
        (
            "feed-forward, residual",
            "The Transformer's block: a shortcut around each layer, and a network for each token alone.",
            {"block": "residual"},
        ),
        (
            "mask left out",
            "Training sees the future: with time the loss falls to almost nothing, and writing, where there is none, "
            "fails.",
            {"masked": "false"},
        ),
    )
)
LADDERS = (
    replace(
        TEXT,
        name="ladder-recurrence",
        title="The ladder of recurrence: from counting to gates",
        ladder="recurrence",
        rungs=RECURRENCE,
    ),
    replace(
        TEXT,
        name="ladder-attention",
        title="The ladder of attention: what each part of it buys",
        question="The same text for each rung, at one width; each adds one part. Parameters differ, since a part "
        "brings its own.",
        metric=replace(
            NATS,
            place=("step_by_step",),
            label="nats per token, one at a time",
            rule="windows of the text, each token before the next is shown",
        ),
        ladder="attention",
        rungs=ATTENTION,
        params=None,
        settings={**TEXT.settings, "width": "64"},
        step_by_step=True,
    ),
)
