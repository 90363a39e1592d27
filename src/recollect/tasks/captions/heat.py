"""How captions are raced."""

from ...core.heat import Heat, Metric
from ...models.seq2seq import MODELS
from ..metrics import BLEU, NATS
from .films.model import MODELS as MEMORIES

HEATS = (
    Heat(
        name="captions",
        task="captions",
        title="Captions: say what a picture shows",
        question="One picture, one sentence. Whoever may look again while writing names the right thing.",
        metric=Metric(name="exact", place=("described", "exact"), label="share exact", better="higher", unit="share"),
        elsewhere=BLEU,
        validation=NATS,
        models=MODELS,
        params=250_000,  # the CNN alone, which is the same for all, takes 160,000
        steps=300,
        settings={"batch": "32", "beam": "1", "eval_images": "100", "count": "2000"},
    ),
    Heat(
        name="films",
        task="films",
        title="Films: say what happens, in its order",
        question="Frames in, one sentence of events out. Whoever keeps no memory from frame to frame cannot tell a "
        "film from the same film run backwards.",
        metric=Metric(name="exact", place=("described", "exact"), label="share exact", better="higher", unit="share"),
        elsewhere=BLEU,
        validation=NATS,
        models=MEMORIES,
        params=200_000,  # the CNN and its map, which are the same for all but for the width, take half of it
        steps=500,
        settings={"batch": "32", "eval_films": "100", "count": "3000"},
    ),
)
