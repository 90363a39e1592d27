"""A step of a trained model by its own call, with arrays in and out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..core import state as states
from ..core.errors import RecollectError
from ..core.trained import Array, as_input
from ..layers.position import find_limit
from .position import device_of


class PlainState:
    """A state between steps."""

    def __init__(self, value: Any, rows: int) -> None:
        self.value, self.rows = value, rows

    def copy(self) -> "PlainState":
        return PlainState(states.map(torch.clone, self.value), self.rows)

    def select(self, rows: Sequence[int]) -> "PlainState":
        """Some of the rows, in any order, with repeats."""
        chosen = torch.tensor(rows, device=next(iter(states.leaves(self.value)), torch.empty(0)).device)
        return PlainState(states.select(self.value, chosen), len(rows))

    @property
    def nbytes(self) -> int:
        """Bytes that it keeps alive."""
        return states.nbytes(self.value)


class PlainStep:
    """The model's own call on one step at a time."""

    def __init__(self, run: Any) -> None:
        module, x, memory = run.kind.law_example(run.model, run.artifacts)
        if memory is not None:
            raise RecollectError(
                f"{run.path}: expected a model that reads no source, found one of {run.kind.name}; use its own methods"
            )
        self.module, self.device = module, device_of(module)
        self.dtype = np.dtype(np.float32 if x.is_floating_point() else np.int64)
        self.axes = x.dim() - 1
        self.limit = find_limit(module)

    @torch.inference_mode()
    def initial_state(self, rows: int) -> PlainState:
        """The state before anything was seen."""
        return PlainState(self.module.initial_state(rows), rows)

    @torch.inference_mode()
    def join(self, parts: Sequence[PlainState]) -> PlainState:
        """The rows of several states in one."""
        return PlainState(states.join([part.value for part in parts]), sum(part.rows for part in parts))

    @torch.inference_mode()
    def __call__(self, x: Any, state: PlainState | None) -> tuple[Array, PlainState]:
        row = torch.from_numpy(as_input(x, self.dtype, self.axes)).to(self.device)
        if state is not None and not isinstance(state, PlainState):
            raise RecollectError(f"step: expected the state that a step returned, found {type(state).__name__}")
        if state is not None and state.rows != len(row):
            raise RecollectError(f"step: expected {state.rows} rows, as the state has, found {len(row)}")
        before = self.module.initial_state(len(row)) if state is None else state.value
        y, after = self.module(row[:, None], before)
        return y[:, 0].float().cpu().numpy(), PlainState(after, len(row))
