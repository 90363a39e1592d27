"""How naming the first symbol is raced."""

from recollect.core.heat import Heat
from recollect.core.metric import Metric

RIGHT = Metric(name="accuracy", place=("accuracy",), label="share named", better="higher", unit="share")
HEATS = (
    Heat(
        name="first",
        task="first",
        title="First: what came first?",
        question="A row of symbols; after the last, name the first.",
        metric=RIGHT,
        validation=Metric(name="nats", label="nats"),
        models=("rnn", "gru"),
        params=2_000,
        steps=20,
    ),
)
