"""One step of test-time training in one kernel: from the projections q, k, v to the output before its projection."""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..decode.block import overlapping, power
from .step_kernels import train_linear, train_mlp

LARGEST = 64 * 256  # numbers of one matrix of the inner model that a program holds


class Settings(NamedTuple):
    widths: tuple[int, ...]  # of the inner model, from input to output
    heads: int
    places: int  # b, steps of a mini-batch
    steps: bool  # whether the inner model steps at the end of a mini-batch
    rate: float  # η, or its largest value where it is learned
    learned_rate: bool
    biased: bool


def fits(widths: tuple[int, ...]) -> bool:
    """Whether a program can hold an inner model of these widths."""
    return max(i * o for i, o in pairwise(power(width) for width in widths)) <= LARGEST


class Step:
    """The step of one layer; factors: ρ of each place; norm: γ and β, H 1 d each; rotation: cos and sin, places d/2."""

    def __init__(
        self,
        settings: Settings,
        factors: Tensor,
        norm: tuple[Tensor, Tensor] | None,
        rotation: tuple[Tensor, Tensor] | None,
    ) -> None:
        self.settings, self.factors, self.norm, self.rotation = settings, factors, norm, rotation

    def __call__(
        self, seen: Tensor, model: Sequence[Tensor], gathered: Sequence[Tensor], clock: Tensor, *, in_place: bool
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """y (B H·d) in the dtype of `seen`, the inner model and the gathered gradient after the step.

        `seen` (B 3·H·d, and H more where rates are learned) holds q, k, v and the logits of the rates; model and
        gradient are the matrices of the inner layers, then their biases, overwritten where `in_place`.
        """
        settings, batch, size = self.settings, len(seen), self.settings.widths[0]
        y = seen.new_empty(batch, settings.heads * size)
        early = all(part.is_contiguous() for part in (*model, *gathered))  # a copy made just now must be waited for
        model, gathered = ([part.contiguous() for part in own] for own in (model, gathered))
        after, left = (own if in_place else [torch.empty_like(part) for part in own] for own in (model, gathered))
        inner = len(settings.widths) - 1
        layers = [own[i::inner] for i in range(inner) for own in (model, gathered, after, left)]
        gamma, beta = self.norm or (self.factors, self.factors)  # without a norm, never read
        cos, sin = self.rotation or (self.factors, self.factors)
        constants: dict[str, Any] = {
            "HEADS": settings.heads,
            "SIZE": size,
            "WIDTH": power(size),
            "PLACES": settings.places,
            "STEPS": settings.steps,
            "NORM": self.norm is not None,
            "BIASED": int(settings.biased),
            "LEARNED_RATE": settings.learned_rate,
            "ROTARY": size // 2 if self.rotation else 0,
            **overlapping(seen.device, early),
        }
        if inner > 1:
            hidden = settings.widths[1]  # of warps 16 take 1.5 times as long on an H200, 4 six times
            constants |= {"HIDDEN": hidden, "WIDE": power(hidden), "num_warps": 8}
        else:
            constants |= {"num_warps": 8 if size > 32 else 4}
        kernel: Any = train_mlp if inner > 1 else train_linear
        with torch.cuda.device_of(seen):
            kernel[(batch * settings.heads,)](
                *(seen, clock.contiguous(), self.factors, gamma, beta, cos, sin, y),
                *(part for group in layers for part in group),
                *(settings.rate, seen.stride(0)),
                **constants,
            )
        return y, after, left
