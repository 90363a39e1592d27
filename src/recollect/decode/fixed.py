"""Steps in fixed places: what a CUDA graph reads and writes, replayed as often as there are tokens to write."""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import kernels
from ..core import state as states
from .choice import Config, pick, seen_in
from .position import Position

LARGE = 1 << 14  # numbers: a copy of its own is sooner made than one of several
WARM_UPS = 3  # runs before a capture: libraries choose their kernels and set up what cannot be captured


class Fixed:
    """All that a step reads and writes, in fixed places; one position at a time stands there."""

    def __init__(self, step: Any, state: Any, logits: Tensor, room: int) -> None:
        rows, device = len(logits), logits.device
        self.step, self.state, self.room = step, state, room
        self.logits = torch.zeros_like(logits)
        self.tokens = torch.zeros(rows, max(room, WARM_UPS + 1), dtype=torch.int64, device=device)
        self.draws = torch.zeros(self.tokens.shape, device=device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.seen = torch.zeros(logits.shape, dtype=torch.bool, device=device)
        self.holder: Position | None = None
        self.replays: dict[Config, Callable[[], None] | None] = {}

    def once(self, config: Config) -> None:
        """Choose a token of each row, read it, and count on."""
        draws = None if config.greedy else self.draws.index_select(1, self.at)[:, 0]
        token = pick(self.logits, config, self.seen if config.penalty != 1 else None, draws)
        if config.penalty != 1:
            self.seen.scatter_(1, token[:, None], True)
        self.tokens.index_copy_(1, self.at, token[:, None])
        self.step.start(self.state, self.room)
        self.logits.copy_(self.step(token))
        fill(self.state, self.step.finish())
        self.at.add_(1)

    def captured(self, config: Config) -> Callable[[], None] | None:
        """What replays `once`; None where it cannot be captured. What stood in its places is gone."""
        key = replace(config, length=0, seed=0)
        if key not in self.replays:
            self.release()
            self.at.zero_()
            self.replays[key] = capture(lambda: self.once(key), self.logits.device)
        return self.replays[key]

    def take(self, position: Position, draws: Tensor | None, done: int) -> None:
        """Put a position, `done` steps into its draws, in place, unless it is there."""
        if self.holder is position and position.state is self.state:
            return
        self.release()
        put(position.state, self.state)
        self.logits.copy_(position.logits)
        self.seen.copy_(seen_in(position.written, position.logits))
        if draws is not None:
            self.draws[:, : draws.shape[1]].copy_(draws)
        self.at.fill_(done)
        self.holder, position.state, position.logits = position, self.state, self.logits

    def release(self) -> None:
        """What the position that stands here needs is copied, and its place is free."""
        if self.holder is not None and self.holder.state is self.state:
            self.holder.state, self.holder.logits = states.map(torch.clone, self.state), self.logits.clone()
        self.holder = None


class Replaying:
    """Steps replayed in fixed places."""

    looks_ahead = True

    def __init__(self, fixed: Fixed, replay: Callable[[], None], model: Any, draws: Tensor | None) -> None:
        self.fixed, self.replay, self.draws = fixed, replay, draws
        self.dtypes = [tensor.dtype for tensor in states.leaves(model.initial_state(1))]

    def steps(self, position: Position, done: int, count: int) -> list[list[int]]:
        self.fixed.take(position, self.draws, done)
        for _ in range(count):
            self.replay()
        rows = self.fixed.tokens[:, done : done + count].tolist()  # the one look at the device
        return [list(step) for step in zip(*rows, strict=True)]

    def leave(self, position: Position) -> None:
        """The position takes its state along, in the model's own dtypes."""
        if self.fixed.holder is position:
            self.fixed.release()
        dtypes = iter(self.dtypes)
        position.state = states.map(lambda tensor: tensor.to(next(dtypes)), position.state)


def capture(step: Callable[[], None], device: torch.device) -> Callable[[], None] | None:
    """What does again what `step` does: a CUDA graph, or on a CPU the step itself. None where a step needs the host."""
    if device.type != "cuda":
        return step
    with torch.cuda.device(device), products(device):
        before, side = torch.cuda.get_sync_debug_mode(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(side):
                for turn in range(WARM_UPS):
                    if turn > 0:  # what is set up by the first may wait
                        refuse_to_wait()
                    step()
        except RuntimeError as error:
            if "synchroniz" in str(error):
                return None
            raise
        finally:
            torch.cuda.set_sync_debug_mode(before)
            torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph.replay


def products(device: torch.device) -> Any:
    """What is captured multiplies float32 on tensor cores, as exactly, unless the library may do so less exactly."""
    less = torch.backends.cuda.matmul.fp32_precision == "tf32"  # `allow_tf32` may refuse to answer
    if less or not kernels.can_launch(torch.empty(0, device=device)):
        return nullcontext()
    from ..kernels.product import OnTensorCores

    return OnTensorCores()


def refuse_to_wait() -> None:
    """From here on an operation that waits for the device is an error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype feature")
        torch.cuda.set_sync_debug_mode("error")


def put(state: Any, places: Any) -> Any:
    """Copy a state into places with as many slots or more; what was there is gone."""

    def copy_into(own: Tensor, value: Tensor) -> Tensor:
        if own.shape == value.shape:
            return own.copy_(value)
        used = min(own.shape[1], value.shape[1])  # what lies beyond is empty
        own[:, :used].copy_(value[:, :used])
        own[:, used:].zero_()
        return own

    return states.map(copy_into, places, state)


def fill(places: Any, values: Any) -> None:
    """Copy the tensors of a new state into those of the old, but for what was written in place."""
    kinds: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
    for own, value in zip(states.leaves(places), states.leaves(values), strict=True):
        if own.data_ptr() == value.data_ptr():
            continue
        if own.numel() >= LARGE:
            own.copy_(value)
        else:
            mine, new = kinds.setdefault((own.dtype, value.dtype), ([], []))
            mine.append(own)
            new.append(value)
    for mine, new in kinds.values():
        torch._foreach_copy_(mine, new)  # pyright: ignore[reportPrivateImportUsage]
