"""A residual CNN (He 2016) that leaves a picture as a Memory: one place for each cell of its last grid of features.

    B 3 H W → a convolution that halves it → for every further halving: residual blocks, twice the channels →
    Memory of values B rows·columns D, with `shape` (rows, columns)

Decoders read it like the Memory of a sentence. Attention ignores where cells lie, so the row and column of each are
added as sinusoids.

Norms are over groups of channels (Wu 2018), not over the batch: a picture's features then do not depend on its
neighbours, in training neither, and there are no running averages that a mean of weights would have to guess.
"""

from dataclasses import dataclass
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn.functional import dropout, relu

from ...core.contract import ContractError, Memory, check_settings
from ...core.settings import MOST_LAYERS, at_least
from ...layers.position import sinusoids

LARGEST_GRID = 8  # a picture is halved until its grid has at most so many cells a side
GROUP = 8  # channels of a group
WIDEST = 512  # channels; they double up to this
MOST_PLANES = 64


@dataclass(frozen=True, kw_only=True)
class Config:
    """`channels` after the first convolution, doubled at every halving; `blocks` of two convolutions at each size.

    `self_attention` puts a block of it (Zhang 2019) where the grid is twice as fine as the last one. With `near` the
    second convolution of each block on the last grid is 1 × 1, so that a cell knows what lies in and beside it (23 of
    48 pixels a side in place of 39), and attention must go near a thing to tell what it is.
    """

    pixels: int = 96
    channels: int = 16
    blocks: int = at_least(1, default=2, most=MOST_LAYERS)
    self_attention: bool = False
    near: bool = False
    dropout: float = 0.0
    planes: int = at_least(1, default=3, most=MOST_PLANES)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.channels % GROUP:
            raise ContractError(f"vision: expected channels to be a multiple of {GROUP}, found {self.channels}")

    def build(self) -> "Vision":
        return Vision(self)

    @property
    def halvings(self) -> int:
        """How often a picture is halved; at least once."""
        side, count = self.pixels, 0
        while count == 0 or side > LARGEST_GRID:
            side, count = (side + 1) // 2, count + 1
        return count


class Residual(nn.Module):
    """x + two convolutions of x, the second of `size`; a 1×1 convolution brings x along where its shape changes."""

    def __init__(self, inside: int, outside: int, stride: int, size: int = 3) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, size, 1, size // 2, bias=False)
        self.norm_first, self.norm_second = norm(outside), norm(outside)
        same = inside == outside and stride == 1
        self.along = nn.Identity() if same else nn.Conv2d(inside, outside, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = relu(self.norm_first(self.first(x)))
        return relu(self.along(x) + self.norm_second(self.second(y)))


class SelfAttention(nn.Module):
    """Self-attention over the cells: x + gate · Σ softmax(q·k) v, the gate learned and 0 at first (Zhang 2019)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        narrow = max(1, channels // 8)
        self.query, self.key = nn.Conv2d(channels, narrow, 1), nn.Conv2d(channels, narrow, 1)
        self.value = nn.Conv2d(channels, channels, 1)
        self.gate = nn.Parameter(torch.zeros(()))

    def weights(self, x: Tensor) -> Tensor:
        """B S S: how much of each cell every cell takes."""
        return (self.query(x).flatten(2).mT @ self.key(x).flatten(2)).softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.value(x).flatten(2) @ self.weights(x).mT  # B C S
        return x + self.gate * seen.unflatten(2, x.shape[2:])


class Vision(nn.Module):
    """Pictures in, a Memory out: B 3 H W of numbers from 0 to 1."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        channels = config.channels
        self.stem = nn.Conv2d(config.planes, channels, 3, 2, 1, bias=False)
        self.stem_norm = norm(channels)
        stages: list[nn.Module] = []
        for level in range(1, config.halvings):
            if config.self_attention and level == config.halvings - 1:
                stages.append(SelfAttention(channels))
            wider = min(2 * channels, max(WIDEST, config.channels))
            size = 1 if config.near and level == config.halvings - 1 else 3
            blocks = [Residual(channels, wider, 2, size)]
            blocks += [Residual(wider, wider, 1, size) for _ in range(config.blocks - 1)]
            stages.append(nn.Sequential(*blocks))
            channels = wider
        if config.self_attention and config.halvings == 1:
            stages.append(SelfAttention(channels))
        self.stages = nn.Sequential(*stages)
        self.last_norm = nn.LayerNorm(channels)
        self.width = channels
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def features(self, images: Tensor) -> Tensor:
        """B 3 H W → B C rows columns."""
        self.check(images)
        # numbers around 0 and not far from ±1, whatever the picture
        return self.stages(relu(self.stem_norm(self.stem((images - 0.5) / 0.25))))

    def forward(self, images: Tensor) -> Memory:
        grid = self.features(images)
        rows, columns = grid.shape[2:]
        values = self.last_norm(rearrange(grid, "b c h w -> b (h w) c"))
        values = values + places(rows, columns, self.width, values)
        values = dropout(values, self.config.dropout, self.training)
        valid = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)
        return Memory(values, valid, None, (rows, columns))

    def check(self, images: Tensor) -> None:
        planes = self.config.planes
        fits = images.dim() == 4 and images.shape[1] == planes and min(images.shape[2:]) >= 2
        if not fits or not images.is_floating_point():
            raise ContractError(
                "vision: expected pictures as numbers from 0 to 1 of shape "
                f"(batch, {planes}, height ≥ 2, width ≥ 2), "
                f"found {images.dtype} {tuple(images.shape)}"
            )

    def flops(self, batch: int, pixels: int | None = None) -> int:
        """Of the matrix products over square pictures."""
        side = (pixels or self.config.pixels) + 1 >> 1
        total = side**2 * self.stem.weight.numel()
        for stage in self.stages:
            if isinstance(stage, SelfAttention):
                products = sum(p.numel() for p in stage.parameters() if p.dim() > 1)
                pairs = side**4 * (stage.query.out_channels + stage.value.out_channels)
                total += side**2 * products + pairs
            else:
                side = side + 1 >> 1
                total += side**2 * sum(p.numel() for p in stage.parameters() if p.dim() > 1)
        return 2 * batch * total

    def grid(self, pixels: int | None = None) -> tuple[int, int]:
        """Rows and columns of the last grid of a square picture, by default of the size that it was made for."""
        side = pixels or self.config.pixels
        for _ in range(self.config.halvings):
            side = (side + 1) // 2
        return side, side

    def cells(self, pixels: int | None = None) -> int:
        """Places of the Memory of a square picture, by default of the size that it was made for."""
        rows, columns = self.grid(pixels)
        return rows * columns


def norm(channels: int) -> Any:
    return nn.GroupNorm(channels // GROUP, channels)


def places(rows: int, columns: int, dim: int, like: Tensor) -> Tensor:
    """rows·columns D: half of the numbers encode a cell's row, the others its column."""
    half = dim // 2
    down = sinusoids(torch.arange(rows, device=like.device), half)[:, None].expand(-1, columns, -1)
    across = sinusoids(torch.arange(columns, device=like.device), dim - half)[None].expand(rows, -1, -1)
    return torch.cat([down, across], dim=-1).flatten(0, 1).to(like.dtype)
