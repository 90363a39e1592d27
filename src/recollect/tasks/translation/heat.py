"""How translation is raced: one heat for all models, and the ladder from one vector to attention."""

from dataclasses import replace

from ...core.heat import Heat, Metric, Rung
from ...models.seq2seq import MODELS
from ..metrics import BLEU, NATS

TRANSLATION = Heat(
    name="translation",
    task="translation",
    title="Translation: read it once, then write it",
    question="Read a line in one language, then write it in another: with nothing at hand, numbers in words, "
    "English to French. Whoever must carry the line in one vector forgets parts of long ones; whoever may look "
    "back at it does not have to.",
    metric=Metric(
        name="exact",
        place=("translated", "exact"),
        label="share without a mistake",
        better="higher",
        unit="share",
        rule="every word as in the reference, the likeliest word each time, all pairs",
    ),
    elsewhere=BLEU,
    validation=NATS,
    models=MODELS,
    params=60_000,
    steps=400,
    settings={"batch": "1024", "count": "10000", "highest": "999999999", "beam": "1"},
    data={"tokenizer": "words"},
    default_rank=2,
)
HEATS = (TRANSLATION,)
LADDERS = (
    replace(
        TRANSLATION,
        name="ladder-translation",
        title="The ladder of translation: from one vector to attention",
        ladder="translation",
        rungs=(
            Rung(name="fixed", model="fixed", change="One vector, the encoder's last state, starts the decoder."),
            Rung(name="context", model="context", change="The same vector enters every step, not only the first."),
            Rung(name="attend", model="attend", change="Every step looks the source up anew, by soft alignment."),
            Rung(name="transformer", model="transformer", change="Attention in place of recurrence on both sides."),
        ),
    ),
)
