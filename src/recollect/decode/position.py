"""A position in texts that are being generated, and prompts read into one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..core import state as states
from ..core.contract import ContractError
from ..runtime.position import Position
from ..runtime.reading import Reading, check_cost

CHUNK = 1 << 12  # tokens × rows that are read at once
MASK = 1 << 25  # tokens × rows × slots of a cache: attention makes a mask of that size
FAR = 1 << 16  # tokens after which a window is full
PART = 1 << 16  # tokens to come for which a state gets room at once


def device_of(model: Any) -> torch.device:
    """The device of a model's weights."""
    return next((t.device for t in [*model.parameters(), *model.buffers()]), torch.device("cpu"))


@torch.inference_mode()
def read_prompts(model: Any, prompts: Sequence[Sequence[int]], capacity: int | None = None) -> Position:
    """Read prompts of any lengths ≥ 1 in one batch; `capacity` is the number of tokens to come.

    Long prompts are read in chunks, so that what is computed of a chunk alone has to fit. A state gets room for at most
    PART tokens to come; the engine makes more when they are used up.
    """
    if not prompts or not all(prompts):
        raise ContractError("generate: expected prompts of at least one token each, found an empty one")
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    x = torch.zeros(len(prompts), int(lengths.max()), dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        x[row, : len(prompt)] = torch.tensor(prompt)
    device = device_of(model)
    x, lengths = x.to(device), lengths.to(device)
    room = None if capacity is None else min(capacity, PART) + x.shape[1]
    check_cost(x.numel(), slot_bytes(model) if x.numel() > CHUNK else 0)
    state, last = model.initial_state(len(x), capacity=room), None
    read, reading = 0, Reading(x.shape[1])
    for part in x.split(chunk_steps(x, state), dim=1):
        inside = (lengths - read).clamp(0, part.shape[1])
        logits, state = model.ragged(part, inside, state)
        here = logits[torch.arange(len(x), device=device), (inside - 1).clamp(min=0)]
        last = here if last is None else torch.where((inside > 0)[:, None], here, last)
        read += part.shape[1]
        reading.tell(read)
    assert last is not None
    return Position(state, last, [list(prompt) for prompt in prompts])


def slot_bytes(model: Any) -> int:
    """Bytes of state that each token adds without end, by what the model declares."""
    cost = getattr(model, "cost", None)
    return 0 if cost is None else int(cost(1, FAR + 1).state_bytes - cost(1, FAR).state_bytes)


def chunk_steps(x: Tensor, state: Any) -> int:
    """Steps of prompts (B T) that are read at once: all of them where they are few."""
    rows, steps = x.shape
    if rows * steps <= CHUNK:
        return steps
    slots = max((tensor.shape[1] for tensor in states.leaves(state) if tensor.dim() > 1), default=1)
    return max(1, min(CHUNK, MASK // slots) // rows)
