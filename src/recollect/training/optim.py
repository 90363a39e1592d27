"""Optimisers, schedules, clipping, and an average of the weights."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..core.typed import Infinite
from .settings import Settings
from .sharded import whole


def build_optimizer(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """Matrices decay, vectors (biases, norms) do not."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.optimizer == "adamw":
        fused = all(p.device.type in ("cuda", "cpu") for p in parameters)
        return torch.optim.AdamW(groups, lr=settings.lr, betas=(settings.beta1, settings.beta2), fused=fused)
    # averaged SGD is plain SGD under an `Average`; torch's own would take each step at the rate of the step before
    return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum)


def sample_state(settings: Settings) -> dict[str, Any]:
    """What the optimiser holds of a matrix: tensors of its shape, single numbers (of no axes), or nothing."""
    matrix = nn.Parameter(torch.zeros(2, 3))
    matrix.grad = torch.zeros(2, 3)
    optimizer = build_optimizer(nn.ParameterList([matrix]), settings)
    optimizer.step()
    return dict(optimizer.state[matrix])


@dataclass(frozen=True, kw_only=True)
class ScheduleState:
    """What a checkpoint notes of a schedule."""

    scale: float
    worse: int = field(metadata={"least": 0})
    best: float | Infinite  # infinite before the first evaluation


class Schedule:
    """The learning rate at a step; `plateau` lowers it when an evaluation is no better."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.scale = 1.0
        self.worse = 0
        self.best = math.inf

    def rate(self, step: int, share: float = 0.0) -> float:
        """At a step; `share` is how much of the budget is used, which a cosine follows where that is not in steps."""
        s = self.settings
        warm = min(1.0, (step + 1) / s.warmup) if s.warmup else 1.0
        if s.schedule == "inverse-sqrt":
            start = max(1, s.warmup)
            return s.lr * min((step + 1) / start, math.sqrt(start / (step + 1)))
        if s.schedule == "cosine":
            total = s.total_steps
            done = share if total is None else max(0, step - s.warmup) / max(1, total - s.warmup)
            done = min(1.0, done)
            return s.lr * warm * (s.floor + (1 - s.floor) * 0.5 * (1 + math.cos(math.pi * done)))
        return s.lr * warm * self.scale

    def evaluated(self, value: float) -> None:
        if self.settings.schedule != "plateau":
            return
        if value < self.best:
            self.best, self.worse = value, 0
            return
        self.worse += 1
        if self.worse > self.settings.plateau_patience:
            self.scale *= self.settings.plateau_factor
            self.worse = 0

    def to_json(self) -> dict[str, float]:
        return {"scale": self.scale, "worse": self.worse, "best": self.best}

    def restore(self, state: ScheduleState) -> None:
        self.scale, self.worse, self.best = state.scale, state.worse, state.best


def clip(model: nn.Module, settings: Settings) -> Tensor:
    """Clip the gradients as asked; returns their norm before."""
    parameters = [p for p in model.parameters() if p.grad is not None]
    if settings.clip is not None and settings.clip_by == "norm":
        return whole(nn.utils.clip_grad_norm_(parameters, settings.clip))
    norm = whole(nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
    if settings.clip is not None:
        nn.utils.clip_grad_value_(parameters, settings.clip)
    return norm


class Average:
    """An average of the weights: exponential (`ema`), or of all steps since it began (averaged SGD)."""

    def __init__(self, model: nn.Module, decay: float | None) -> None:
        self.decay = decay
        self.count = 0
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.count += 1
        # early on an exponential average would remember the initial weights: let it catch up
        plain = 1 / self.count
        keep = 1 - max(1 - self.decay, plain) if self.decay is not None else 1 - plain
        mine, theirs = list(self.weights.values()), [p.detach() for _, p in model.named_parameters()]
        torch._foreach_lerp_(mine, theirs, 1 - keep)  # pyright: ignore[reportPrivateImportUsage]

    def restore(self, weights: dict[str, Tensor], count: int) -> None:
        """The average of a checkpoint, whose tensors are those of this one."""
        self.count = count
        for name, tensor in weights.items():
            self.weights[name].copy_(tensor)

    def swapped(self, model: nn.Module) -> "Swapped":
        """`with average.swapped(model):` the model has the averaged weights."""
        return Swapped(model, self)


class Swapped:
    def __init__(self, model: nn.Module, average: Average | None) -> None:
        self.model, self.average = model, average

    def __enter__(self) -> None:
        self._swap()

    def __exit__(self, *_: object) -> None:
        self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        if self.average is None:
            return
        for name, parameter in self.model.named_parameters():
            other = self.average.weights[name]
            before = parameter.detach().clone()
            parameter.copy_(other)
            other.copy_(before)
