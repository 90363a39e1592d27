"""A mixture of two language models: p = λ·p₁ + (1 − λ)·p₂, each with its own memory.

STATE   the states of both
UPDATE  each model's own
READ    log(λ·p₁ + (1 − λ)·p₂)
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...core.contract import ContractError, Cost, Memory


@dataclass(frozen=True, kw_only=True)
class Config:
    """The folders of the two runs."""

    of: tuple[str, str]


class Mixture(nn.Module):
    """Two models over one vocabulary. `share` is the first one's."""

    share: Tensor

    def __init__(self, first: nn.Module, second: nn.Module, share: float = 0.5) -> None:
        super().__init__()
        if not 0 < share < 1:
            raise ContractError(f"mixture: expected a share between 0 and 1, found {share}")
        self.first, self.second = first, second
        self.register_buffer("share", torch.tensor(share, dtype=torch.float64))

    def stored(self) -> dict[str, Tensor]:
        """What a run folder holds: the share alone, since both models are runs of their own."""
        return {"share": self.share}

    def check_stored(self, tensors: dict[str, Tensor]) -> None:
        share = tensors.get("share", torch.tensor([]))
        if len(tensors) != 1 or share.dtype != torch.float64 or share.shape != () or not 0 < float(share) < 1:
            raise ContractError(f"expected the share of a mixture, between 0 and 1, found {list(tensors)[:3]}")

    def load_stored(self, tensors: dict[str, Tensor]) -> None:
        self.share.copy_(tensors["share"])

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> tuple[Any, Any]:
        models: list[Any] = [self.first, self.second]
        return tuple(model.initial_state(batch, memory, like, capacity) for model in models)  # type: ignore[return-value]

    def check(self, x: Tensor, state: Any) -> None:
        """The checks of both models; one without any checks its input when it is called."""
        own = [None, None] if state is None else state
        for model, part in zip((self.first, self.second), own, strict=True):
            if check := getattr(model, "check", None):
                check(x, part)

    def diagnose_state(self, state: Any) -> str | None:
        """Of the state of either model."""
        models: list[Any] = [self.first, self.second]
        return next(filter(None, (model.diagnose_state(own) for model, own in zip(models, state, strict=True))), None)

    def forward(self, x: Tensor, state: Any = None, memory: Memory | None = None) -> tuple[Tensor, Any]:
        """x: B T → log-probabilities B T V."""
        return self._both(x, state, lambda model, own: model(x, own))

    def unroll(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self._both(x, state, lambda model, own: model.unroll(x, own))

    def ragged(self, x: Tensor, lengths: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self._both(x, state, lambda model, own: model.ragged(x, lengths, own))

    def nll(self, x: Tensor, targets: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        first, second = self.initial_state(len(x)) if state is None else state
        a, first = self.first.nll(x, targets, first)  # type: ignore[operator]
        b, second = self.second.nll(x, targets, second)  # type: ignore[operator]
        return -mix(-a, -b, float(self.share)), (first, second)

    def _both(self, x: Tensor, state: Any, run: Any) -> tuple[Tensor, Any]:
        first, second = self.initial_state(len(x)) if state is None else state
        a, first = run(self.first, first)
        b, second = run(self.second, second)
        return mix(a.log_softmax(dim=-1), b.log_softmax(dim=-1), float(self.share)), (first, second)

    @property
    def width(self) -> int:
        return self.first.width  # type: ignore[return-value]

    def like(self) -> Tensor:
        return next((t for t in self.parameters()), torch.empty(0))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        a, b = (model.cost(batch, steps, source) for model in (self.first, self.second))  # type: ignore[operator]
        return Cost(a.flops + b.flops, a.state_bytes + b.state_bytes)


def mix(a: Tensor, b: Tensor, share: float) -> Tensor:
    """log(share·eᵃ + (1 − share)·eᵇ)."""
    return torch.logaddexp(a.double() + math.log(share), b.double() + math.log1p(-share))


def best_share(a: Tensor, b: Tensor, least: float = 1e-6) -> float:
    """The share of the first model that gives the least loss; a and b are the models' nats on the same tokens.

    The loss is convex in the share, so its slope shows the way. Neither share falls below `least`, which costs
    at most that much where one model has nothing to add.
    """
    ratio = (b.double() - a.double()).exp()  # p₁/p₂ of each token
    low, high = least, 1 - least
    for _ in range(50):
        middle = (low + high) / 2
        slope = ((ratio - 1) / (middle * ratio + 1 - middle)).nan_to_num(nan=1 / middle).mean()
        low, high = (middle, high) if slope > 0 else (low, middle)
    return (low + high) / 2
