"""The scale of a window's own: what is taken from its past, and given back to what is predicted."""

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
