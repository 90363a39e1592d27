"""Rows of a split on the device, from which batches are taken."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...core import ragged
from ...data.sound.augment import augment, mask
from .labelled import Artifacts, Part
from .settings import Config


class Batch(NamedTuple):
    x: Tensor  # B T tokens, or B T D numbers
    lengths: Tensor | None  # B; None: every row has T steps
    y: Tensor  # B
    tokens: int  # or steps, padding left out
    number: int = 0


class Rows:
    """A split on the device, from which any rows are taken at once."""

    def __init__(self, part: Part, device: torch.device) -> None:
        self.device = device
        self.sizes = np.asarray(part.lengths)
        self.images = part.values.ndim == 3
        values = (
            part.values if part.values.dtype in (np.uint8, np.float32) or self.images else part.values.astype(np.int32)
        )
        self.values = torch.from_numpy(np.ascontiguousarray(values)).to(device)
        self.labels = torch.from_numpy(part.labels.astype(np.int64)).to(device)
        if not self.images:
            self.lengths = torch.from_numpy(self.sizes.astype(np.int64)).to(device)
            self.starts = self.lengths.cumsum(0) - self.lengths

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, numbers: np.ndarray, rows: Tensor | None = None, number: int = 0, seed: int | None = None) -> Batch:
        """The rows with these numbers; `rows` are the same on the device, where they are there already.

        `seed` is that of what is drawn anew each time, for training; without it rows are as they are.
        """
        sizes = self.sizes[numbers]
        rows = torch.from_numpy(numbers).to(self.device) if rows is None else rows
        if self.images:
            return Batch(self.values[rows].float() / 255, None, self.labels[rows], int(sizes.sum()), number)
        lengths = self.lengths[rows]
        return Batch(
            self.gather(rows, lengths, int(sizes.max())).long(), lengths, self.labels[rows], int(sizes.sum()), number
        )

    def gather(self, rows: Tensor, lengths: Tensor, longest: int) -> Tensor:
        """What lies end to end as B T …: beyond a row's end stands its last step again, which nothing reads."""
        steps = torch.arange(longest, device=self.device)
        return self.values[self.starts[rows, None] + torch.minimum(steps, lengths[:, None] - 1)]


class SoundRows(Rows):
    """Recordings: frames on one scale, altered at random in training."""

    def __init__(self, part: Part, device: torch.device, artifacts: Artifacts, config: Config) -> None:
        super().__init__(part, device)
        assert artifacts.sound is not None
        self.sound, self.config = artifacts.sound, config
        self.mean, self.deviation = (own.to(device) for own in artifacts.sound.scale())

    def take(self, numbers: np.ndarray, rows: Tensor | None = None, number: int = 0, seed: int | None = None) -> Batch:
        sizes = self.sizes[numbers]
        rows = torch.from_numpy(numbers).to(self.device) if rows is None else rows
        lengths = self.lengths[rows]
        frames = self.gather(rows, lengths, int(sizes.max()))
        if seed is None or not self.config.augments:
            return Batch(self.scale(frames, lengths), lengths, self.labels[rows], int(sizes.sum()), number)
        draw = np.random.default_rng([seed, number])
        frames, lengths = augment(frames, lengths, self.sound.mel, self.config, draw)
        x = mask(self.scale(frames, lengths), lengths, self.config, draw)
        return Batch(x, lengths, self.labels[rows], int(lengths.sum()), number)

    def scale(self, frames: Tensor, lengths: Tensor) -> Tensor:
        """Frames (B T D) as the model reads them."""
        if self.sound.level:
            inside = ragged.mask(lengths, frames.shape[1])[..., None]
            sums = frames.masked_fill(~inside, 0).sum(dim=(1, 2), keepdim=True)
            frames = frames - sums / (lengths * frames.shape[2])[:, None, None]
        return (frames - self.mean) / self.deviation
