"""Frames altered at random, for training: another tempo, voice, loudness, room and noise, and parts masked out.

All of it is arithmetic on log-mel frames, so that recordings need not be decoded anew:

    tempo   the frames of a row lie up to so far nearer or wider: 0.1 is ±10 % (a voice that speaks faster or slower)
    warp    the bands are stretched by up to so much: a shorter or longer vocal tract
    gain    all powers times up to ± so many decibels
    tilt    powers rise or fall over the bands, up to ± so many decibels from the middle to an end: another room
    response  powers rise and fall over the bands, up to ± so many decibels at each of KNOTS places: another microphone
    noise   powers of a noise with a random slope are added, from so many decibels below the row's mean power to 30 more
    shift   silence of up to so many milliseconds before the first frame, or so much of the beginning cut off
    masks   up to so many stretches of frames, or of bands, become the mean of training (SpecAugment)
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import grid_sample, interpolate

from .settings import AugmentSettings, LogMel

QUIETER = 30  # decibels: the range of the noise's level
KEPT = 4  # frames that are left of a row, however it is cut
KNOTS = 5  # bands from the lowest to the highest between which a response is a straight line
DECIBEL = math.log(10) / 10  # of a natural logarithm of power


def augment(
    frames: Tensor, lengths: Tensor, mel: LogMel, settings: AugmentSettings, draw: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """frames: B T D log-mel, lengths: B → the same altered, of other lengths. What lies in the padding is undefined."""
    rows, _, bands = frames.shape
    like = {"dtype": frames.dtype, "device": frames.device}

    def uniform(most: float, *shape: int) -> Tensor:
        return torch.as_tensor(draw.uniform(-most, most, (rows, *shape)), **like)

    if settings.tempo or settings.warp or settings.shift:
        frames, lengths = _move(frames, lengths, mel, settings, draw)
    steps = torch.arange(frames.shape[1], device=frames.device)
    if settings.gain or settings.tilt or settings.response or settings.noise is not None:
        power = (frames.exp() - mel.floor).clamp(min=0)
        slope = torch.linspace(-1, 1, bands, **like)
        level = uniform(settings.gain, 1) + uniform(settings.tilt, 1) * slope  # decibels: B D
        if settings.response:
            knots = uniform(settings.response, KNOTS)[:, None]
            level = level + interpolate(knots, size=bands, mode="linear", align_corners=True)[:, 0]
        power = power * (DECIBEL * level).exp()[:, None]
        if settings.noise is not None:
            inside = (steps < lengths[:, None])[..., None]
            mean = (power * inside).sum(dim=(1, 2)) / (lengths * bands)
            below = torch.as_tensor(settings.noise + draw.uniform(0, QUIETER, rows), **like)
            shape = (DECIBEL * 10 * uniform(1.0, 1) * slope).exp()  # up to ±10 dB over the bands
            chance = torch.as_tensor(draw.standard_exponential(tuple(frames.shape), dtype=np.float32), **like)
            power = power + (mean * (-DECIBEL * below).exp())[:, None, None] * shape[:, None] * chance
        frames = (power + mel.floor).log()
    return frames, lengths


def mask(frames: Tensor, lengths: Tensor, settings: AugmentSettings, draw: np.random.Generator) -> Tensor:
    """Scaled frames (B T D) with stretches of time and of bands at 0, their mean."""
    rows, steps, bands = frames.shape
    if settings.time_masks:
        longest = np.minimum(settings.time_mask, lengths.cpu().numpy() // 4)  # a short row is not lost
        hidden = _stretches(draw, settings.time_masks, longest, lengths.cpu().numpy(), steps)
        frames = frames.masked_fill(torch.from_numpy(hidden).to(frames.device)[..., None], 0)
    if settings.band_masks:
        widest = np.full(rows, min(settings.band_mask, bands // 2))
        hidden = _stretches(draw, settings.band_masks, widest, np.full(rows, bands), bands)
        frames = frames.masked_fill(torch.from_numpy(hidden).to(frames.device)[:, None], 0)
    return frames


def _stretches(draw: np.random.Generator, most: int, longest: np.ndarray, ends: np.ndarray, size: int) -> np.ndarray:
    """Which places lie in one of up to `most` stretches of up to `longest` places before `ends`: rows, size."""
    hidden = np.zeros((len(ends), size), bool)
    count = draw.integers(0, most + 1, len(ends))
    for number in range(most):
        width = draw.integers(0, longest + 1) * (number < count)
        first = draw.integers(0, ends - width + 1)
        place = np.arange(size)
        hidden |= (place >= first[:, None]) & (place < (first + width)[:, None])
    return hidden


def _move(
    frames: Tensor, lengths: Tensor, mel: LogMel, settings: AugmentSettings, draw: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Rows at another tempo and from another beginning, with their bands stretched: read between frames and bands."""
    rows, steps, bands = frames.shape
    like = {"dtype": frames.dtype, "device": frames.device}
    sizes = lengths.cpu().numpy()
    faster = np.exp(draw.uniform(-1, 1, rows) * math.log1p(settings.tempo))  # frames read a frame
    wider = np.exp(draw.uniform(-1, 1, rows) * math.log1p(settings.warp))
    most = round(settings.shift / mel.hop)
    before = draw.integers(-most, most + 1, rows)  # frames of silence, or fewer than 0: cut off
    spoken = np.maximum(1, np.rint(sizes / faster)).astype(np.int64)
    before = np.maximum(before, np.minimum(0, KEPT - spoken))
    found = spoken + before
    longest = int(found.max())
    # in the coordinates of grid_sample: -1 is the first frame or band of the array, 1 its last
    time = (np.arange(longest) - before[:, None]) * faster[:, None]
    silent = torch.from_numpy(time < 0).to(frames.device)
    time = np.clip(time, 0, sizes[:, None] - 1)
    band = np.arange(bands) * wider[:, None]
    grid = torch.empty(rows, longest, bands, 2, **like)
    grid[..., 0] = torch.as_tensor(2 * band / max(1, bands - 1) - 1, **like)[:, None]
    grid[..., 1] = torch.as_tensor(2 * time / max(1, steps - 1) - 1, **like)[..., None]
    moved = grid_sample(frames[:, None], grid, padding_mode="border", align_corners=True)[:, 0]
    moved = moved.masked_fill(silent[..., None], math.log(mel.floor))
    return moved, torch.from_numpy(found).to(lengths)
