"""From a memory to texts: beam search, greedy and drawing, over the contract's one call.

The model is anything with `initial_state(batch, memory, capacity=)`, a call `(tokens B T, state) → (logits B T V,
state)` and, where coverage or alignments are asked for, `explain(state, tokens B)["source"]`. Nothing here knows
what kind of model it is.

N sentences are written at once, K prefixes of each (one at first, then up to `beam`). The model sees them as N·K
rows, sentence by sentence. A prefix only ever goes on from a prefix of its own sentence, so what the state holds
of the source stays where it is; a sentence that has ended leaves the batch.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core import state as states
from ..core.contract import ContractError, Memory
from . import greedy, lattice, sample
from .choice import log_probabilities, no_numbers
from .prefixes import NEVER, Choice, Config, Hypothesis, Prefixes, Texts, best_choices, going_on, with_ended

__all__ = ["Config", "Hypothesis", "search"]

FIRST_ROOM = 16  # slots that a growing state gets at first; doubled when full


class Sentences(NamedTuple):
    """All that is known of the sentences that are still written."""

    valid: Tensor  # N S, of the source
    outlook: Tensor | None  # N, the norm of a text as long as the limit; None where lengths do not count
    living: Prefixes  # N K, likeliest first
    finished: Texts  # N nbest, best first
    covered: Tensor | None  # N K S, the weight that each place of the source has got, where coverage counts


class Tree:
    """Every prefix that was kept, each as its last token and the prefix before that: none is ever copied."""

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

    def look(self, nodes: Tensor, weights: Tensor) -> None:
        """Keep where the model looked (rows S) as it read the last token of `nodes` (rows)."""
        self.readers.append(nodes)
        self.weights.append(weights)

    def trace(self) -> "Paths":
        """The tree on the host, to be followed from the leaves."""
        above = [-1] * self.roots
        readers = torch.cat(self.readers).tolist() if self.readers else []
        return Paths(
            above + torch.cat(self.parents).tolist(),
            above + torch.cat(self.tokens).tolist(),
            {node: row for row, node in enumerate(readers)},
            torch.cat(self.weights).cpu() if self.weights else None,
        )


class Paths(NamedTuple):
    """A tree on the host."""

    parents: list[int]
    tokens: list[int]
    reader: dict[int, int]  # node → row of weights
    weights: Tensor | None

    def read(self, node: int, finished: bool, valid: Tensor) -> tuple[list[int], list[list[float]] | None]:
        """The tokens down to `node`, and where the model looked for each (and for the end)."""
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

    `banned` tokens are never written: give what is no text, such as padding and `begin`. A row that is drawn
    takes its chances from (seed, its id); `ids` are the rows' numbers unless given. A list is shorter than
    `nbest` where the model allows no more texts.

    A text ends where its end is among the `beam` best of all ways to go on. A sentence is done when `nbest` texts
    are finished and no prefix can still beat the worst of them: a prefix only loses log p as it grows, log p is at
    most 0, the norm is greatest at the limit and coverage adds nothing above 0, so log p / norm(limit) is
    never exceeded. What is found later could not enter the list, so to wait for `beam` texts would be idle.
    """
    config = config or Config()
    count = len(memory.values)
    ids = range(count) if ids is None else ids
    check(begin, end, banned, ids, count)
    if count == 0:
        return []
    device = memory.values.device
    limits = [config.limit(length) for length in memory.valid.sum(dim=1).tolist()]
    if config.greedy and not alignments and greedy.suits(model, memory):
        written = greedy.write(model, memory, begin=begin, end=end, banned=banned, limits=limits)
        if written is not None:
            return [[Hypothesis(text.tokens, text.logprob, text.logprob, text.finished)] for text in written]
    elif not alignments and lattice.suits(model, memory, config):
        found = lattice.write(model, memory, begin=begin, end=end, banned=banned, limits=limits, config=config)
        if found is not None:
            return found
    forbidden = torch.tensor(sorted(set(banned)), dtype=torch.int64, device=device)
    drawn = config.temperature is not None
    draws = [generator(config.seed, row) for row in ids] if drawn else []

    tree, ended = Tree(count), []
    going, sentences = list(range(count)), start(memory, limits, config)
    room = min(FIRST_ROOM, max(limits))
    state = model.initial_state(count, memory=memory, capacity=room)
    x = torch.full((count,), begin, dtype=torch.int64, device=device)
    firsts = first_rows(count, 1, device)
    for step in itertools.count(1):
        if step > room:
            room = min(2 * room, max(limits))
            state = widen(state, model.initial_state(1, memory=first_row(memory), capacity=room))
        if alignments or config.coverage > 0:
            weights = look(model, state, x, sentences.valid)
            if alignments:
                tree.look(sentences.living.node.flatten(), weights)
            if sentences.covered is not None:
                new = weights.view_as(sentences.covered)
                sentences = sentences._replace(covered=sentences.covered + new)
        logits, state = model(x[:, None], state)
        logp = log_probabilities(logits[:, -1], forbidden, largest=max(begin, end, *banned))
        broken = logp[:, end].isnan()

        before = sentences.living.logprob  # N K
        if drawn:
            choice = drawn_choices(before, logp, config.drawing(), [draws[row] for row in going])
        else:
            choice = best_choices(before, logp, config.beam)
        # each prefix has but one end, so this many can go on
        width, after = before.shape[1], min(config.beam, max(1, before.shape[1] * (logp.shape[1] - 1)))
        sentences, parent, x = advance(sentences, choice, tree, config, step, end, after)
        rows = firsts + parent  # N K

        told = torch.cat([is_settled(sentences), broken]).tolist()  # the one word a step from the device
        over = [settled or limits[row] <= step for settled, row in zip(told, going, strict=False)]
        if any(told[len(going) :]):
            raise no_numbers(f"at step {step}")
        if any(over):
            leave, stay = (torch.tensor([i for i, out in enumerate(over) if out is left]) for left in (True, False))
            gone = states.select(sentences, leave.to(device))
            ended.append(([going[i] for i in leave.tolist()], gone.finished, cut(gone, config, step)))
            going = [going[i] for i in stay.tolist()]
            if not going:
                break
            sentences, rows, x = states.select((sentences, rows, x), stay.to(device))
        if any(over) or after != width:
            state = states.select(state, rows.flatten())
            firsts = first_rows(len(going), after, device)
        elif width > 1:  # rows trade places within their sentences: what the state holds of the source can stay
            state = states.select(state, rows.flatten(), constant=False)
        x = x.flatten()
    return texts(tree.trace(), ended, memory.valid.cpu(), config.nbest)


