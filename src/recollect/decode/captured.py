"""Steps captured as CUDA graphs, which read and write static buffers.

`capture` makes the graph of any step; `StaticStep` is that of a language model with the choice of the next token;
`reuse_graph` keeps the graphs of greedy and beam search for batches of the same padded size.
"""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import pad

from .. import kernels
from ..core import state as states
from ..core.contract import Memory
from .flat.model import has_hooks
from .position import Position
from .sampling import Config, mask_written, pick_tokens

LARGE = 1 << 14  # elements: copied alone, smaller tensors in one fused copy
WARM_UPS = 3  # runs before a capture, in which libraries select kernels and allocate workspaces
BLOCK = 8  # steps of a search between two waits for the device
GRAPHS = 16  # kept for each model
GRAIN = 16  # multiple to which lengths are rounded up
G = TypeVar("G")


class StaticStep:
    """A model's step and the choice of a token, on static buffers that hold one position at a time."""

    def __init__(self, step: Any, state: Any, logits: Tensor, room: int) -> None:
        rows, device = len(logits), logits.device
        self.step, self.state, self.room = step, state, room
        self.logits = torch.zeros_like(logits)
        self.tokens = torch.zeros(rows, max(room, WARM_UPS + 1), dtype=torch.int64, device=device)
        self.draws = torch.zeros(self.tokens.shape, device=device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.seen = torch.zeros(logits.shape, dtype=torch.bool, device=device)
        self.owner: Position | None = None
        self.replays: dict[Config, Callable[[], None] | None] = {}

    def run_once(self, config: Config) -> None:
        """Choose the next token of each row and read it."""
        draws = None if config.greedy else self.draws.index_select(1, self.at)[:, 0]
        token = pick_tokens(self.logits, config, self.seen if config.penalty != 1 else None, draws)
        if config.penalty != 1:
            self.seen.scatter_(1, token[:, None], True)
        self.tokens.index_copy_(1, self.at, token[:, None])
        self.step.start(self.state, self.room)
        self.logits.copy_(self.step(token))
        update_buffers(self.state, self.step.finish())
        self.at.add_(1)

    def capture_for(self, config: Config) -> Callable[[], None] | None:
        """The replay of `run_once`; None where it cannot be captured. The buffers' contents are lost."""
        key = replace(config, length=0, seed=0)
        if key not in self.replays:
            self.release()
            self.at.zero_()
            self.replays[key] = capture(lambda: self.run_once(key), self.logits.device)
        return self.replays[key]

    def load(self, position: Position, draws: Tensor | None, done: int) -> None:
        """Copy a position, `done` steps after the first draw, into the buffers, unless they hold it."""
        if self.owner is position and position.state is self.state:
            return
        self.release()
        copy_state(position.state, self.state)
        self.logits.copy_(position.logits)
        self.seen.copy_(mask_written(position.written, position.logits))
        if draws is not None:
            self.draws[:, : draws.shape[1]].copy_(draws)
        self.at.fill_(done)
        self.owner, position.state, position.logits = position, self.state, self.logits

    def release(self) -> None:
        """Give the position in the buffers copies of its state and logits."""
        if self.owner is not None and self.owner.state is self.state:
            self.owner.state, self.owner.logits = states.map(torch.clone, self.state), self.logits.clone()
        self.owner = None


class CapturedRun:
    """Generation by replays of a captured step."""

    runs_ahead = True

    def __init__(self, static: StaticStep, replay: Callable[[], None], model: Any, draws: Tensor | None) -> None:
        self.static, self.replay, self.draws = static, replay, draws
        self.dtypes = [tensor.dtype for tensor in states.leaves(model.initial_state(1))]

    def run_steps(self, position: Position, done: int, count: int) -> list[list[int]]:
        self.static.load(position, self.draws, done)
        for _ in range(count):
            self.replay()
        rows = self.static.tokens[:, done : done + count].tolist()  # the only wait for the device
        return [list(step) for step in zip(*rows, strict=True)]

    def close(self, position: Position) -> None:
        """Move the position out of the buffers, its state in the model's own dtypes."""
        if self.static.owner is position:
            self.static.release()
        dtypes = iter(self.dtypes)
        position.state = states.map(lambda tensor: tensor.to(next(dtypes)), position.state)


def capture(step: Callable[[], None], device: torch.device) -> Callable[[], None] | None:
    """The replay of a CUDA graph of `step`; on a CPU the step itself. None where a step waits for the host."""
    if device.type != "cuda":
        return step
    with torch.cuda.device(device), float32_products(device):
        before, side = torch.cuda.get_sync_debug_mode(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(side):
                for turn in range(WARM_UPS):
                    if turn > 0:  # the first run may allocate and wait
                        forbid_synchronization()
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


def float32_products(device: torch.device) -> Any:
    """Context of exact float32 products on tensor cores; where TF32 is allowed, of the library's own products."""
    tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"  # `allow_tf32` may refuse to answer
    if tf32 or not kernels.can_launch(torch.empty(0, device=device)):
        return nullcontext()
    from ..kernels.product import OnTensorCores

    return OnTensorCores()


def forbid_synchronization() -> None:
    """Make every operation that waits for the device an error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype feature")
        torch.cuda.set_sync_debug_mode("error")


def copy_state(state: Any, buffers: Any) -> Any:
    """Copy a state into static buffers with at least as many slots in use."""

    def copy_into(own: Tensor, value: Tensor) -> Tensor:
        if own.shape == value.shape:
            return own.copy_(value)
        used = min(own.shape[1], value.shape[1])  # what lies beyond is empty
        own[:, :used].copy_(value[:, :used])
        own[:, used:].zero_()
        return own

    return states.map(copy_into, buffers, state)


def update_buffers(buffers: Any, values: Any) -> None:
    """Copy the tensors of a new state into static buffers, but for those that were written in place."""
    kinds: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
    for own, value in zip(states.leaves(buffers), states.leaves(values), strict=True):
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


def can_capture(model: Any, memory: Memory) -> bool:
    """Whether a search over `memory` may run captured: on a GPU, in evaluation mode, without autocast or hooks."""
    return memory.values.is_cuda and not (model.training or torch.is_autocast_enabled("cuda") or has_hooks(model))


_graphs: WeakKeyDictionary[Any, OrderedDict[Any, Any]] = WeakKeyDictionary()


def reuse_graph(model: Any, memory: Memory, settings: tuple[Any, ...], make: Callable[[], G]) -> G:
    """The graph made before for these weights, shapes and settings, else `make()`; a model keeps its latest GRAPHS."""
    weights = tuple(tensor.data_ptr() for tensor in [*model.parameters(), *model.buffers()])
    key = memory.values.shape, memory.values.dtype, memory.values.device, settings, weights
    own = _graphs.setdefault(model, OrderedDict())
    if key not in own:
        own[key] = make()
        while len(own) > GRAPHS:
            own.popitem(last=False)
    own.move_to_end(key)
    return own[key]


def pad_to_common_size(memory: Memory, limits: Sequence[int]) -> tuple[Memory, int]:
    """The memory padded to a common size, so that few graphs serve many batches, and as common a number of steps."""
    rows, places = memory.valid.shape
    memory = pad_memory(memory, round_up(rows, 1), round_up(places, GRAIN) if memory.shape is None else places)
    return memory, round_up(max(*limits, WARM_UPS + 1), GRAIN)


def round_up(count: int, grain: int) -> int:
    """The next common size: a multiple of `grain`, and above eight of those one of eight sizes to each power of two."""
    step = max(grain, 1 << max(0, (count - 1).bit_length() - 3))
    return -(-count // step) * step


def pad_memory(memory: Memory, rows: int, places: int) -> Memory:
    """The memory with its last row repeated up to `rows`, and with source places up to `places` that are not valid."""
    count, used = memory.valid.shape
    again = torch.arange(rows, device=memory.valid.device).clamp(max=count - 1)
    memory = memory if rows == count else states.select(memory, again)
    spare = places - used
    return memory._replace(values=pad(memory.values, (0, 0, 0, spare)), valid=pad(memory.valid, (0, spare)))
