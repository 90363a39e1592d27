"""The ladders: how one memory became the next, each rung one change."""

from dataclasses import replace

from .heat import Heat, Metric, Rung
from .heats import HEATS

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
TRANSLATION = (
    Rung(name="fixed", model="fixed", change="One vector, the encoder's last state, starts the decoder."),
    Rung(name="context", model="context", change="The same vector enters every step, not only the first."),
    Rung(name="attend", model="attend", change="Every step looks the source up anew, by soft alignment."),
    Rung(name="transformer", model="transformer", change="Attention in place of recurrence on both sides."),
)
STATE = (
    Rung(name="RNN", model="rnn", change="One vector, overwritten at each step."),
    Rung(name="linear attention", model="linear-transformer", change="A matrix, added to at each step."),
    Rung(name="TTT", model="ttt-linear", change="A small model's weights, trained on what is read."),
    Rung(name="attention", model="transformer", change="Everything is kept: the state grows with the text."),
)

LADDERS: dict[str, Heat] = {
    str(heat.ladder): heat
    for heat in (
        replace(
            HEATS["text"],
            name="ladder-recurrence",
            title="The ladder of recurrence: from counting to gates",
            ladder="recurrence",
            rungs=RECURRENCE,
        ),
        replace(
            HEATS["text"],
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
            settings={**HEATS["text"].settings, "width": "64"},
            step_by_step=True,
        ),
        replace(
            HEATS["translation"],
            name="ladder-translation",
            title="The ladder of translation: from one vector to attention",
            ladder="translation",
            rungs=TRANSLATION,
        ),
        replace(
            HEATS["recall"],
            name="ladder-state",
            title="The ladder of state: what a byte of memory buys",
            ladder="state",
            rungs=STATE,
        ),
    )
}