def start(memory: Memory, limits: list[int], config: Config) -> Sentences:
    """One empty prefix for each sentence, and no text."""
    count, places = memory.valid.shape
    like = memory.values.new_empty(0, dtype=torch.promote_types(memory.values.dtype, torch.float32))
    node = torch.arange(count, device=like.device)[:, None]
    return Sentences(
        valid=memory.valid,
        outlook=like.new_tensor([config.norm(limit) for limit in limits]) if config.length_penalty else None,
        living=Prefixes(node, like.new_zeros(count, 1)),
        finished=Texts(node.expand(-1, config.nbest), *like.new_full((2, count, config.nbest), NEVER)),
        covered=like.new_zeros(count, 1, places) if config.coverage > 0 else None,
    )


def advance(
    sentences: Sentences, choice: Choice, tree: Tree, config: Config, step: int, end: int, after: int
) -> tuple[Sentences, Tensor, Tensor]:
    """The sentences one token on, `after` prefixes of each; from which prefix each goes on (N K), and its token."""
    living, covered = sentences.living, sentences.covered
    score = scored(choice.logprob, config, step)
    if covered is not None:
        score = score + config.coverage * shortfall(covered, sentences.valid).gather(1, choice.parent)
    finished = with_ended(sentences.finished, living.node, choice, score, end, config)
    on = going_on(choice, end, after)
    living = Prefixes(tree.add(living.node.gather(1, on.parent), on.token), on.logprob)
    covered = None if covered is None else covered.take_along_dim(on.parent[..., None], dim=1)
    return sentences._replace(living=living, finished=finished, covered=covered), on.parent, on.token


