"""Batches of recordings and their texts; in training their frames are altered at random."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ...core import ragged
from ...data.sound.augment import augment, mask
from .parts import Part, Plan
from .settings import Config
from .transcribed import Artifacts, pad


class Batch(NamedTuple):
    frames: Tensor  # B S D, zeros in the padding
    lengths: Tensor  # B
    x: Tensor  # B T: begin, y₁, y₂, …
    y: Tensor  # B T: y₁, y₂, …, end, then padding
    sizes: Tensor  # B, characters
    tokens: int  # characters, of decoders with their ends
    number: int

    def to(self, device: torch.device) -> Self:
        return self._replace(
            **{name: getattr(self, name).to(device) for name in ("frames", "lengths", "x", "y", "sizes")}
        )


def make_batch(
    artifacts: Artifacts,
    config: Config,
    part: Part,
    plan: Plan,
    rows: Sequence[int] | np.ndarray,
    number: int,
    draw: np.random.Generator | None,
) -> Batch:
    """Rows of a plan; with `draw` their frames are altered as settings say."""
    sounds = [part.samples_of(plan, int(row)) for row in rows]
    if draw is not None and config.augments:
        frames, lengths = altered_steps(artifacts, config, sounds, draw)
    else:
        frames, lengths = pad([artifacts.steps(sound) for sound in sounds])
    tokenizer = artifacts.tokenizer
    texts = [tokenizer.encode(part.text_of(plan, int(row))).astype(np.int64) for row in rows]
    sizes = torch.tensor([len(text) for text in texts])
    x = torch.full((len(texts), int(sizes.max()) + 1), tokenizer.pad)
    y = x.clone()
    x[:, 0] = tokenizer.begin
    for place, text in enumerate(texts):
        x[place, 1 : len(text) + 1] = y[place, : len(text)] = torch.from_numpy(text)
        y[place, len(text)] = tokenizer.end
    return Batch(frames, lengths, x, y, sizes, int(sizes.sum()) + len(texts), number)


def altered_steps(
    artifacts: Artifacts, config: Config, sounds: Sequence[np.ndarray], draw: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """What a model reads of sounds whose frames are altered at random: B S D, zeros in the padding, and lengths."""
    frames, lengths = pad([artifacts.frames(sound) for sound in sounds])
    frames, lengths = augment(frames, lengths, artifacts.mel, config, draw)
    scaled = mask(artifacts.scaled(frames), lengths, config, draw)
    scaled = scaled.masked_fill(~ragged.mask(lengths, scaled.shape[1])[..., None], 0)
    stack = artifacts.stack
    steps = (lengths // stack).clamp(min=1)  # what became shorter than a step is followed by zeros
    missing = int(steps.max()) * stack - scaled.shape[1]
    scaled = torch.nn.functional.pad(scaled, (0, 0, 0, max(0, missing)))[:, : int(steps.max()) * stack]
    found = scaled.reshape(len(sounds), -1, artifacts.inputs)
    return found.masked_fill(~ragged.mask(steps, found.shape[1])[..., None], 0), steps
