"""Decoding from a memory: beam search, greedy search and sampling, by the contract's one call.

The model is anything with `initial_state(batch, memory, capacity=)`, a call `(tokens B T, state) → (logits B T V,
state)` and, where coverage or alignments are asked for, `explain(state, tokens B)["source"]`.

N sentences are decoded at once, K prefixes of each (one at first, then up to `beam`), which are N·K rows for the model,
sentence by sentence. A prefix only ever extends one of its own sentence, so the parts of the state that hold the source
stay in place; a sentence that has ended leaves the batch.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core import state as states
from ..core.contract import ContractError, Memory
from . import captured, captured_beam, captured_greedy, sampling
from .hypotheses import (
    IMPOSSIBLE,
    Candidates,
    Config,
    Hypothesis,
    Prefixes,
    Texts,
    add_finished,
    expand_prefixes,
    select_unfinished,
)
from .sampling import log_probabilities, nan_error

__all__ = ["Config", "Hypothesis", "search"]

FIRST_ROOM = 16  # first capacity of a growing state; doubled when full


class Sentences(NamedTuple):
    """The sentences that are still being decoded."""

    valid: Tensor  # N S, of the source
    best_norm: Tensor | None  # N, the norm at the length limit, the largest; None without a length penalty
    living: Prefixes  # N K, likeliest first
    finished: Texts  # N nbest, best first
    covered: Tensor | None  # N K S, the summed attention to each source place; None without coverage


class Tree:
    """All prefixes kept so far as a tree: a node is a last token and the node of the prefix before it."""

    def __init__(self, roots: int) -> None:
        self.roots = self.size = roots
        self.parents: list[Tensor] = []
        self.tokens: list[Tensor] = []
        self.readers: list[Tensor] = []
        self.weights: list[Tensor] = []

    def add(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """New nodes (N K), each below its parent."""
        nodes = torch.arange(self.size, self.size + tokens.numel(), device=tokens.device).view_as(tokens)
        self.size += tokens.numel()
        self.parents.append(parents.flatten())
        self.tokens.append(tokens.flatten())
        return nodes

    def add_weights(self, nodes: Tensor, weights: Tensor) -> None:
        """Keep the attention to the source (rows S) at the last token of `nodes` (rows)."""
        self.readers.append(nodes)
        self.weights.append(weights)

    def trace(self) -> "Paths":
        """The tree as lists on the host."""
        above = [-1] * self.roots
        readers = torch.cat(self.readers).tolist() if self.readers else []
        return Paths(
            above + torch.cat(self.parents).tolist(),
            above + torch.cat(self.tokens).tolist(),
            {node: row for row, node in enumerate(readers)},
            torch.cat(self.weights).cpu() if self.weights else None,
        )


class Paths(NamedTuple):
    """A tree on the host, read from its leaves to its root."""

    parents: list[int]
    tokens: list[int]
    reader: dict[int, int]  # node → row of weights
    weights: Tensor | None

    def read(self, node: int, finished: bool, valid: Tensor) -> tuple[list[int], list[list[float]] | None]:
        """The tokens from the root to `node`, and the attention to the source for each (and for the end)."""
        tokens, readers = [], [node] if finished else []
        while (parent := self.parents[node]) >= 0:
            tokens.append(self.tokens[node])
            readers.append(parent)
            node = parent
        if self.weights is None:
            return tokens[::-1], None
        rows = torch.tensor([self.reader[reader] for reader in reversed(readers)], dtype=torch.int64)
        return tokens[::-1], self.weights[rows][:, valid].tolist()


@torch.inference_mode()
def search(
    model: Any,
    memory: Memory,
    *,
    begin: int,
    end: int,
    config: Config | None = None,
    banned: Sequence[int] = (),
    alignments: bool = False,
    ids: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """The `nbest` texts of each row of `memory`, finished ones first, then by score; distinct.

    `banned` tokens are never chosen, such as padding and `begin`. A sampled row is seeded by (seed, its id); `ids` are
    the rows' numbers unless given. A list is shorter than `nbest` where the model allows no more texts.

    A text ends where its end is among the `beam` likeliest candidates. A sentence is done when `nbest` texts are
    finished and no prefix can still beat the worst of them: a prefix only loses log p as it grows, log p is at most 0,
    the norm is greatest at the limit and coverage adds nothing above 0, so log p / norm(limit) is never exceeded. No
    text found later could enter the list.
    """
    config = config or Config()
    count = len(memory.values)
    ids = range(count) if ids is None else ids
    check_arguments(begin, end, banned, ids, count)
    if count == 0:
        return []
    device = memory.values.device
    limits = [config.limit(length) for length in memory.valid.sum(dim=1).tolist()]
    if config.greedy and not alignments and captured.can_capture(model, memory):
        written = captured_greedy.search(model, memory, begin=begin, end=end, banned=banned, limits=limits)
        if written is not None:
            return [[Hypothesis(text.tokens, text.logprob, text.logprob, text.finished)] for text in written]
    elif not alignments and captured_beam.can_search(model, memory, config):
        found = captured_beam.search(model, memory, begin=begin, end=end, banned=banned, limits=limits, config=config)
        if found is not None:
            return found
    forbidden = torch.tensor(sorted(set(banned)), dtype=torch.int64, device=device)
    drawn = config.temperature is not None
    draws = [seed_generator(config.seed, row) for row in ids] if drawn else []

    tree, ended = Tree(count), []
    going, sentences = list(range(count)), start_sentences(memory, limits, config)
    room = min(FIRST_ROOM, max(limits))
    state = model.initial_state(count, memory=memory, capacity=room)
    x = torch.full((count,), begin, dtype=torch.int64, device=device)
    firsts = index_first_rows(count, 1, device)
    for step in itertools.count(1):
        if step > room:
            room = min(2 * room, max(limits))
            state = grow_state(state, model.initial_state(1, memory=select_first_row(memory), capacity=room))
        if alignments or config.coverage > 0:
            weights = read_attention(model, state, x, sentences.valid)
            if alignments:
                tree.add_weights(sentences.living.node.flatten(), weights)
            if sentences.covered is not None:
                new = weights.view_as(sentences.covered)
                sentences = sentences._replace(covered=sentences.covered + new)
        logits, state = model(x[:, None], state)
        logp = log_probabilities(logits[:, -1], forbidden, largest=max(begin, end, *banned))
        broken = logp[:, end].isnan()

        before = sentences.living.logprob  # N K
        if drawn:
            candidates = sample_candidates(before, logp, config.sampling(), [draws[row] for row in going])
        else:
            candidates = expand_prefixes(before, logp, config.beam)
        # each prefix has one end, so this many candidates are unfinished
        width, after = before.shape[1], min(config.beam, max(1, before.shape[1] * (logp.shape[1] - 1)))
        sentences, parent, x = advance(sentences, candidates, tree, config, step, end, after)
        rows = firsts + parent  # N K

        flags = torch.cat([find_settled(sentences), broken]).tolist()  # the only wait for the device in a step
        over = [settled or limits[row] <= step for settled, row in zip(flags, going, strict=False)]
        if any(flags[len(going) :]):
            raise nan_error(f"at step {step}")
        if any(over):
            leave, stay = (torch.tensor([i for i, out in enumerate(over) if out is left]) for left in (True, False))
            gone = states.select(sentences, leave.to(device))
            ended.append(([going[i] for i in leave.tolist()], gone.finished, truncate(gone, config, step)))
            going = [going[i] for i in stay.tolist()]
            if not going:
                break
            sentences, rows, x = states.select((sentences, rows, x), stay.to(device))
        if any(over) or after != width:
            state = states.select(state, rows.flatten())
            firsts = index_first_rows(len(going), after, device)
        elif width > 1:  # rows are reordered within their sentences: the parts that hold the source stay
            state = states.select(state, rows.flatten(), constant=False)
        x = x.flatten()
    return collect_texts(tree.trace(), ended, memory.valid.cpu(), config.nbest)


def start_sentences(memory: Memory, limits: list[int], config: Config) -> Sentences:
    """One empty prefix for each sentence, and no finished text."""
    count, places = memory.valid.shape
    like = memory.values.new_empty(0, dtype=torch.promote_types(memory.values.dtype, torch.float32))
    node = torch.arange(count, device=like.device)[:, None]
    return Sentences(
        valid=memory.valid,
        best_norm=like.new_tensor([config.norm(limit) for limit in limits]) if config.length_penalty else None,
        living=Prefixes(node, like.new_zeros(count, 1)),
        finished=Texts(node.expand(-1, config.nbest), *like.new_full((2, count, config.nbest), IMPOSSIBLE)),
        covered=like.new_zeros(count, 1, places) if config.coverage > 0 else None,
    )


def advance(
    sentences: Sentences, candidates: Candidates, tree: Tree, config: Config, step: int, end: int, after: int
) -> tuple[Sentences, Tensor, Tensor]:
    """The sentences one token later, `after` prefixes of each, with the parent of each prefix (N K) and its token."""
    living, covered = sentences.living, sentences.covered
    score = normalize_score(candidates.logprob, config, step)
    if covered is not None:
        score = score + config.coverage * score_coverage(covered, sentences.valid).gather(1, candidates.parent)
    finished = add_finished(sentences.finished, living.node, candidates, score, end, config)
    on = select_unfinished(candidates, end, after)
    living = Prefixes(tree.add(living.node.gather(1, on.parent), on.token), on.logprob)
    covered = None if covered is None else covered.take_along_dim(on.parent[..., None], dim=1)
    return sentences._replace(living=living, finished=finished, covered=covered), on.parent, on.token


def normalize_score(logprob: Tensor, config: Config, step: int) -> Tensor:
    """The score of texts of `step` tokens, before coverage."""
    return logprob / config.norm(step) if config.length_penalty else logprob


def find_settled(sentences: Sentences) -> Tensor:
    """N: whether no later text could enter the list."""
    bound = sentences.living.logprob[:, 0]
    bound = bound if sentences.best_norm is None else bound / sentences.best_norm
    return sentences.finished.score[:, -1] >= bound


def truncate(sentences: Sentences, config: Config, step: int) -> Texts:
    """The prefixes of sentences at their limit, as unfinished texts."""
    node, logprob = sentences.living
    score = normalize_score(logprob, config, step)
    if sentences.covered is not None:
        score = score + config.coverage * score_coverage(sentences.covered, sentences.valid)
    return Texts(node, logprob, score)


def index_first_rows(count: int, width: int, device: torch.device) -> Tensor:
    """N 1: the first row of each sentence."""
    return width * torch.arange(count, device=device)[:, None]


def check_arguments(begin: int, end: int, banned: Sequence[int], ids: Sequence[int], count: int) -> None:
    """Refuse tokens and ids that are out of range."""
    if end in banned:
        raise ContractError(f"beam: expected an end that may be written, found {end} among the banned tokens")
    if negative := [token for token in (begin, end, *banned) if token < 0]:
        raise ContractError(f"beam: expected begin, end and banned as token ids of at least 0, found {negative[0]}")
    if len(ids) != count:
        raise ContractError(f"beam: expected an id for each of {count} rows of memory, found {len(ids)} ids")


def seed_generator(seed: int, row: int) -> torch.Generator:
    """The random generator of one row: another for each row, the same wherever the row is in a batch."""
    mixed = int(np.random.SeedSequence((seed, row)).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(mixed >> 1)


def select_first_row(memory: Memory) -> Memory:
    """The memory of the first source, from which the size of a state can be found."""
    return states.select(memory, torch.zeros(1, dtype=torch.int64, device=memory.values.device))


def grow_state(state: Any, like: Any) -> Any:
    """The state with the capacity of `like`, a larger state of one row."""

    def fit(own: Tensor, other: Tensor) -> Tensor:
        return states.fit(own, other.shape[1]) if own.dim() > 1 and own.shape[1] < other.shape[1] else own

    return states.map(fit, state, like)


def read_attention(model: Any, state: Any, x: Tensor, valid: Tensor) -> Tensor:
    """The attention to the source (rows S) at the step that reads x (rows).

    `explain` runs that step. In a state with capacity it writes a slot, and the next step writes the same there.
    """
    found = model.explain(state, x)
    if "source" not in found:
        raise ContractError(
            "beam: expected 'source' from explain() for coverage or alignments, "
            f"found {', '.join(found) or 'nothing'}; this model has no alignment, ask for neither"
        )
    weights, shape = found["source"], (len(x), valid.shape[1])
    if weights.shape != shape:
        raise ContractError(
            f"beam: expected explain() to give 'source' of shape {shape}, rows and places of the source, "
            f"found {tuple(weights.shape)}; take the mean over heads"
        )
    return weights.masked_fill(~valid.repeat_interleave(len(x) // len(valid), dim=0), 0)


def score_coverage(covered: Tensor, valid: Tensor) -> Tensor:
    """N K: the coverage score, Σ over valid places of log(min(weight, 1)), at most 0."""
    # a place without any weight would score -inf, and all such texts would be equal
    least = torch.finfo(torch.float32).tiny
    return covered.clamp(least, 1).log().masked_fill(~valid[:, None], 0).sum(dim=-1)


def sample_candidates(
    logprob: Tensor, logp: Tensor, config: sampling.Config, draws: list[torch.Generator]
) -> Candidates:
    """One sampled candidate for each sentence."""
    tokens = sampling.choose_tokens(logp, [], config, draws)
    token = torch.tensor(tokens, device=logp.device)[:, None]
    return Candidates(torch.zeros_like(token), token, logprob + logp.gather(1, token))


def collect_texts(
    paths: Paths, ended: list[tuple[list[int], Texts, Texts]], valid: Tensor, nbest: int
) -> list[list[Hypothesis]]:
    """The lists of all sentences; unfinished texts only where fewer than `nbest` are finished."""
    found: list[list[Hypothesis]] = [[] for _ in valid]
    for sentences, finished, living in ended:
        for slots, whole in ((finished, True), (living, False)):
            lists = zip(*(tensor.tolist() for tensor in slots), strict=True)
            for sentence, (nodes, logprobs, scores) in zip(sentences, lists, strict=True):
                order = sorted(range(len(scores)), key=lambda slot: -scores[slot])
                for slot in order[: nbest - len(found[sentence])]:
                    if scores[slot] > IMPOSSIBLE:
                        tokens, alignment = paths.read(nodes[slot], whole, valid[sentence])
                        found[sentence].append(Hypothesis(tokens, scores[slot], logprobs[slot], whole, alignment))
    # where every text is impossible, one empty text is returned for each source
    empty = Hypothesis([], IMPOSSIBLE, IMPOSSIBLE, False, None if paths.weights is None else [])
    return [hypotheses or [empty] for hypotheses in found]
