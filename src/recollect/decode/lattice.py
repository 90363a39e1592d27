"""Beam search in fixed places: what `beam.search` finds, with each step captured once as a CUDA graph.

Every sentence has `beam` prefixes from the first step on, of which all but one cannot be; a sentence that is done is
written on, which changes nothing of its list. What each prefix came from is kept step by step, and followed from the
end when all are done. The host looks every few steps.
"""

from collections.abc import Sequence
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from ..core import state as states
from ..core.contract import Memory
from . import greedy
from .choice import check_tokens, in_kernels, log_probabilities, no_numbers
from .fixed import capture, fill, put
from .prefixes import NEVER, Config, Hypothesis, Texts, best_choices, going_on, with_ended


class Lattice:
    """The places of one size of batch: N sentences, K prefixes of each, room for T steps."""

    def __init__(
        self, model: Any, memory: Memory, room: int, begin: int, end: int, banned: tuple[int, ...], config: Config
    ) -> None:
        count, width, device = len(memory.values), config.beam, memory.values.device
        self.model, self.room, self.config = ref(model), room, config  # a model may go before its lattices
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
        self.replay = capture(self.once, device) if logits.shape[-1] > 2 * width else None

    def first_state(self, memory: Memory) -> Any:
        """Of every prefix; those of a sentence have all of its source."""
        count = len(memory.values)
        state = self.model().initial_state(count, memory=memory, capacity=self.room)  # pyright: ignore[reportOptionalMemberAccess]
        again = torch.arange(count, device=memory.values.device).repeat_interleave(self.config.beam)
        return states.select(state, again)

    def once(self) -> None:
        """One more token of each prefix."""
        logits, after = self.model()(self.token.view(-1, 1), self.state)  # pyright: ignore[reportOptionalCall]
        fill(self.state, states.select(after, self.choose(logits[:, -1]), constant=False))

    def choose(self, logits: Tensor) -> Tensor:
        """Which row each prefix goes on from (N·K), after logits (N·K V); tokens, texts and what is over in place."""
        count, width = self.logprob.shape
        if in_kernels(logits, self.logprob, self.forbidden, 2 * width):
            return self.chosen_in_kernels(logits)
        logp = log_probabilities(logits, self.forbidden, self.largest)
        broken = logp[:, self.end].isnan()
        choice = best_choices(self.logprob, logp, width)
        score = choice.logprob / self.norms.index_select(0, self.at) if self.config.length_penalty else choice.logprob
        score = score.masked_fill((self.at >= self.limit)[:, None], NEVER)  # too long to count
        nodes = (self.at * width + self.slots).expand(count, -1)
        finished = with_ended(self.finished, nodes, choice, score, self.end, self.config)
        on = going_on(choice, self.end, width)

        self.broken.logical_or_((broken.view(count, width).any(dim=1) & ~self.over).any())
        for kept, new in ((self.parents, on.parent), (self.tokens, on.token), (self.logprobs, on.logprob)):
            kept.index_copy_(0, self.at, new[None])
        fill((self.token, self.logprob, self.finished), (on.token, on.logprob, finished))
        self.at.add_(1)
        # nothing that may still come could enter the list
        self.over.logical_or_((finished.score[:, -1] >= on.logprob[:, 0] / self.outlook) | (self.limit <= self.at))
        return (self.rows + on.parent).flatten()

    def chosen_in_kernels(self, logits: Tensor) -> Tensor:
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

    def write(self, state: Any, limits: Sequence[int]) -> list[list[Hypothesis]]:
        """The texts of as many rows as there are limits."""
        assert self.replay is not None
        put(state, self.state)
        self.token.fill_(self.begin)
        self.logprob.fill_(NEVER)[:, 0] = 0
        self.limit.zero_()[: len(limits)].copy_(torch.tensor(limits))
        if self.config.length_penalty:
            self.outlook[: len(limits)].copy_(torch.tensor([self.config.norm(limit) for limit in limits]))
        self.finished.score.fill_(NEVER)
        for place in (self.over, self.broken, self.at):
            place.zero_()
        done, over = 0, False
        while not over:
            for _ in range(min(greedy.BLOCK, max(limits) - done)):
                self.replay()
                done += 1
            over, broken = torch.stack([self.over.all(), self.broken]).tolist()  # the one look at the device
            if broken:
                raise no_numbers(f"by step {done}")
        return self.texts(limits, done)

    def texts(self, limits: Sequence[int], done: int) -> list[list[Hypothesis]]:
        """The lists of all sentences; unfinished texts only where fewer than `nbest` are finished."""
        parents, tokens = (kept[:done].tolist() for kept in (self.parents, self.tokens))
        ended = list(zip(*(part.tolist() for part in self.finished), strict=True))
        steps = torch.tensor([min(limit, done) for limit in limits], device=self.logprobs.device)
        cut = self.logprobs[steps - 1, torch.arange(len(limits), device=steps.device)].tolist()  # N K
        found = []
        for row, step in enumerate(steps.tolist()):
            ways = [(score, logprob, node, True) for node, logprob, score in zip(*ended[row], strict=True)]
            norm, first = self.config.norm(step), step * self.config.beam
            rest = [(logprob / norm, logprob, first + slot, False) for slot, logprob in enumerate(cut[row])]
            best = [*sorted(ways, key=lambda way: -way[0]), *sorted(rest, key=lambda way: -way[0])]
            texts = [
                Hypothesis(self.followed(parents, tokens, row, node), score, logprob, whole)
                for score, logprob, node, whole in [way for way in best if way[0] > NEVER][: self.config.nbest]
            ]
            found.append(texts or [Hypothesis([], NEVER, NEVER, False)])
        return found

    def followed(self, parents: list[Any], tokens: list[Any], row: int, node: int) -> list[int]:
        """The tokens down to a node."""
        step, slot = divmod(node, self.config.beam)
        text = []
        for t in reversed(range(step)):
            text.append(tokens[t][row][slot])
            slot = parents[t][row][slot]
        return text[::-1]


def suits(model: Any, memory: Memory, config: Config) -> bool:
    """Whether there is something to gain, and nothing asked that is not known here."""
    plain = config.temperature is None and config.coverage == 0
    return plain and greedy.suits(model, memory)


@torch.inference_mode()
def write(
    model: Any,
    memory: Memory,
    *,
    begin: int,
    end: int,
    banned: Sequence[int],
    limits: Sequence[int],
    config: Config,
) -> list[list[Hypothesis]] | None:
    """The texts of each row of `memory`; None where the step cannot be captured, or there are too few tokens."""
    memory, room = greedy.rounded(memory, limits)
    tokens = begin, end, tuple(sorted(set(banned)))
    settings = room, tokens, config
    lattice = greedy.kept(model, memory, settings, lambda: Lattice(model, memory, room, *tokens, config))
    if lattice.replay is None:
        return None
    return lattice.write(lattice.first_state(memory), limits)
