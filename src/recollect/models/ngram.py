"""The n-gram model: what came next when the last words were these, counted.

STATE   the last n − 1 tokens, and how many were seen
UPDATE  window ← window[1:] + [x]
READ    p(w | window), interpolated modified Kneser–Ney
GROWS   no
FAST    one sorted look-up an order for a whole chunk

Chen and Goodman (1999), with u the context, u' the context without its oldest word, and • any word:

    p(w | u) = (c(u w) − D(c(u w))) / c(u •) + γ(u) · p(w | u')        γ(u) = Σ over w of D(c(u w)) / c(u •)

c is the count for n-grams of the full length n, and for shorter ones the number of different words that were
seen before them (that the text begins there counts as one more). D takes D1, D2 or D3 from counts of 1, 2, and
3 or more; they follow from how many n-grams occur one to four times, each length on its own. Below single
words stands the uniform 1 / vocabulary, so nothing is impossible. A context that was not seen, or that is
longer than what was read so far, is shortened.

Only n-grams that occurred are stored, each with its full p and, as a context, its γ. An n-gram is the pair
(index of its first k − 1 words among those of length k − 1, last word), packed into one int64 and sorted: the
n-grams of a context lie together in the order of their last words, and keys fit for any order.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from ..core.contract import ContractError, Cost, Example, Memory, check_settings
from ..core.ragged import check_lengths, mask
from . import arpa

FALLBACK = (0.5, 1.0, 1.5)  # discounts for a length whose counts of counts give none


@dataclass(frozen=True, kw_only=True)
class Config:
    """n-grams up to length `order`, over tokens 0 … `vocab` − 1."""

    order: int = 5
    vocab: int

    def __post_init__(self) -> None:
        check_settings(self)

    def build(self) -> "Ngram":
        return Ngram(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(vocab=6), cls(order=3, vocab=7), cls(order=1, vocab=4)

    def example(self, batch: int, steps: int, dtype: torch.dtype = torch.float64) -> Example:
        """Random tokens; they are whole numbers whatever the dtype."""
        return Example(torch.randint(self.vocab, (batch, steps)))


class State(NamedTuple):
    window: Tensor  # B N, int64: the last N = order − 1 tokens, newest last, zeros where nothing was seen
    clock: Tensor  # B, int64: how many tokens were seen


class Length(nn.Module):
    """The stored n-grams of one length. How many there are comes from the text or file, not from the config."""

    keys: Tensor  # E, int64, ascending: index of the context in the length below · vocab + last word
    log_probability: Tensor  # E
    log_backoff: Tensor  # E, log γ of the n-gram as a context; nothing (0) at the longest length

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.empty(0, dtype=torch.int64))
        self.register_buffer("log_probability", torch.empty(0, dtype=torch.float64))
        self.register_buffer("log_backoff", torch.empty(0, dtype=torch.float64))
        self.register_load_state_dict_pre_hook(_make_room)

    def hold(self, keys: Tensor, log_probability: Tensor, log_backoff: Tensor | None = None) -> None:
        """Put other n-grams in place, on the device where the old ones are."""
        self.keys = keys.to(self.keys.device)
        self.log_probability = log_probability.to(self.log_probability)
        self.log_backoff = (keys.new_empty(0) if log_backoff is None else log_backoff).to(self.log_backoff)


class Ngram(nn.Module):
    """Untrained it knows nothing: every token is equally likely. `train_on` or `from_arpa` fill it."""

    _like: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.width = config.vocab
        self.lengths = nn.ModuleList(Length() for _ in range(config.order))
        uniform = torch.full((config.vocab,), -math.log(config.vocab), dtype=torch.float64)
        self.length(1).hold(torch.arange(config.vocab), uniform, torch.zeros(config.vocab if config.order > 1 else 0))
        # The dtype of what `forward` returns: float32, until .double(). The tables are float64 from the start.
        self.register_buffer("_like", torch.empty(0, dtype=torch.float32), persistent=False)
        self.register_load_state_dict_post_hook(_check_tables)

    def length(self, k: int) -> Length:
        """The n-grams of length k, from 1."""
        found = self.lengths[k - 1]
        assert isinstance(found, Length)
        return found

    def entries(self, k: int | None = None) -> int:
        """How many n-grams are stored: of length k, or in all."""
        return sum(len(self.length(j).keys) for j in ([k] if k else range(1, self.config.order + 1)))

    # The contract

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        device = (self._like if like is None else like).device
        window = torch.zeros(batch, self.config.order - 1, dtype=torch.int64, device=device)
        return State(window, window.new_zeros(batch))

    def update(self, state: State, x: Tensor) -> State:
        """The state after the tokens x (B)."""
        return State(torch.cat([state.window, x[:, None]], dim=1)[:, 1:].clone(), state.clock + 1)

    def read(self, state: State) -> Tensor:
        """Log-probabilities (B V) of the token after the window."""
        contexts = self._matches(state.window, self._seen(state, 0), self.config.order - 1)
        return self._spread([at[:, -1] for at in contexts], len(state.window))

    def forward(self, x: Tensor, state: State | None = None, memory: Memory | None = None) -> tuple[Tensor, State]:
        """x: B T → log-probabilities of the next token after each: B T V, and the state after them."""
        x, state = self._check(x, state)
        history = torch.cat([state.window, x], dim=1)
        contexts = self._matches(history, self._seen(state, x.shape[1]), self.config.order - 1)
        contexts = [at[:, -x.shape[1] :].flatten() for at in contexts]
        y = self._spread(contexts, x.numel())
        return y.reshape(*x.shape, self.width), self._after(history, state, x.shape[1])

    def unroll(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The definition: one token after the other."""
        outputs = []
        for x_t in x.unbind(1):
            state = self.update(state, x_t)
            outputs.append(self.read(state))
        return torch.stack(outputs, dim=1), state

    def nll(self, x: Tensor, targets: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """−log p of `targets` (B T), each after the x (B T) so far: B T nats in float64, and the state after x."""
        x, state = self._check(x, state)
        if targets.shape != x.shape:
            raise ContractError(f"ngram: expected targets of shape {tuple(x.shape)}, found {tuple(targets.shape)}")
        targets = self._check_tokens(targets, "targets")
        order, steps = self.config.order, x.shape[1]
        history = torch.cat([state.window, x], dim=1)
        if torch.equal(x[:, 1:], targets[:, :-1]):
            # The usual case, twice as fast: a target is the next x, so one pass finds contexts and n-grams.
            text = torch.cat([history, targets[:, -1:]], dim=1)
            matches = self._matches(text, self._seen(state, steps + 1), order)
            contexts, grams = [at[:, -steps - 1 : -1] for at in matches[:-1]], [at[:, -steps:] for at in matches[1:]]
        else:
            contexts = [at[:, -steps:] for at in self._matches(history, self._seen(state, steps), order - 1)]
            grams = [self._find(k, context, targets) for k, context in enumerate(contexts, start=2)]
        log_probability = _pick(self.length(1).log_probability, targets)
        for k, (context, gram) in enumerate(zip(contexts, grams, strict=True), start=2):
            shortened = log_probability + _pick(self.length(k - 1).log_backoff, context)
            log_probability = torch.where(gram >= 0, _pick(self.length(k).log_probability, gram), shortened)
        return -log_probability, self._after(history, state, steps)

    def ragged(self, x: Tensor, lengths: Tensor | Sequence[int], state: State | None = None) -> tuple[Tensor, State]:
        """Rows of unequal length: outputs (zero in the padding, whatever stands there) and each row's own state."""
        lengths = check_lengths(lengths, x)
        valid = mask(lengths, x.shape[1])
        x, state = self._check(x.masked_fill(~valid, 0), state)
        y, _ = self(x, state)
        history = torch.cat([state.window, x], dim=1)
        at = lengths[:, None] + torch.arange(self.config.order - 1, device=x.device)
        return y.masked_fill(~valid[..., None], 0), State(history.gather(1, at), state.clock + lengths)

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        return Cost(0, batch * self.config.order * torch.int64.itemsize)

    # Training

    @torch.no_grad()
    def train_on(self, tokens: np.ndarray) -> Self:
        """Fit to one stream of tokens; what was learned before is forgotten.

        Each length of n-gram needs one sort of as many numbers as there are tokens.
        """
        tokens = np.asarray(tokens)
        if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise ContractError(
                f"ngram: expected tokens to be one row of whole numbers, found {tokens.dtype} {tokens.shape}"
            )
        text = self._check_tokens(torch.from_numpy(tokens.astype(np.int64)), "tokens")
        shorter = torch.tensor([1 / self.config.vocab], dtype=torch.float64)  # p of each n-gram one word shorter
        for k, counted in enumerate(count(text, self.config), start=1):
            context = counted.keys // self.config.vocab
            probability, backoff = _estimate(counted.counts, context, len(shorter), shorter[counted.suffix])
            self.length(k).hold(counted.keys, probability.log().clamp(max=0))
            if k > 1:
                self.length(k - 1).log_backoff = backoff.log().to(self.length(k - 1).log_backoff)
            shorter = probability
        return self

    # ARPA files

    def to_arpa(self, path: str | os.PathLike[str], words: Sequence[str]) -> None:
        """Write the model as ARPA text, token i being `words[i]` (escaped where needed: see `models.arpa`).

        A stored n-gram goes out with its full interpolated probability and its γ as back-off weight, so a plain
        back-off reader finds the same probabilities.
        """
        if len(words) != self.config.vocab:
            raise ContractError(f"ngram: expected {self.config.vocab:,} words, one a token, found {len(words):,}")
        arpa.write(path, words, [partial(self._grams, k) for k in range(1, self.config.order + 1)])

    @classmethod
    @torch.no_grad()
    def from_arpa(cls, path: str | os.PathLike[str], words: Sequence[str]) -> "Ngram":
        """Read any tool's ARPA file, token i being `words[i]` (`arpa.read_words` gives those of the file).

        N-grams with other words are left out. Pruned files may list an n-gram but not its context: the context
        is then added with the probability that backing off gives it, which changes no score.
        """
        lengths = arpa.read(path, words)
        model = cls(Config(order=len(lengths), vocab=len(words)))
        k = 1
        while k <= len(lengths):
            grams = lengths[k - 1]
            rows = torch.from_numpy(grams.words)  # E k
            context = model._index(rows[:, :-1])
            if len(orphans := rows[context < 0, :-1]):
                k -= 1
                lengths[k - 1] = lengths[k - 1].with_unlisted(orphans.unique(dim=0).numpy())
                model.lengths[k - 1] = Length()
                continue
            keys, order = (context * len(words) + rows[:, -1]).sort()
            if repeated := (keys[1:] == keys[:-1]).nonzero()[:, 0].tolist():
                first, second = sorted(grams.line[order[repeated[0] : repeated[0] + 2].numpy()].tolist())
                raise arpa.ArpaError(f"{path}:{second}: expected each n-gram once, found that of line {first} again")
            values = torch.from_numpy(grams.log_probability)[order]
            if len(unlisted := values.isnan().nonzero()[:, 0]):
                text = rows[order[unlisted]]
                values[unlisted] = -model.nll(text[:, :-1], text[:, 1:])[0][:, -1]
            backoff = torch.from_numpy(grams.log_backoff)[order]
            model.length(k).hold(keys, values, backoff if k < len(lengths) else None)
            k += 1
        return model

    def _grams(self, k: int) -> arpa.Grams:
        """The n-grams of length k, spelled out."""
        length, at, words = self.length(k), torch.arange(self.entries(k)), []
        for j in range(k, 0, -1):
            keys = self.length(j).keys.cpu()[at]
            words.append(keys % self.config.vocab)
            at = keys // self.config.vocab
        log_backoff = length.log_backoff if k < self.config.order else torch.zeros_like(length.log_probability)
        return arpa.Grams(
            torch.stack(words[::-1], dim=1).numpy(),
            length.log_probability.cpu().double().numpy(),
            log_backoff.cpu().double().numpy(),
            np.empty(0, dtype=np.int64),
        )

    # How n-grams are found

    def _find(self, k: int, context: Tensor, word: Tensor) -> Tensor:
        """The index of (context, word) among the n-grams of length k; −1 where it, or its context, is not stored."""
        keys = self.length(k).keys
        found = torch.full_like(context, -1, memory_format=torch.contiguous_format)
        asked = (context >= 0).flatten().nonzero()[:, 0]
        if len(keys) and len(asked):
            context, word = (part.flatten().index_select(0, asked) for part in (context, word))
            # In order, neighbouring look-ups touch the same memory: twice as fast, the sort included.
            wanted, order = (context * self.config.vocab + word).sort()
            at = torch.searchsorted(keys, wanted).clamp_(max=len(keys) - 1)
            at.masked_fill_(keys.index_select(0, at) != wanted, -1)
            found.view(-1).scatter_(0, asked.index_select(0, order), at)
        return found

    def _matches(self, text: Tensor, seen: Tensor, longest: int) -> list[Tensor]:
        """For each length 1 … `longest` the index (B L) of the n-gram that ends at each position of text (B L)."""
        matches = [torch.where(seen, text, -1)][:longest]
        for k in range(2, longest + 1):
            before = nn.functional.pad(matches[-1][:, :-1], (1, 0), value=-1)
            matches.append(self._find(k, before, text))
        return matches

    def _index(self, rows: Tensor) -> Tensor:
        """The index (E) of each row (E k) among the n-grams of length k; 0 for the empty row."""
        at = torch.zeros(len(rows), dtype=torch.int64)
        for k, word in enumerate(rows.unbind(1), start=1):
            at = self._find(k, at, word)
        return at

    def _spread(self, contexts: list[Tensor], rows: int) -> Tensor:
        """The distribution (R V) after each row's contexts, given as indices (R) of length 1, 2, …, or −1."""
        vocab = self.width
        weights = [_pick(self.length(k).log_backoff, context) for k, context in enumerate(contexts, start=1)]
        # What an n-gram of length k is owed for the contexts of length k and more, all given up.
        owed = [self.length(1).log_probability.new_zeros(rows)]
        for weight in reversed(weights):
            owed.insert(0, owed[0] + weight)
        y = self._like.new_empty(rows, vocab)
        torch.add(self.length(1).log_probability, owed[0][:, None], out=y)
        for k, context in enumerate(contexts, start=2):
            length, found = self.length(k), (context >= 0).nonzero()[:, 0]
            first = torch.searchsorted(length.keys, context[found] * vocab)
            count = torch.searchsorted(length.keys, (context[found] + 1) * vocab) - first
            row = found.repeat_interleave(count)
            at = torch.arange(len(row), device=row.device)
            at += (first - count.cumsum(0) + count).repeat_interleave(count)
            y[row, length.keys[at] % vocab] = (length.log_probability[at] + owed[k - 1][row]).to(y.dtype)
        return y

    def _seen(self, state: State, steps: int) -> Tensor:
        """B N+T: False in the slots of the window that hold nothing."""
        slots = self.config.order - 1
        return torch.arange(slots + steps, device=state.clock.device) >= slots - state.clock[:, None]

    def _after(self, history: Tensor, state: State, steps: int) -> State:
        return State(history[:, steps:].clone(), state.clock + steps)

    # What callers may get wrong

    def check(self, x: Tensor, state: State | None) -> None:
        """As every layer's: one clear line about tokens or a state that do not fit."""
        self._check(x, state)

    def like(self) -> Tensor:
        """A tensor with the dtype and device of what `forward` returns."""
        return self._like

    def _check(self, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        if x.dim() != 2 or x.shape[1] == 0:
            raise ContractError(f"ngram: expected x of shape (batch, steps ≥ 1), found {tuple(x.shape)}")
        state = self.initial_state(len(x), like=x) if state is None else state
        if not isinstance(state, State) or state.window.shape != (len(x), self.config.order - 1):
            found = tuple(state.window.shape) if isinstance(state, State) else type(state).__name__
            raise ContractError(
                f"ngram: expected a state with a window of {(len(x), self.config.order - 1)}, found {found}; "
                "start from model.initial_state(batch)"
            )
        return self._check_tokens(x, "x"), state

    def _check_tokens(self, tokens: Tensor, name: str) -> Tensor:
        if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
            raise ContractError(f"ngram: expected {name} to be whole numbers, found {tokens.dtype}")
        if tokens.numel():
            least, most = (int(bound) for bound in tokens.aminmax())
            if least < 0 or most >= self.config.vocab:
                outside = least if least < 0 else most
                raise ContractError(f"ngram: expected {name} from 0 to {self.config.vocab - 1}, found {outside}")
        return tokens.long()


class Counted(NamedTuple):
    """The n-grams of one length in a text."""

    keys: Tensor  # E, as in `Length`
    suffix: Tensor  # E, the index of the n-gram without its oldest word in the length below
    counts: Tensor  # E, occurrences at the longest length, different words before it at the others


def count(text: Tensor, config: Config) -> list[Counted]:
    """The n-grams of each length in a text (T)."""
    at = text  # the index of the n-gram that begins at each position
    found = [Counted(torch.arange(config.vocab), text.new_zeros(config.vocab), text.bincount(minlength=config.vocab))]
    for k in range(2, config.order + 1):
        keys, longer = _rank(at[:-1] * config.vocab + text[k - 1 :])
        suffix = torch.empty_like(keys).scatter_(0, longer, at[1:])  # all occurrences say the same
        # No longer the longest: counted by what came before, of which the beginning of the text is one kind.
        before = suffix.bincount(minlength=len(found[-1].keys))
        before[at[:1]] += 1
        found[-1] = found[-1]._replace(counts=before)
        found.append(Counted(keys, suffix, longer.bincount(minlength=len(keys))))
        at = longer
    return found


def _rank(values: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct values in order, and where each of the given values stands among them."""
    ascending, order = values.sort()
    is_new = torch.ones_like(ascending, dtype=torch.bool)
    torch.ne(ascending[1:], ascending[:-1], out=is_new[1:])
    rank = torch.empty_like(order).scatter_(0, order, is_new.cumsum(0) - 1)
    return ascending[is_new], rank


def discounts(counts: Tensor) -> Tensor:
    """What is taken from counts of 0, 1, 2, and 3 or more, of n-grams of one length (Chen and Goodman 1999).

    A text too small to say (no n-gram with one of the counts 1 to 4, or a discount that leaves its range) gets
    `FALLBACK`. Discounts are above zero, so every context passes something on to the shorter one.
    """
    ones, twos, threes, fours = torch.bincount(counts.clamp(max=5), minlength=6)[1:5].tolist()
    found = FALLBACK
    if ones and twos and threes and fours:
        share = ones / (ones + 2 * twos)
        found = (1 - 2 * share * twos / ones, 2 - 3 * share * threes / twos, 3 - 4 * share * fours / threes)
        if not all(0 < taken <= c for c, taken in enumerate(found, start=1)):
            found = FALLBACK
    return torch.tensor((0.0, *found), dtype=torch.float64)


def _estimate(counts: Tensor, context: Tensor, contexts: int, lower: Tensor) -> tuple[Tensor, Tensor]:
    """p of each n-gram (E), and γ of each of the `contexts`; `lower` is p without the oldest word (E)."""
    taken = discounts(counts)[counts.clamp(max=3)]
    total = torch.bincount(context, weights=counts, minlength=contexts)
    backoff = torch.bincount(context, weights=taken, minlength=contexts) / total
    # The last words of the text were not seen as a context.
    backoff = torch.where(total > 0, backoff, 1.0)
    return (counts - taken) / total.clamp(min=1)[context] + backoff[context] * lower, backoff


def _pick(table: Tensor, at: Tensor) -> Tensor:
    """table[at], and 0 where there is no n-gram (−1)."""
    if not len(table):
        return torch.zeros_like(at, dtype=table.dtype)
    picked = table.index_select(0, at.clamp(min=0).flatten()).view(at.shape)
    return picked.masked_fill_(at < 0, 0)


def _make_room(length: nn.Module, state_dict: Mapping[str, Any], prefix: str, *_: Any) -> None:
    """Before loading: as many entries as the file has."""
    for name, own in list(length.named_buffers()):
        if isinstance(given := state_dict.get(prefix + name), Tensor):
            setattr(length, name, own.new_empty(given.shape))


def _check_tables(model: nn.Module, _: Any) -> None:
    """After loading: refuse arrays that do not fit together, which would answer nonsense."""
    assert isinstance(model, Ngram)
    contexts, vocab, order = 1, model.config.vocab, model.config.order
    for k in range(1, order + 1):
        keys, *values = model.length(k).buffers()
        entries = len(keys)
        wrong = None
        if [len(value) for value in values] != [entries, entries if k < order else 0]:
            wrong = f"{entries} keys, {len(values[0])} probabilities and {len(values[1])} back-off weights"
        elif k == 1 and not torch.equal(keys, torch.arange(vocab, device=keys.device)):
            wrong = f"{entries} single words that are not 0 to {vocab - 1}"
        elif entries and not (keys[0] >= 0 and keys[-1] < contexts * vocab and bool((keys[1:] > keys[:-1]).all())):
            wrong = "keys that do not ascend, or whose contexts do not exist"
        if wrong:
            raise ContractError(f"ngram: expected stored n-grams of length {k} that fit the config, found {wrong}")
        contexts = entries
