"""The bag of words: naive Bayes, which counts which words go with which label and knows nothing of their order.

STATE   for each label, the sum of log P(word | label) over what was seen
UPDATE  add those of the next word
READ    answer = log P(label) + that sum: after step t, what it would say had the text ended there

P(word | label) = (1 + how often the word stands in texts of that label) / (vocabulary + words in such texts), and
P(label) is the label's share of the texts. Nothing is trained; it is counted once, and is the baseline of every text.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...core import ragged
from ...core.contract import Cost, Memory
from ...core.settings import check_settings
from ...models.tokens import TokenModel

BLOCK = 1 << 22  # tokens counted at a time


@dataclass(frozen=True, kw_only=True)
class Config:
    inputs: int  # the size of the vocabulary
    outputs: int

    def __post_init__(self) -> None:
        check_settings(self)

    def build(self) -> "Bag":
        return Bag(self)


class State(NamedTuple):
    sums: Tensor  # B C


class Bag(TokenModel[State]):
    """Multinomial naive Bayes with one added to each count."""

    noun = "bag"

    words: Tensor  # V C, log P(word | label)
    prior: Tensor  # C, log P(label)

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim = self.vocab = config.inputs
        self.width = config.outputs
        self.register_buffer("words", torch.full((config.inputs, config.outputs), -float(np.log(config.inputs))))
        self.register_buffer("prior", torch.full((config.outputs,), -float(np.log(config.outputs))))

    def train_on(self, tokens: np.ndarray, lengths: np.ndarray, labels: np.ndarray) -> "Bag":
        """Count texts: their tokens end to end, how many each has, and their labels."""
        size, classes = self.config.inputs, self.config.outputs
        counts = np.ones((size, classes))
        owner = np.repeat(np.asarray(labels), lengths)  # the label of each token
        for at in range(0, len(tokens), BLOCK):
            pairs = tokens[at : at + BLOCK].astype(np.int64) * classes + owner[at : at + BLOCK]
            counts += np.bincount(pairs, minlength=size * classes).reshape(size, classes)
        texts = np.bincount(labels, minlength=classes).astype(np.float64)
        self.words.copy_(torch.from_numpy(np.log(counts / counts.sum(axis=0))))
        # a label of a run that these texts lack is unlikely, not impossible
        self.prior.copy_(torch.from_numpy(np.log(np.maximum(texts, 0.5) / texts.sum())))
        return self

    def entries(self) -> int:
        """Numbers stored."""
        return self.words.numel() + self.prior.numel()

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> State:
        return State(self.like(like).new_zeros(batch, self.width))

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """x: B T tokens → answers B T C."""
        return self.add(self.words[x], self.initial_state(len(x)) if state is None else state)

    def ragged(self, x: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
        inside = ragged.mask(lengths, x.shape[1])
        return self.add(self.words[x].masked_fill(~inside[..., None], 0), state)

    def add(self, found: Tensor, state: State) -> tuple[Tensor, State]:
        sums = state.sums[:, None] + found.cumsum(dim=1)
        return sums + self.prior, State(sums[:, -1].clone())

    def last(self, x: Tensor, lengths: Tensor) -> Tensor:
        """The answer about each row as a whole: B C."""
        _, state = ragged.run(self, x, lengths)
        return state.sums + self.prior

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        return Cost(0, batch * self.width * self.element_size())
