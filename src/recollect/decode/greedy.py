"""Sentences written by their likeliest tokens, in fixed places: what a search with one prefix and no norm finds.

On a GPU the step is captured as a CUDA graph, which is kept for sentences to come: sources are padded to common lengths
and batches to common sizes, so that few graphs serve many. The host looks every BLOCK steps whether all have ended.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..core import state as states
from ..core.contract import Memory
from .choice import check_tokens, in_kernels, log_probabilities, no_numbers
from .fixed import WARM_UPS, capture, fill, put
from .flat import watched

BLOCK = 8
GRAPHS = 16  # kept for each model
GRAIN = 16  # what lengths are rounded up to
W = TypeVar("W")


class Written(NamedTuple):
    """One text, its Σ log p (the end's too), and whether it ended by itself."""

    tokens: list[int]
    logprob: float
    finished: bool


class Writer:
    """The places of one size of batch, for texts between `begin` and `end` without what is `banned`."""

    def __init__(self, model: Any, memory: Memory, room: int, begin: int, end: int, banned: tuple[int, ...]) -> None:
        rows, device = len(memory.values), memory.values.device
        self.model, self.room = ref(model), room  # a model may go before its writers
        self.begin, self.end, self.largest = begin, end, max(begin, end, *banned)
        self.forbidden = torch.tensor(banned, dtype=torch.int64, device=device)
        made = model.initial_state(rows, memory=memory, capacity=room)
        self.state = states.map(lambda tensor: tensor.clone(memory_format=torch.contiguous_format), made)
        dtype = torch.promote_types(memory.values.dtype, torch.float32)
        self.token, self.limit = (torch.zeros(rows, dtype=torch.int64, device=device) for _ in range(2))
        self.tokens = torch.zeros(rows, room, dtype=torch.int64, device=device)
        self.logprobs = torch.zeros(rows, room, dtype=dtype, device=device)  # of each token
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.replay = capture(self.once, device)

    def once(self) -> None:
        """One more token of each sentence; those that have ended are written on, and the rest is cut off later."""
        logits, after = self.model()(self.token[:, None], self.state)  # pyright: ignore[reportOptionalCall]
        self.choose(logits[:, -1])
        fill(self.state, after)

    def choose(self, logits: Tensor) -> None:
        """The likeliest token of each row (B V), and count on."""
        if in_kernels(logits, self.logprobs, self.forbidden, 1):
            from ..kernels.decode import top_tokens

            check_tokens(self.largest, logits.shape[1])
            places = {"token": self.token, "tokens": self.tokens, "logprobs": self.logprobs, "at": self.at}
            top_tokens.write_likeliest(logits, self.forbidden, **places)
            return
        logp = log_probabilities(logits, self.forbidden, self.largest)
        logprob, token = logp.max(dim=-1, keepdim=True)  # of equals the first
        self.logprobs.index_copy_(1, self.at, logprob)
        self.tokens.index_copy_(1, self.at, token)
        self.token.copy_(token[:, 0])
        self.at.add_(1)

    def counted(self, done: int) -> Tensor:
        """B T: which of the first `done` tokens belong to a text, its end included."""
        ends = self.tokens[:, :done] == self.end
        steps = torch.arange(done, device=ends.device)
        return (ends.cumsum(dim=1) <= ends.long()) & (steps < self.limit[:, None])

    def look(self, done: int) -> tuple[bool, bool]:
        """Whether all sentences have ended after `done` steps, and whether a NaN was met before they had."""
        over = (self.tokens[:, :done] == self.end).any(dim=1) | (self.limit <= done)
        broken = (self.logprobs[:, :done].isnan() & self.counted(done)).any()
        over, broken = torch.stack([over.all(), broken]).tolist()
        return over, broken

    def write(self, state: Any, limits: Sequence[int], rows: int) -> list[Written]:
        """The texts of the first `rows` rows of a state."""
        assert self.replay is not None
        put(state, self.state)
        self.token.fill_(self.begin)
        self.limit.zero_()[:rows].copy_(torch.tensor(limits))
        self.at.zero_()
        done = 0
        while done < max(limits):
            count = min(BLOCK, max(limits) - done)
            for _ in range(count):
                self.replay()
            done += count
            over, broken = self.look(done)
            if broken:
                raise no_numbers(f"by step {done}")
            if over:
                break
        return self.written(done, rows)

    def written(self, done: int, rows: int) -> list[Written]:
        """What stands in the first `rows` rows after `done` steps; nothing where not even the likeliest may be."""
        tokens, counted = self.tokens[:rows, :done], self.counted(done)[:rows]
        logprobs = self.logprobs[:rows, :done].double().where(counted, 0).sum(dim=1)
        finished = ((tokens == self.end) & counted).any(dim=1)
        told = torch.stack([counted.sum(dim=1) - finished.long(), finished, logprobs], dim=1).tolist()
        return [
            Written([], logprob, False)
            if logprob == float("-inf")
            else Written(text[: int(length)], logprob, ended > 0)
            for text, (length, ended, logprob) in zip(tokens.tolist(), told, strict=True)
        ]


def suits(model: Any, memory: Memory) -> bool:
    """Whether there is something to gain, and nobody looks on: on a GPU, with a model as it is after training."""
    return memory.values.is_cuda and not (model.training or torch.is_autocast_enabled("cuda") or watched(model))


@torch.inference_mode()
def write(
    model: Any, memory: Memory, *, begin: int, end: int, banned: Sequence[int], limits: Sequence[int]
) -> list[Written] | None:
    """The text of each row of `memory`, at most limits[row] tokens long; None where the step cannot be captured."""
    rows = len(memory.values)
    memory, room = rounded(memory, limits)
    tokens = begin, end, tuple(sorted(set(banned)))
    writer = kept(model, memory, (room, tokens), lambda: Writer(model, memory, room, *tokens))
    if writer.replay is None:
        return None
    return writer.write(model.initial_state(len(memory.values), memory=memory, capacity=room), limits, rows)


def rounded(memory: Memory, limits: Sequence[int]) -> tuple[Memory, int]:
    """The memory in a common size, and a common number of steps that suffices."""
    rows, places = memory.valid.shape
    memory = padded(memory, size(rows, 1), size(places, GRAIN) if memory.shape is None else places)
    return memory, size(max(*limits, WARM_UPS + 1), GRAIN)


_kept: WeakKeyDictionary[Any, OrderedDict[Any, Any]] = WeakKeyDictionary()


def kept(model: Any, memory: Memory, settings: tuple[Any, ...], make: Callable[[], W]) -> W:
    """What was made for these weights, shapes and settings before, else made now; the latest GRAPHS of a model stay."""
    weights = tuple(tensor.data_ptr() for tensor in [*model.parameters(), *model.buffers()])
    key = memory.values.shape, memory.values.dtype, memory.values.device, settings, weights
    own = _kept.setdefault(model, OrderedDict())
    if key not in own:
        own[key] = make()
        while len(own) > GRAPHS:
            own.popitem(last=False)
    own.move_to_end(key)
    return own[key]


def size(count: int, grain: int) -> int:
    """The least common size that is large enough: a multiple of `grain`, and above eight of those few ones."""
    step = max(grain, 1 << max(0, (count - 1).bit_length() - 3))
    return -(-count // step) * step


def padded(memory: Memory, rows: int, places: int) -> Memory:
    """The memory with so many rows, the last again and again, and places, the new ones not valid."""
    count, used = memory.valid.shape
    again = torch.arange(rows, device=memory.valid.device).clamp(max=count - 1)
    memory = memory if rows == count else states.select(memory, again)
    spare = places - used
    return memory._replace(values=pad(memory.values, (0, 0, 0, spare)), valid=pad(memory.valid, (0, spare)))
