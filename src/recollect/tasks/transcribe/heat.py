"""How transcribing is raced."""

from ...core.heat import Heat, Metric
from .model import MODELS

ERROR = Metric(name="error", label="character error rate", unit="share")

HEATS = (
    Heat(
        name="transcribe",
        task="transcribe",
        title="Transcribe: write down what is heard",
        question="Letters spelled as tones, one after the other. Whoever says at each step what is heard there needs "
        "no memory of the text; whoever writes it letter by letter must know where in the sound it is.",
        metric=ERROR,
        validation=ERROR,
        models=MODELS,
        params=60_000,
        steps=300,
        settings={"batch": "16", "beam": "1", "count": "100", "eval_rows": "100"},
    ),
)
