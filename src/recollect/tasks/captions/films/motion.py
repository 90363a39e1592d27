"""What moves from one frame to the next, as planes beside the colours of each frame.

    differences   Δ = frame − the frame before it, of each colour
    flow          Δ, and the flow along the slopes ∇ of both frames' mean, −Σ Δ·∇ / (Σ |∇|² + ε) over the colours (Horn
                  and Schunck 1981): how many pixels an edge moved to the right and down, whatever its colour and ground

Before its first frame a film is taken to have stood still.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

MotionName = Literal["none", "differences", "flow"]
PLANES = {"none": 3, "differences": 6, "flow": 8}
EPSILON = 0.01  # of squared slopes: what is flatter is mostly noise


def with_motion(frames: Tensor, kind: MotionName) -> Tensor:
    """B T 3 H W → B T C H W: each frame, and what moved since the one before it around 0.5, which a CNN takes for 0."""
    if kind == "none":
        return frames
    before = frames[:, (torch.arange(frames.shape[1], device=frames.device) - 1).clamp(min=0)]
    change = frames - before
    if kind == "differences":
        return torch.cat([frames, 0.5 + change], dim=2)
    across, down = slopes((frames + before) / 2)
    steep = (across.square() + down.square()).sum(dim=2) + EPSILON
    flow = torch.stack([-(change * slope).sum(dim=2) / steep for slope in (across, down)], dim=2)
    return torch.cat([frames, 0.5 + change, 0.5 + 0.25 * flow], dim=2)


def slopes(pictures: Tensor) -> tuple[Tensor, Tensor]:
    """… H W → how much each number grows from one pixel to the next, from left to right and downwards."""
    wide = pad(pictures.flatten(0, -3), (1, 1, 1, 1), mode="replicate").unflatten(0, pictures.shape[:-2])
    across = (wide[..., 1:-1, 2:] - wide[..., 1:-1, :-2]) / 2
    down = (wide[..., 2:, 1:-1] - wide[..., :-2, 1:-1]) / 2
    return across, down
