"""Log-mel frames by torch.stft: of a whole recording, or chunk by chunk."""

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .settings import LogMel

if TYPE_CHECKING:
    import numpy as np

BLOCK = 1 << 20  # numbers of the spectra that are in memory at a time


def compute_frames(mel: LogMel, samples: "np.ndarray | Tensor") -> Tensor:
    """The frames of samples: T bands."""
    return stream_frames(mel, samples, None)[0]


def stream_frames(mel: LogMel, samples: "np.ndarray | Tensor", tail: Tensor | None) -> tuple[Tensor, Tensor]:
    """The frames that further samples complete, and the samples from the start of the next one on."""
    x = torch.as_tensor(samples).to(torch.float32)
    if tail is not None:
        x = torch.cat([tail.to(x), x])
    count, hop = mel.count(len(x)), mel.hop_samples
    some = max(1, BLOCK // mel.size)  # frames
    blocks = [
        _frames(mel, x[first * hop : (min(first + some, count) - 1) * hop + mel.window_samples])
        for first in range(0, count, some)
    ]
    frames = torch.cat(blocks) if blocks else x.new_zeros(0, mel.bands)
    return frames, x[count * hop :].clone()


def _frames(mel: LogMel, x: Tensor) -> Tensor:
    """x: samples of at least one window → T bands."""
    window, bands = (part.to(x.device) for part in _parts(mel))
    # the window lies at the start of each transform; what is appended is read by its zeros alone
    padded = torch.nn.functional.pad(x, (0, mel.size - mel.window_samples))
    spectrum = torch.stft(
        padded, mel.size, mel.hop_samples, mel.size, window, center=False, onesided=True, return_complex=True
    )
    power = spectrum.abs().square() / mel.window_samples  # F T
    return (power.transpose(0, 1) @ bands + mel.floor).log()


@lru_cache(maxsize=16)
def _parts(mel: LogMel) -> tuple[Tensor, Tensor]:
    """The window, filled up with zeros to the size of a transform, and the weight of each bin in each band: F bands."""
    window = torch.zeros(mel.size)
    window[: mel.window_samples] = torch.hann_window(mel.window_samples)
    hertz = torch.arange(mel.size // 2 + 1, dtype=torch.float64) * (mel.rate / mel.size)
    low, peak, high = torch.tensor(mel.edges(), dtype=torch.float64).unbind(dim=1)
    up = (hertz[:, None] - low) / (peak - low)
    down = (high - hertz[:, None]) / (high - peak)
    return window, torch.minimum(up, down).clamp(min=0).to(torch.float32)
