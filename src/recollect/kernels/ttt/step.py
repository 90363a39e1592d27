"""One step of test-time training in one kernel, after what it sees was projected and before what it says is."""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false

from typing import Any

import torch
from torch import Tensor

from ...layers.position import angles
from ...layers.ttt import Model, State, Ttt
from ..decode.block import overlapping, power
from .step_kernels import train_linear, train_mlp

LARGEST = 64 * 256  # numbers of one matrix of the inner model that a program holds


def takes(layer: Ttt) -> bool:
    """Whether the inner model is small enough, and kept in float32."""
    widths = [power(width) for width in layer.config.widths()]
    return max(i * o for i, o in layer.pairs(tuple(widths))) <= LARGEST and layer.out.weight.dtype != torch.float64


class Step:
    """The step of one layer; `seen` (B 3·H·d, and H more where rates are learned) holds q, k, v and the rates asked."""

    def __init__(self, layer: Ttt) -> None:
        config, device = layer.config, layer.out.weight.device
        self.layer, self.heads, self.size = layer, config.heads, config.size
        self.places = config.mini_batch or 1
        self.factors = layer.factors(device).detach().float()
        self.norm = [part.detach() for part in (layer.norm_weight, layer.norm_bias)] if config.norm else None
        angle = angles(torch.arange(self.places, device=device), self.size) if config.rotary else None
        self.turns = None if angle is None else (angle.cos().float(), angle.sin().float())

    def __call__(self, seen: Tensor, state: State, *, in_place: bool = False) -> tuple[Tensor, State]:
        """y (B H·d), in the dtype of `seen`, and the state after, where `in_place` but for the clock in the old one."""
        config, batch = self.layer.config, len(seen)
        y = seen.new_empty(batch, self.heads * self.size)
        given = [(*own.weights, *own.biases) for own in state[:2]]
        model, gathered = ([part.contiguous() for part in own] for own in given)
        early = all(part.is_contiguous() for own in given for part in own)  # a copy made just now must be waited for
        after, left = (own if in_place else [torch.empty_like(part) for part in own] for own in (model, gathered))
        inner = len(state.model.weights)
        layers = [own[i::inner] for i in range(inner) for own in (model, gathered, after, left)]
        gamma, beta = self.norm or (self.factors, self.factors)  # without a norm, never read
        cos, sin = self.turns or (self.factors, self.factors)
        constants: dict[str, Any] = {
            "HEADS": self.heads,
            "SIZE": self.size,
            "WIDTH": power(self.size),
            "PLACES": self.places,
            "STEPS": config.mini_batch is not None,
            "NORM": config.norm,
            "BIASED": self.layer.biased,
            "ASKED": config.learn_rate,
            "ROTARY": self.size // 2 if config.rotary else 0,
            **overlapping(seen.device, early),
        }
        if inner > 1:
            hidden = config.widths()[1]  # of warps 16 take 1.5 times as long on an H200, 4 six times
            constants |= {"HIDDEN": hidden, "WIDE": power(hidden), "num_warps": 8}
        else:
            constants |= {"num_warps": 8 if self.size > 32 else 4}
        kernel: Any = train_mlp if inner > 1 else train_linear
        with torch.cuda.device_of(seen):
            kernel[(batch * self.heads,)](
                *(seen, state.clock.contiguous(), self.factors, gamma, beta, cos, sin, y),
                *(part for group in layers for part in group),
                *(config.rate / self.size, seen.stride(0)),
                **constants,
            )
        weights, biases = (tuple(part) for part in (after[:inner], after[inner:]))
        moved = Model(weights, biases), Model(tuple(left[:inner]), tuple(left[inner:]))
        return y, State(*moved, state.clock + 1)
