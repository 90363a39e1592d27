"""Writing: one step at a time, from logits to a token, over the contract's one call.

The prompt is read once, rows of unequal length together; after that each token costs one step of the layers,
with room for attention's cache made beforehand. Nothing is read twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.contract import ContractError, check_settings


@dataclass(frozen=True, kw_only=True)
class Config:
    """`greedy` takes the likeliest token; else tokens are drawn at `temperature`, out of the `top_k` likeliest,
    or the fewest that hold `top_p` of the probability. `penalty` above 1 makes what was written less likely.
    """

    length: int = 200
    greedy: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self, least={"length": 0, "seed": 0})
        if not self.temperature > 0:
            raise ContractError(f"generate: expected temperature above 0, found {self.temperature}; 0 is --greedy")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ContractError(f"generate: expected top_p in (0, 1], found {self.top_p}")
        if not self.penalty > 0:
            raise ContractError(f"generate: expected penalty above 0, found {self.penalty}")


@dataclass
class Position:
    """Where the writing stands: the model's state, and its logits for the next token."""

    state: Any
    logits: Tensor  # B V
    written: list[list[int]]  # of each row, prompt included: what the penalty counts
    drawn: int = 0  # how many tokens were drawn, so that a position that was saved goes on with the next draw


@torch.inference_mode()
def read(model: Any, prompts: Sequence[Sequence[int]], capacity: int | None = None) -> Position:
    """Read prompts of any lengths ≥ 1 in one batch."""
    if not prompts or not all(prompts):
        raise ContractError("generate: expected prompts of at least one token each, found an empty one")
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    x = torch.zeros(len(prompts), int(lengths.max()), dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        x[row, : len(prompt)] = torch.tensor(prompt)
    device = device_of(model)
    x, lengths = x.to(device), lengths.to(device)
    room = None if capacity is None else capacity + x.shape[1]
    logits, state = model.ragged(x, lengths, model.initial_state(len(x), capacity=room))
    last = logits[torch.arange(len(x), device=device), lengths - 1]
    return Position(state, last, [list(prompt) for prompt in prompts])


def device_of(model: Any) -> torch.device:
    return next((t.device for t in [*model.parameters(), *model.buffers()]), torch.device("cpu"))


@torch.inference_mode()
def write(model: Any, position: Position, config: Config) -> Iterator[list[int]]:
    """Yield one token a row, `length` times; `position` moves along and can be saved at any time.

    Every row draws from its own generator, so a row's text does not depend on its neighbours.
    """
    draws = [torch.Generator().manual_seed(config.seed) for _ in position.written]
    for draw in draws:
        torch.rand(position.drawn, generator=draw)
    for _ in range(config.length):
        tokens = choose(position.logits, position.written, config, draws)
        position.drawn += not config.greedy
        for row, token in enumerate(tokens):
            position.written[row].append(token)
        x = torch.tensor(tokens, device=position.logits.device)[:, None]
        logits, position.state = model(x, position.state)
        position.logits = logits[:, 0]
        yield tokens


def choose(logits: Tensor, written: list[list[int]], config: Config, draws: list[torch.Generator]) -> list[int]:
    """The next token of each row."""
    logits = logits.float().cpu()
    if config.penalty != 1:
        logits = logits - logits.logsumexp(dim=-1, keepdim=True)  # log-probabilities: all ≤ 0
        for row, tokens in enumerate(written):
            seen = torch.tensor(sorted(set(tokens)), dtype=torch.int64)
            logits[row, seen] = logits[row, seen] * config.penalty
    if config.greedy:
        return logits.argmax(dim=-1).tolist()
    logits = logits / config.temperature
    ranked, order = logits.sort(dim=-1, descending=True, stable=True)
    shares = ranked.softmax(dim=-1)
    keep = torch.ones_like(shares, dtype=torch.bool)
    if config.top_k is not None:
        keep[:, config.top_k :] = False
    if config.top_p is not None:
        keep &= shares.cumsum(dim=-1) - shares < config.top_p  # the likeliest always stays
    shares = shares * keep
    threshold = torch.stack([torch.rand((), generator=draw) for draw in draws])
    sums = shares.cumsum(dim=-1)
    picked = (sums < threshold[:, None] * sums[:, -1:]).sum(dim=-1)
    picked = torch.minimum(picked, keep.sum(dim=-1) - 1)
    return order.gather(1, picked[:, None])[:, 0].tolist()
