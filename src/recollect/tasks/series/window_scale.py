"""Scales of windows: what is taken from their past and given back to what is predicted, and widths that never fall."""

import torch
from torch import Tensor

from .plan import IntervalName, NormaliseName


def window_scale(past: Tensor, kind: NormaliseName) -> tuple[Tensor, Tensor]:
    """The shift and scale of each window and series: B 1 C."""
    if kind == "last":
        shift = past[:, -1:]
    elif kind == "none":
        shift = torch.zeros_like(past[:, -1:])
    else:
        shift = past.mean(dim=1, keepdim=True)
    if kind != "window":
        return shift, torch.ones_like(shift)
    return shift, (past.var(dim=1, keepdim=True, correction=0) + 1e-5).sqrt()


def stretch(found: Tensor, shift: Tensor, scale: Tensor, intervals: IntervalName) -> Tensor:
    """What was predicted (B H C P) in the scale of a window, in that of the data."""
    shift, scale = shift[..., None], scale[..., None]
    if intervals != "gaussian":
        return found * scale + shift
    return torch.cat([found[..., :1] * scale + shift, found[..., 1:] + scale.log()], dim=-1)


def running_max(x: Tensor) -> Tensor:
    """The largest value up to each point of the second axis (as cummax, which ONNX has not)."""
    reach, count = 1, x.shape[1]
    while reach < count:
        x = torch.cat([x[:, :reach], torch.maximum(x[:, reach:], x[:, :-reach])], dim=1)
        reach *= 2
    return x
