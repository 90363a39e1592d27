"""The law on streaming transcripts: chunks of a sound give the text that the whole gives."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...core.laws import LawBroken
from ...decode import ctc


@torch.no_grad()
def text_of_chunks(model: Any, x: Tensor, banned: Sequence[int] = ()) -> float:
    """The share of texts that differ, which is 0; x: B T D is cut in several ways."""
    steps = x.shape[1]
    whole, _ = model(x)
    wanted = [ctc.best_path(row.double().cpu().numpy(), banned=banned).tokens for row in whole.log_softmax(dim=-1)]
    for size in (1, 3, steps - 1):
        state, heard = model.initial_state(len(x), like=x), [None] * len(x)
        found: list[list[int]] = [[] for _ in wanted]
        for start in range(0, steps, size):
            y, state = model(x[:, start : start + size], state)
            for row, logp in enumerate(y.log_softmax(dim=-1)):
                more, heard[row] = ctc.read_chunk(logp.double().cpu().numpy(), heard[row], banned=banned)  # type: ignore[call-overload]
                found[row] += more
        if found != wanted:
            raise LawBroken(f"Text: chunks of {size} steps give {found}, the whole gives {wanted}")
    return 0.0
