"""The n-gram model: what came next when the last words were these, counted.

STATE   the last n − 1 tokens, and how many were seen
UPDATE  window ← window[1:] + [x]
READ    p(w | window), interpolated modified Kneser–Ney
GROWS   no
FAST    one look-up an order for a whole chunk, of only what a longer n-gram may still match

Chen and Goodman (1999), with u the context, u' the context without its oldest word, and • any word:

    p(w | u) = (c(u w) − D(c(u w))) / c(u •) + γ(u) · p(w | u')        γ(u) = Σ over w of D(c(u w)) / c(u •)

c is the count for n-grams of the full length n, and for shorter ones the number of different words that were
seen before them (that the text begins there counts as one more). D takes D1, D2 or D3 from counts of 1, 2, and
3 or more; they follow from how many n-grams occur one to four times, each length on its own. Below single
words stands the uniform 1 / vocabulary, so nothing is impossible. A context that was not seen, or that is
longer than what was read so far, is shortened.

Only n-grams that occurred are stored, each with its full p and, as a context, its γ: `ngram_table` says how they
are found, `ngram_count` how they are counted.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from ...core.contract import ContractError, Cost, Example, Memory, check_settings
from ...core.ragged import check_lengths, mask
from ...core.settings import at_least
from . import arpa
from .count import estimate
from .table import Length, Lengths


@dataclass(frozen=True, kw_only=True)
class Config:
    """n-grams up to length `order`, over tokens 0 … `vocab` − 1."""

    order: int = at_least(1, default=5, most=100)
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


class Ngram(nn.Module):
    """Untrained it knows nothing: every token is equally likely. `train_on` or `from_arpa` fill it."""

    _like: Tensor
    card: ClassVar[dict[str, str]] = {
        "name": "ngram",
        "summary": "What came next when the last words were these, counted.",
        "state": "the last n − 1 tokens",
        "update": "shift",
        "read": "p(next | window), interpolated modified Kneser–Ney",
        "grows": "no",
        "fast": "one look-up an order for a whole chunk",
    }

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.width = config.vocab
        self.lengths = Lengths(config.order, config.vocab)
        uniform = torch.full((config.vocab,), -math.log(config.vocab), dtype=torch.float64)
        self.length(1).hold(torch.arange(config.vocab), uniform, torch.zeros(config.vocab if config.order > 1 else 0))
        # The dtype of what `forward` returns: float32, until .double(). The tables are float64 from the start.
        self.register_buffer("_like", torch.empty(0, dtype=torch.float32), persistent=False)
        self.register_load_state_dict_post_hook(_check_tables)

    def length(self, k: int) -> Length:
        """The n-grams of length k, from 1."""
        return self.lengths.of(k)

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
        contexts = self.lengths.matches(state.window, self._seen(state, 0), self.config.order - 1)
        return self._spread([at[:, -1] for at in contexts], len(state.window))

    def forward(self, x: Tensor, state: State | None = None, memory: Memory | None = None) -> tuple[Tensor, State]:
        """x: B T → log-probabilities of the next token after each: B T V, and the state after them."""
        x, state = self._check(x, state)
        history = torch.cat([state.window, x], dim=1)
        contexts = self.lengths.matches(history, self._seen(state, x.shape[1]), self.config.order - 1)
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
        steps, slots = x.shape[1], self.config.order - 1
        history = torch.cat([state.window, x], dim=1)  # B N+T
        following = torch.cat([history[:, 1:], targets[:, -1:]], dim=1)
        asked = following
        if not torch.equal(following[:, slots:], targets):
            asked = torch.cat([following[:, :slots], targets], dim=1)
        scores = self.lengths.score(history, following, asked, self._seen(state, steps))
        return -scores[:, slots:], self._after(history, state, steps)

    def ragged(self, x: Tensor, lengths: Tensor | Sequence[int], state: State | None = None) -> tuple[Tensor, State]:
        """Rows of unequal length: outputs (zero in the padding, whatever stands there) and each row's own state."""
        lengths = check_lengths(lengths, x)
        valid = mask(lengths, x.shape[1])
        x, state = self._check(x.masked_fill(~valid, 0), state)
        y, _ = self(x, state)
        history = torch.cat([state.window, x], dim=1)
        at = lengths[:, None] + torch.arange(self.config.order - 1, device=x.device)
        return y.masked_fill(~valid[..., None], 0), State(history.gather(1, at), state.clock + lengths)

    def explain(self, state: State, x: Tensor) -> dict[str, Tensor]:
        """`continuations`: how many different tokens followed the last 1, 2, … N tokens, x included: B N, 0 where none.

        What is not known at a length is read at the next shorter one.
        """
        after, vocab = self.update(state, x), self.config.vocab
        found = []
        for k, context in enumerate(self.lengths.matches(after.window, self._seen(after, 0), self.config.order - 1), 1):
            keys, at = self.length(k + 1).keys, context[:, -1]
            counts = torch.searchsorted(keys, (at + 1) * vocab) - torch.searchsorted(keys, at * vocab)
            found.append(torch.where(at >= 0, counts, 0))
        return {"continuations": torch.stack(found, dim=1).to(self._like.dtype)} if found else {}

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
        for k, found in enumerate(estimate(text, self.config.order, self.config.vocab), start=1):
            self.length(k).hold(found.keys, found.probability.log().clamp(max=0))
            if k > 1:
                self.length(k - 1).log_backoff = found.backoff.log().to(self.length(k - 1).log_backoff)
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
            context = model.lengths.index(rows[:, :-1])
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

    # Distributions

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

    def diagnose_state(self, state: State) -> str | None:
        """What is wrong with the numbers of a state from a file."""
        if state.window.numel() and not 0 <= int(state.window.min()) <= int(state.window.max()) < self.config.vocab:
            return f"expected tokens from 0 to {self.config.vocab - 1} in window, found others"
        return None

    def check_stored(self, tensors: dict[str, Tensor]) -> None:
        """Refuse tensors that are no tables of n-grams; how many entries they have is for the text to say.

        Numbers may be stored in fewer bits than they are used with.
        """
        own = self.state_dict()
        wrong = sorted(own.keys() ^ tensors.keys()) or [
            name
            for name, table in own.items()
            if tensors[name].dim() != 1
            or not torch.can_cast(tensors[name].dtype, table.dtype)
            or tensors[name].is_floating_point() != table.is_floating_point()
        ]
        if wrong:
            raise ContractError(
                f"ngram: expected tables of up to {self.config.order} words, found others in {wrong[0][:60]}"
            )

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


def _pick(table: Tensor, at: Tensor) -> Tensor:
    """table[at], and 0 where there is no n-gram (−1)."""
    if not len(table):
        return torch.zeros_like(at, dtype=table.dtype)
    picked = table.index_select(0, at.clamp(min=0).flatten()).view(at.shape)
    return picked.masked_fill_(at < 0, 0)


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
