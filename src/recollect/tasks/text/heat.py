"""How language models are raced: one heat for all of them, and two ladders, of recurrence and of attention."""

from dataclasses import replace

from ...core.heat import Heat, Rung
from ...core.metric import Metric
from .task import TextTask

NATS = Metric(name="nats_per_token", place=("metric", "value"), label="nats per token")
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
ATTENTION = (
    Rung(
        name="x·x",
        model="transformer",
        change="No parameters: each token looks at those before it that are like it.",
        settings={"block": "plain", "heads": "1", "positions": "none", "project": "false", "score": "dot"},
    ),
    Rung(
        name="Q, K, V",
        model="transformer",
        change="Three learned views of each token: what it asks, what it answers to, what it gives.",
        settings={"project": "true"},
    ),
    Rung(
        name="scaled",
        model="transformer",
        change="Scores are divided by the root of the width, so that the softmax stays soft.",
        settings={"score": "scaled"},
    ),
    Rung(
        name="heads",
        model="transformer",
        change="Four narrow looks at once in place of one wide one.",
        settings={"heads": "4"},
    ),
    Rung(
        name="positions",
        model="transformer",
        change="Tokens know how far apart they stand.",
        settings={"positions": "rotary"},
    ),
    Rung(
        name="feed-forward, residual",
        model="transformer",
        change="The Transformer's block: a shortcut around each layer, and a network for each token alone.",
        settings={"block": "residual"},
    ),
    Rung(
        name="mask left out",
        model="transformer",
        change="Training sees the future: with time the loss falls to almost nothing, and writing, where there is "
        "none, fails.",
        settings={"masked": "false"},
    ),
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
        metric=Metric(
            name="nats_per_token",
            place=("step_by_step",),
            label="nats per token, one at a time",
            rule="windows of validation, each token before the next is shown",
        ),
        ladder="attention",
        rungs=ATTENTION,
        params=None,
        settings={**TEXT.settings, "width": "64"},
        step_by_step=True,
    ),
)
