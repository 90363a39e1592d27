"""Where a translation came from: weights over the source for each token written, by every layer and head, and by
influence, which translators without attention have too."""

from typing import Any

import numpy as np
import torch

from ...core.task import LoadedRun
from ...core.trained import Array
from ...decode import pharaoh
from ...decode.beam import Hypothesis
from ...decode.translate import encode, looks
from .instruments import source_influence
from .use import INFLUENCE, MEAN, Trace


def trace(run: LoadedRun[Any, Any], ids: Array, hypothesis: Hypothesis) -> Trace:
    """Where a translation of the source `ids` came from, by everything that tells it.

    Influence is ‖∂ log p(token)/∂(embedding of a source token)‖, each row divided by its sum.
    """
    source, target = run.artifacts
    memory = encode(run.model, source, [ids])
    maps = {
        name: weights.numpy() for name, weights in looks(run.model, memory, hypothesis.tokens, target.begin).items()
    }
    if maps and MEAN not in maps:
        maps[MEAN] = np.mean(list(maps.values()), axis=0)
    row, written = np.append(ids, source.end), [*hypothesis.tokens, target.end]
    tokens = torch.from_numpy(row.astype(np.int64))[None].to(memory.values.device)
    maps[INFLUENCE] = source_influence(run.model, tokens, written, target.begin).numpy()
    return Trace(
        source=tuple(source.pieces(row)),
        target=tuple(target.pieces(written)),
        source_words=(*pharaoh.words(source, ids.tolist()), -1),
        target_words=(*pharaoh.words(target, hypothesis.tokens), -1),
        maps=maps,
    )
