"""The stored n-grams, and how they are found in a text.

An n-gram is the pair (index of its first k − 1 words among those of length k − 1, last word), packed into one
int64: its key. Keys are stored in ascending order, so the n-grams of a context lie together in the order of their
last words, and keys fit for any order.

A few look-ups search in that order. Many are worth an `Index`, which answers six times as fast or more.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .index import Index

WORTH = 4  # an index takes as long to make as it saves in .15 to .6 look-ups an entry, the fewer at once the less


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
        self.forget_index()

    def hold(self, keys: Tensor, log_probability: Tensor, log_backoff: Tensor | None = None) -> None:
        """Put other n-grams in place, on the device where the old ones are."""
        self.keys = keys.to(self.keys.device)
        self.log_probability = log_probability.to(self.log_probability)
        self.log_backoff = (keys.new_empty(0) if log_backoff is None else log_backoff).to(self.log_backoff)
        self.forget_index()

    def find(self, wanted: Tensor, below: int) -> Tensor:
        """The index (Q) of each wanted key (Q, from 0 to `below` − 1) among the E stored; E or more where it is not."""
        if not len(self.keys):
            return torch.zeros_like(wanted)
        if self.keys.is_cpu and self._index is None:
            self._asked += len(wanted)
            if self._asked * WORTH >= len(self.keys):
                self._index, self._asked = Index.of(self.keys, below), 0
        if self.keys.is_cpu and self._index is not None:
            return torch.from_numpy(self._index.find(wanted.numpy()))
        # In order, neighbouring look-ups touch the same memory: twice as fast, the sort included.
        ascending, order = wanted.sort()
        at = torch.searchsorted(self.keys, ascending).clamp_(max=len(self.keys) - 1)
        at.masked_fill_(self.keys.index_select(0, at) != ascending, len(self.keys))
        return torch.empty_like(at).scatter_(0, order, at)

    def forget_index(self) -> None:
        """Must follow every change of the keys."""
        self._index: Index | None = None
        self._asked = 0


class Lengths(nn.ModuleList):
    """The stored n-grams of length 1, 2, … `order` over a vocabulary."""

    def __init__(self, order: int, vocab: int) -> None:
        super().__init__(Length() for _ in range(order))
        self.order, self.vocab = order, vocab

    def of(self, k: int) -> Length:
        """The n-grams of length k, from 1."""
        found = self[k - 1]
        assert isinstance(found, Length)
        return found

    def score(self, history: Tensor, following: Tensor, asked: Tensor, seen: Tensor) -> Tensor:
        """log p of each word `asked` after the `history` up to there; all B L, with what is `following` in the text.

        Only positions whose context is stored go on to the next length. Rows lie one behind the other: a context
        that would reach into the row before ends within the first order − 1 positions, whose scores mean nothing.
        """
        is_text = asked is following
        following, asked = following.flatten(), asked.flatten()
        shorter = self.of(1)
        scores = shorter.log_probability.index_select(0, asked)
        at = positions(seen.flatten())  # where there is a context, and which
        context = history.flatten().index_select(0, at)
        for k in range(2, self.order + 1):
            table = self.of(k)
            found = self._known(shorter, table, context, asked.index_select(0, at))
            is_stored = found < len(table.keys)
            met, missed = positions(is_stored), positions(~is_stored)
            weight = shorter.log_backoff.index_select(0, context.index_select(0, missed))
            scores.index_add_(0, at.index_select(0, missed), weight)
            where, longer = at.index_select(0, met), found.index_select(0, met)
            scores.index_copy_(0, where, table.log_probability.index_select(0, longer))
            if not is_text:
                found = self._known(shorter, table, context, following.index_select(0, at))
                met = positions(found < len(table.keys))
                where, longer = at.index_select(0, met), found.index_select(0, met)
            if len(where) and where[-1] == len(asked) - 1:  # the text ends there
                where, longer = where[:-1], longer[:-1]
            at, context, shorter = where + 1, longer, table
        return scores.view_as(history)

    def matches(self, text: Tensor, seen: Tensor, longest: int) -> list[Tensor]:
        """For each length 1 … `longest` the index (B L) of the n-gram that ends at each position of text, or −1."""
        found = [torch.where(seen, text, -1)][:longest]
        for k in range(2, longest + 1):
            before = nn.functional.pad(found[-1][:, :-1], (1, 0), value=-1)
            found.append(self._find(k, before, text))
        return found

    def index(self, rows: Tensor) -> Tensor:
        """The index (E) of each row (E k) among the n-grams of length k, or −1; 0 for the empty row."""
        at = torch.zeros(len(rows), dtype=torch.int64)
        for k, word in enumerate(rows.unbind(1), start=1):
            at = word if k == 1 else self._find(k, at, word)
        return at

    def _find(self, k: int, context: Tensor, word: Tensor) -> Tensor:
        """The index of (context, word) among the n-grams of length k; −1 where it, or its context, is not stored."""
        table, found = self.of(k), torch.full_like(context, -1, memory_format=torch.contiguous_format)
        asked = positions(context.flatten() >= 0)
        context, word = (part.flatten().index_select(0, asked) for part in (context, word))
        known = self._known(self.of(k - 1), table, context, word)
        found.view(-1).index_copy_(0, asked, known.masked_fill_(known >= len(table.keys), -1))
        return found

    def _known(self, shorter: Length, table: Length, context: Tensor, word: Tensor) -> Tensor:
        """The index (Q) in `table` of each word (Q) after its context (Q) out of `shorter`, as `Length.find`."""
        return table.find((context * self.vocab).add_(word), len(shorter.keys) * self.vocab)


def positions(mask: Tensor) -> Tensor:
    """Where a mask (Q) is true. On CPU numpy takes a fraction of torch's time."""
    return torch.from_numpy(mask.numpy().nonzero()[0]) if mask.is_cpu else mask.nonzero()[:, 0]


def _make_room(length: nn.Module, state_dict: Mapping[str, Any], prefix: str, *_: Any) -> None:
    """Before loading: as many entries as the file has."""
    assert isinstance(length, Length)
    length.forget_index()
    for name, own in list(length.named_buffers()):
        if isinstance(given := state_dict.get(prefix + name), Tensor):
            setattr(length, name, own.new_empty(given.shape))
