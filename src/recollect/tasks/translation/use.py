"""Translation of single texts with a trained run; files of lines are translated by `decode.translate.lines`."""

from typing import Any

import numpy as np

from ...core.contract import ContractError
from ...core.task import LoadedRun
from ...decode.beam import Hypothesis
from ...decode.translate import hypotheses
from ..decoding import search_settings


def translate(run: LoadedRun[Any, Any], text: str) -> tuple[np.ndarray, Hypothesis]:
    """The tokens of a text, and the best translation by the run's own search."""
    source, target = run.artifacts
    ids = source.encode(text)
    if not len(ids):
        raise ContractError("--text: expected a sentence to translate, found nothing in it")
    return ids, hypotheses(run.model, source, target, [ids], search_settings(run.config.task))[0][0]