def scored(logprob: Tensor, config: Config, step: int) -> Tensor:
    """What texts of `step` tokens score, before coverage."""
    return logprob / config.norm(step) if config.length_penalty else logprob


def is_settled(sentences: Sentences) -> Tensor:
    """N: whether nothing that may still come could enter the list."""
    hope = sentences.living.logprob[:, 0]
    hope = hope if sentences.outlook is None else hope / sentences.outlook
    return sentences.finished.score[:, -1] >= hope


def cut(sentences: Sentences, config: Config, step: int) -> Texts:
    """The prefixes of sentences that are over, as texts that did not end."""
    node, logprob = sentences.living
    score = scored(logprob, config, step)
    if sentences.covered is not None:
        score = score + config.coverage * shortfall(sentences.covered, sentences.valid)
    return Texts(node, logprob, score)


def first_rows(count: int, width: int, device: torch.device) -> Tensor:
    """N 1: where the rows of each sentence begin."""
    return width * torch.arange(count, device=device)[:, None]


def check(begin: int, end: int, banned: Sequence[int], ids: Sequence[int], count: int) -> None:
    """Refuse tokens and ids that cannot be meant."""
    if end in banned:
        raise ContractError(f"beam: expected an end that may be written, found {end} among the banned tokens")
    if negative := [token for token in (begin, end, *banned) if token < 0]:
        raise ContractError(f"beam: expected begin, end and banned as token ids of at least 0, found {negative[0]}")
    if len(ids) != count:
        raise ContractError(f"beam: expected an id for each of {count} rows of memory, found {len(ids)} ids")


def generator(seed: int, row: int) -> torch.Generator:
    """The chances of one row: others for each row, the same wherever the row stands in a batch."""
    mixed = int(np.random.SeedSequence((seed, row)).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(mixed >> 1)


def first_row(memory: Memory) -> Memory:
    """The memory of one source: enough to ask how large a state would be."""
    return states.select(memory, torch.zeros(1, dtype=torch.int64, device=memory.values.device))


def widen(state: Any, like: Any) -> Any:
    """The state with as many slots as `like`, a state of one row with more room, has."""

    def fit(own: Tensor, other: Tensor) -> Tensor:
        return states.fit(own, other.shape[1]) if own.dim() > 1 and own.shape[1] < other.shape[1] else own

    return states.map(fit, state, like)


def look(model: Any, state: Any, x: Tensor, valid: Tensor) -> Tensor:
    """Where the model looks in the source (rows S) as it reads x (rows).

    To explain a step is to make it. In a state with room made beforehand that writes a slot, and the step that
    follows writes the same there.
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


def shortfall(covered: Tensor, valid: Tensor) -> Tensor:
    """N K: Σ over valid places of log(min(weight, 1)), at most 0."""
    # a place that never got any weight would be worth -inf, and all such texts would be equally bad
    least = torch.finfo(torch.float32).tiny
    return covered.clamp(least, 1).log().masked_fill(~valid[:, None], 0).sum(dim=-1)


def drawn_choices(logprob: Tensor, logp: Tensor, config: sample.Config, draws: list[torch.Generator]) -> Choice:
    """One way to go on for each sentence, drawn."""
    tokens = sample.choose(logp, [], config, draws)
    token = torch.tensor(tokens, device=logp.device)[:, None]
    return Choice(torch.zeros_like(token), token, logprob + logp.gather(1, token))


def texts(
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
                    if scores[slot] > NEVER:
                        tokens, alignment = paths.read(nodes[slot], whole, valid[sentence])
                        found[sentence].append(Hypothesis(tokens, scores[slot], logprobs[slot], whole, alignment))
    # a model may forbid every text; a caller still gets one for each source
    empty = Hypothesis([], NEVER, NEVER, False, None if paths.weights is None else [])
    return [hypotheses or [empty] for hypotheses in found]
