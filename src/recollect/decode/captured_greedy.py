"""Greedy decoding from a memory with each step captured as a CUDA graph: what `beam.search` finds with beam 1.

The graph is kept for later batches of the same padded size. The host asks every BLOCK steps whether all texts are done.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch import Tensor

from ..core import state as states
from ..core.contract import Memory
from .captured import BLOCK, capture, copy_state, pad_to_common_size, reuse_graph, update_buffers
from .sampling import can_use_kernels, check_tokens, log_probabilities, nan_error


class GreedyText(NamedTuple):
    """One text, its Σ log p (the end's too), and whether it ended by itself."""

    tokens: list[int]
    logprob: float
    finished: bool


class CapturedGreedy:
    """Static buffers and the captured step for one size of batch, one `begin`, `end` and set of `banned` tokens."""

    def __init__(self, model: Any, memory: Memory, room: int, begin: int, end: int, banned: tuple[int, ...]) -> None:
        rows, device = len(memory.values), memory.values.device
        self.model, self.room = ref(model), room  # a graph does not keep its model alive
        self.begin, self.end, self.largest = begin, end, max(begin, end, *banned)
        self.forbidden = torch.tensor(banned, dtype=torch.int64, device=device)
        made = model.initial_state(rows, memory=memory, capacity=room)
        self.state = states.map(lambda tensor: tensor.clone(memory_format=torch.contiguous_format), made)
        dtype = torch.promote_types(memory.values.dtype, torch.float32)
        self.token, self.limit = (torch.zeros(rows, dtype=torch.int64, device=device) for _ in range(2))
        self.tokens = torch.zeros(rows, room, dtype=torch.int64, device=device)
        self.logprobs = torch.zeros(rows, room, dtype=dtype, device=device)  # of each token
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.replay = capture(self.run_once, device)

    def run_once(self) -> None:
        """Decode one more token of each sentence, of finished ones too: what follows their end is cut off later."""
        logits, after = self.model()(self.token[:, None], self.state)  # pyright: ignore[reportOptionalCall]
        self.choose(logits[:, -1])
        update_buffers(self.state, after)

    def choose(self, logits: Tensor) -> None:
        """Append the likeliest token of each row (B V)."""
        if can_use_kernels(logits, self.logprobs, self.forbidden, 1):
            from ..kernels.decode import top_tokens as likeliest

            check_tokens(self.largest, logits.shape[1])
            buffers = {"token": self.token, "tokens": self.tokens, "logprobs": self.logprobs, "at": self.at}
            likeliest.write_likeliest(logits, self.forbidden, **buffers)
            return
        logp = log_probabilities(logits, self.forbidden, self.largest)
        logprob, token = logp.max(dim=-1, keepdim=True)  # of equals the first
        self.logprobs.index_copy_(1, self.at, logprob)
        self.tokens.index_copy_(1, self.at, token)
        self.token.copy_(token[:, 0])
        self.at.add_(1)

    def mask_texts(self, done: int) -> Tensor:
        """B T: which of the first `done` tokens belong to a text, its end included."""
        ends = self.tokens[:, :done] == self.end
        steps = torch.arange(done, device=ends.device)
        return (ends.cumsum(dim=1) <= ends.long()) & (steps < self.limit[:, None])

    def check_progress(self, done: int) -> tuple[bool, bool]:
        """Whether all sentences have ended after `done` steps, and whether one of them had a NaN before its end."""
        over = (self.tokens[:, :done] == self.end).any(dim=1) | (self.limit <= done)
        broken = (self.logprobs[:, :done].isnan() & self.mask_texts(done)).any()
        over, broken = torch.stack([over.all(), broken]).tolist()
        return over, broken

    def decode(self, state: Any, limits: Sequence[int], rows: int) -> list[GreedyText]:
        """Decode the first `rows` rows of a state."""
        assert self.replay is not None
        copy_state(state, self.state)
        self.token.fill_(self.begin)
        self.limit.zero_()[:rows].copy_(torch.tensor(limits))
        self.at.zero_()
        done = 0
        while done < max(limits):
            count = min(BLOCK, max(limits) - done)
            for _ in range(count):
                self.replay()
            done += count
            over, broken = self.check_progress(done)
            if broken:
                raise nan_error(f"by step {done}")
            if over:
                break
        return self.read_texts(done, rows)

    def read_texts(self, done: int, rows: int) -> list[GreedyText]:
        """The texts of the first `rows` rows after `done` steps; empty where every token was forbidden."""
        tokens, counted = self.tokens[:rows, :done], self.mask_texts(done)[:rows]
        logprobs = self.logprobs[:rows, :done].double().where(counted, 0).sum(dim=1)
        finished = ((tokens == self.end) & counted).any(dim=1)
        ends = torch.stack([counted.sum(dim=1) - finished.long(), finished, logprobs], dim=1).tolist()
        return [
            GreedyText([], logprob, False)
            if logprob == float("-inf")
            else GreedyText(text[: int(length)], logprob, ended > 0)
            for text, (length, ended, logprob) in zip(tokens.tolist(), ends, strict=True)
        ]


@torch.inference_mode()
def search(
    model: Any, memory: Memory, *, begin: int, end: int, banned: Sequence[int], limits: Sequence[int]
) -> list[GreedyText] | None:
    """The greedy text of each row of `memory`, at most limits[row] tokens; None where the step cannot be captured."""
    rows = len(memory.values)
    memory, room = pad_to_common_size(memory, limits)
    tokens = begin, end, tuple(sorted(set(banned)))
    writer = reuse_graph(model, memory, (room, tokens), lambda: CapturedGreedy(model, memory, room, *tokens))
    if writer.replay is None:
        return None
    return writer.decode(model.initial_state(len(memory.values), memory=memory, capacity=room), limits, rows)
