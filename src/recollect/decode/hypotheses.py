"""Hypotheses of a beam search: prefixes that can still grow, finished texts, and candidates that extend prefixes."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.settings import ContractError, at_least, check_settings
from . import sampling
from .sampling import stable_topk

MOST = 100  # of a penalty, and of tokens for each place of a source
IMPOSSIBLE = float("-inf")  # log-probability of an empty slot


@dataclass(frozen=True, kw_only=True)
class Config:
    """`nbest` texts of each sentence, out of a search that keeps `beam` prefixes; `beam=1, length_penalty=0` is greedy.

    A text of n tokens (its end counted) scores log p / ((5 + n) / 6)^length_penalty + coverage · Σ over source
    places of log(min(weight that the place got in all, 1)), as in Wu 2016. It has at most ratio · (length of the
    source) + extra tokens. With a `temperature` the tokens are sampled, not searched for: from the `top_k`
    likeliest, or the fewest that hold `top_p` of the probability.
    """

    beam: int = at_least(1, default=5, most=10_000)
    nbest: int = at_least(1, default=1, most=10_000)
    length_penalty: float = 0.6
    coverage: float = 0.0
    ratio: float = 2.0
    extra: int = at_least(0, default=20, most=100_000)
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int = at_least(0, default=0, most=2**63 - 1)

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("length_penalty", "coverage", "ratio"):
            value = getattr(self, name)
            if not 0 <= value <= MOST:
                raise ContractError(f"beam: expected {name} from 0 to {MOST}, found {value:g}")
        if self.temperature is not None:
            self._check_sampling(self.temperature)
        elif self.nbest > self.beam:
            raise ContractError(
                f"beam: expected nbest of at most beam ({self.beam}), found {self.nbest}; widen the beam"
            )
        elif self.top_k is not None or self.top_p is not None:
            raise ContractError("beam: expected a temperature with top_k or top_p, found none; set temperature=1")

    def _check_sampling(self, temperature: float) -> None:
        if not temperature > 0:
            raise ContractError(
                f"beam: expected temperature above 0, found {temperature}; for the likeliest tokens leave it out and "
                "set beam 1"
            )
        if self.nbest != 1:
            raise ContractError(
                f"beam: expected nbest 1 with a temperature, found {self.nbest}; draw again with another seed, or "
                "leave the temperature out"
            )
        if self.beam != 1:
            raise ContractError(f"beam: expected beam 1 with a temperature, found {self.beam}; draw or search")
        self.sampling()

    def sampling(self) -> sampling.Config:
        """The settings of sampling one token."""
        temperature = 1.0 if self.temperature is None else self.temperature
        return sampling.Config(temperature=temperature, top_k=self.top_k, top_p=self.top_p, seed=self.seed)

    @property
    def greedy(self) -> bool:
        """Whether the search is greedy: one prefix, no penalties, no sampling."""
        return self.beam == 1 and self.length_penalty == 0 and self.coverage == 0 and self.temperature is None

    def limit(self, source: int) -> int:
        """The maximum number of tokens, end included, for a source of `source` places."""
        return max(1, int(self.ratio * source) + self.extra)

    def norm(self, length: int) -> float:
        """The divisor of log p for a text of `length` tokens: at least 1, growing with the length."""
        return ((5 + length) / 6) ** self.length_penalty


class Hypothesis(NamedTuple):
    """One text for one source."""

    tokens: list[int]  # without begin and end
    score: float  # by which n-best lists are sorted
    logprob: float  # Σ log p, the end's too
    finished: bool  # False where it was cut at the limit
    alignment: list[list[float]] | None = None  # of each token, and the end: weights over the valid source places


class Prefixes(NamedTuple):
    """The unfinished prefixes of each sentence; an empty slot has log p -inf."""

    node: Tensor  # N K, the node of its last token in the tree
    logprob: Tensor  # N K


class Texts(NamedTuple):
    """The texts of each sentence; an empty slot scores -inf."""

    node: Tensor  # N K, the node of its last token in the tree
    logprob: Tensor  # N K
    score: Tensor  # N K


class Candidates(NamedTuple):
    """Prefixes extended by one token, likeliest first."""

    parent: Tensor  # N M, the slot of the prefix in its sentence
    token: Tensor  # N M
    logprob: Tensor  # N M, of the extended prefix


def add_finished(
    finished: Texts, nodes: Tensor, candidates: Candidates, score: Tensor, end: int, config: Config
) -> Texts:
    """The `nbest` of the finished texts and the candidates that end, by score (N M); `nodes` (N K) of the prefixes."""
    # the sort is stable: of equal scores the older text stays
    ended = score.masked_fill(candidates.token != end, IMPOSSIBLE)
    new = Texts(nodes.gather(1, candidates.parent), candidates.logprob, ended)
    both = Texts(*(torch.cat([old, other[:, : config.beam]], dim=1) for old, other in zip(finished, new, strict=True)))
    if config.nbest == 1:
        score, order = both.score.max(dim=1, keepdim=True)
    else:
        score, order = both.score.sort(dim=1, descending=True, stable=True)
        score, order = score[:, : config.nbest], order[:, : config.nbest]
    return Texts(both.node.gather(1, order), both.logprob.gather(1, order), score)


def select_unfinished(candidates: Candidates, end: int, count: int) -> Candidates:
    """The `count` likeliest candidates that do not end."""
    unfinished = candidates.logprob.masked_fill(candidates.token == end, IMPOSSIBLE)
    logprob, order = unfinished.sort(dim=1, descending=True, stable=True)
    order = order[:, :count]
    return Candidates(candidates.parent.gather(1, order), candidates.token.gather(1, order), logprob[:, :count])


def expand_prefixes(logprob: Tensor, logp: Tensor, beam: int) -> Candidates:
    """The 2·beam likeliest candidates, of which at least `beam` (if there are so many) do not end."""
    count, width = logprob.shape
    size = logp.shape[1]
    totals = (logprob[..., None] + logp.view(count, width, size)).flatten(1)  # N K·V
    found, index = stable_topk(totals, min(2 * beam, width * size))
    return Candidates(index // size, index % size, found)
