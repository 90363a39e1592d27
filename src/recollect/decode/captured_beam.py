"""Beam search with each step captured as a CUDA graph: what `beam.search` finds.

Every sentence has `beam` prefixes from the first step on, all but one of them impossible. A sentence that is done stays
in the batch, which changes nothing of its list. The parents of the prefixes are kept step by step and traced back when
all sentences are done. The host asks every BLOCK steps whether they are.
"""

from collections.abc import Sequence
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from ..core import state as states
from ..core.contract import Memory
from . import captured
from .captured import BLOCK, capture, copy_state, pad_to_common_size, reuse_graph, update_buffers
from .hypotheses import IMPOSSIBLE, Config, Hypothesis, Texts, add_finished, expand_prefixes, select_unfinished
from .sampling import can_use_kernels, check_tokens, log_probabilities, nan_error


class CapturedBeam:
    """Static buffers and the captured step for one size of batch: N sentences, K prefixes of each, room for T steps."""

    def __init__(
        self, model: Any, memory: Memory, room: int, begin: int, end: int, banned: tuple[int, ...], config: Config
    ) -> None:
        count, width, device = len(memory.values), config.beam, memory.values.device
        self.model, self.room, self.config = ref(model), room, config  # a graph does not keep its model alive
        self.begin, self.end, self.largest = begin, end, max(begin, end, *banned)
        self.forbidden = torch.tensor(banned, dtype=torch.int64, device=device)
        self.state = states.map(torch.clone, self.first_state(memory))
        like = memory.values.new_empty(0, dtype=torch.promote_types(memory.values.dtype, torch.float32))
        whole = torch.zeros(0, dtype=torch.int64, device=device)
        self.token, self.logprob = whole.new_zeros(count, width), like.new_zeros(count, width)
        self.finished = Texts(whole.new_zeros(count, config.nbest), *like.new_zeros(2, count, config.nbest).unbind(0))
        self.parents, self.tokens = (whole.new_zeros(room, count, width) for _ in range(2))
        self.logprobs = like.new_zeros(room, count, width)  # of the prefixes after each step
        self.limit, self.outlook = whole.new_zeros(count), like.new_ones(count)
        self.over, self.broken = (torch.zeros(size, dtype=torch.bool, device=device) for size in (count, ()))
        self.at = whole.new_zeros(1)  # how many steps were made
        self.norms = like.new_tensor([config.norm(step + 1) for step in range(room)])
        self.slots = torch.arange(width, device=device)
        self.rows = torch.arange(count, device=device)[:, None] * width
        logits, _ = model(self.token.view(-1, 1), self.state)
        self.replay = capture(self.run_once, device) if logits.shape[-1] > 2 * width else None

    def first_state(self, memory: Memory) -> Any:
        """The initial state of every prefix, with the source of its sentence."""
        count = len(memory.values)
        state = self.model().initial_state(count, memory=memory, capacity=self.room)  # pyright: ignore[reportOptionalMemberAccess]
        again = torch.arange(count, device=memory.values.device).repeat_interleave(self.config.beam)
        return states.select(state, again)

    def run_once(self) -> None:
        """Extend each prefix by one token."""
        logits, after = self.model()(self.token.view(-1, 1), self.state)  # pyright: ignore[reportOptionalCall]
        update_buffers(self.state, states.select(after, self.choose(logits[:, -1]), constant=False))

    def choose(self, logits: Tensor) -> Tensor:
        """The row that each new prefix continues (N·K), from logits (N·K V); all else is updated in the buffers."""
        count, width = self.logprob.shape
        if can_use_kernels(logits, self.logprob, self.forbidden, 2 * width):
            return self.choose_in_kernels(logits)
        logp = log_probabilities(logits, self.forbidden, self.largest)
        broken = logp[:, self.end].isnan()
        candidates = expand_prefixes(self.logprob, logp, width)
        score = candidates.logprob
        if self.config.length_penalty:
            score = score / self.norms.index_select(0, self.at)
        score = score.masked_fill((self.at >= self.limit)[:, None], IMPOSSIBLE)  # too long to count
        nodes = (self.at * width + self.slots).expand(count, -1)
        finished = add_finished(self.finished, nodes, candidates, score, self.end, self.config)
        on = select_unfinished(candidates, self.end, width)

        self.broken.logical_or_((broken.view(count, width).any(dim=1) & ~self.over).any())
        for kept, new in ((self.parents, on.parent), (self.tokens, on.token), (self.logprobs, on.logprob)):
            kept.index_copy_(0, self.at, new[None])
        update_buffers((self.token, self.logprob, self.finished), (on.token, on.logprob, finished))
        self.at.add_(1)
        # no later text could enter the list
        self.over.logical_or_((finished.score[:, -1] >= on.logprob[:, 0] / self.outlook) | (self.limit <= self.at))
        return (self.rows + on.parent).flatten()

    def choose_in_kernels(self, logits: Tensor) -> Tensor:
        """As `choose`, by kernels."""
        from ..kernels.decode import top_tokens

        check_tokens(self.largest, logits.shape[1])
        return top_tokens.search_on(
            logits,
            self.forbidden,
            self.end,
            prefixes=(self.token, self.logprob),
            kept=(self.parents, self.tokens, self.logprobs),
            finished=self.finished,
            norms=self.norms,
            limit=self.limit,
            outlook=self.outlook,
            over=self.over,
            broken=self.broken,
            at=self.at,
        )

    def decode(self, state: Any, limits: Sequence[int]) -> list[list[Hypothesis]]:
        """Search the first rows of a state, one for each limit."""
        assert self.replay is not None
        copy_state(state, self.state)
        self.token.fill_(self.begin)
        self.logprob.fill_(IMPOSSIBLE)[:, 0] = 0
        self.limit.zero_()[: len(limits)].copy_(torch.tensor(limits))
        if self.config.length_penalty:
            self.outlook[: len(limits)].copy_(torch.tensor([self.config.norm(limit) for limit in limits]))
        self.finished.score.fill_(IMPOSSIBLE)
        for place in (self.over, self.broken, self.at):
            place.zero_()
        done, over = 0, False
        while not over:
            for _ in range(min(BLOCK, max(limits) - done)):
                self.replay()
                done += 1
            over, broken = torch.stack([self.over.all(), self.broken]).tolist()  # the only wait for the device
            if broken:
                raise nan_error(f"by step {done}")
        return self.read_texts(limits, done)

    def read_texts(self, limits: Sequence[int], done: int) -> list[list[Hypothesis]]:
        """The hypotheses of all sentences; unfinished texts only where fewer than `nbest` are finished."""
        parents, tokens = (kept[:done].tolist() for kept in (self.parents, self.tokens))
        ended = list(zip(*(part.tolist() for part in self.finished), strict=True))
        steps = torch.tensor([min(limit, done) for limit in limits], device=self.logprobs.device)
        cut = self.logprobs[steps - 1, torch.arange(len(limits), device=steps.device)].tolist()  # N K
        found = []
        for row, step in enumerate(steps.tolist()):
            texts = [(score, logprob, node, True) for node, logprob, score in zip(*ended[row], strict=True)]
            norm, first = self.config.norm(step), step * self.config.beam
            rest = [(logprob / norm, logprob, first + slot, False) for slot, logprob in enumerate(cut[row])]
            best = [*sorted(texts, key=lambda text: -text[0]), *sorted(rest, key=lambda text: -text[0])]
            hypotheses = [
                Hypothesis(self.trace_tokens(parents, tokens, row, node), score, logprob, whole)
                for score, logprob, node, whole in [text for text in best if text[0] > IMPOSSIBLE][: self.config.nbest]
            ]
            found.append(hypotheses or [Hypothesis([], IMPOSSIBLE, IMPOSSIBLE, False)])
        return found

    def trace_tokens(self, parents: list[Any], tokens: list[Any], row: int, node: int) -> list[int]:
        """The tokens from the start to a node."""
        step, slot = divmod(node, self.config.beam)
        text = []
        for t in reversed(range(step)):
            text.append(tokens[t][row][slot])
            slot = parents[t][row][slot]
        return text[::-1]


def can_search(model: Any, memory: Memory, config: Config) -> bool:
    """Whether a search may run captured: neither sampling nor coverage, and `captured.can_capture`."""
    plain = config.temperature is None and config.coverage == 0
    return plain and captured.can_capture(model, memory)


@torch.inference_mode()
def search(
    model: Any,
    memory: Memory,
    *,
    begin: int,
    end: int,
    banned: Sequence[int],
    limits: Sequence[int],
    config: Config,
) -> list[list[Hypothesis]] | None:
    """The texts of each row of `memory`; None where the step cannot be captured or the vocabulary is too small."""
    memory, room = pad_to_common_size(memory, limits)
    tokens = begin, end, tuple(sorted(set(banned)))
    settings = room, tokens, config
    graph = reuse_graph(model, memory, settings, lambda: CapturedBeam(model, memory, room, *tokens, config))
    if graph.replay is None:
        return None
    return graph.decode(graph.first_state(memory), limits)
