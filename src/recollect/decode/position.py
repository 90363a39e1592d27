"""A position in texts that are being generated, and prompts read into one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.contract import ContractError


@dataclass
class Position:
    """The model's state after the texts so far, and its logits for the next token of each."""

    state: Any
    logits: Tensor  # B V
    written: list[list[int]]  # the text of each row, prompt included
    drawn: int = 0  # tokens sampled so far: a saved position continues with the next random number


def device_of(model: Any) -> torch.device:
    """The device of a model's weights."""
    return next((t.device for t in [*model.parameters(), *model.buffers()]), torch.device("cpu"))


@torch.inference_mode()
def read_prompts(model: Any, prompts: Sequence[Sequence[int]], capacity: int | None = None) -> Position:
    """Read prompts of any lengths ≥ 1 in one batch; `capacity` is the number of tokens to come."""
    if not prompts or not all(prompts):
        raise ContractError("generate: expected prompts of at least one token each, found an empty one")
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    x = torch.zeros(len(prompts), int(lengths.max()), dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        x[row, : len(prompt)] = torch.tensor(prompt)
    device = device_of(model)
    x, lengths = x.to(device), lengths.to(device)
    room = None if capacity is None else capacity + x.shape[1]
    logits, state = model.ragged(x, lengths, model.initial_state(len(x), capacity=room))
    last = logits[torch.arange(len(x), device=device), lengths - 1]
    return Position(state, last, [list(prompt) for prompt in prompts])
