"""Models of sound to characters: CTC over any layer, or the decoders of sequence to sequence over frames."""

from typing import Any

from ...models import ctc, listen, seq2seq
from .transcribed import Artifacts

CTC = "ctc"
MODELS = (CTC, *seq2seq.MODELS)


def config_of(model: str) -> Any:
    """The dataclass that holds the settings of a model."""
    return ctc.Config if model == CTC else listen.Config


def sizes_of(model: str, artifacts: Artifacts) -> dict[str, int]:
    """The settings that the data decide."""
    if model == CTC:
        return {"inputs": artifacts.inputs, "outputs": artifacts.labels}
    return {"source": artifacts.inputs, "target": artifacts.tokenizer.size}


def configure(settings: dict[str, Any], artifacts: Artifacts) -> Any:
    """The settings of a model that reads and writes what `artifacts` describes."""
    own = dict(settings)
    name = str(own.pop("name"))
    return config_of(name)(model=name, **sizes_of(name, artifacts), **own)
