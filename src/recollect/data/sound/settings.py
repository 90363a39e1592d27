"""Settings of log-mel frames, and the error of sound; without torch and numpy, as settings are."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.settings import ContractError, at_least, check_settings
from ..errors import DataError
from ..limits import SOUND_RATES

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

BANDS = 256  # at most
WINDOW = 1_000  # milliseconds at most


class SoundError(DataError):
    """A file that cannot be read as a recording."""


@dataclass(frozen=True, kw_only=True)
class LogMel:
    """How samples become frames: every `hop` milliseconds the logarithm of the power in `bands` bands over `window` ms.

    The bands are triangles of equal width on the mel scale from `low` to `high` Hz (None: half the rate). `floor` is
    added to each band's power (samples lie in ±1) before the logarithm is taken, so that silence has one.

    Frame t covers the samples from t·hop up to t·hop + window and no others: nothing is put before the first sample or
    after the last. The frames of chunks are therefore those of the whole (see `stream`).
    """

    rate: int = 8_000
    window: float = 25.0
    hop: float = 10.0
    bands: int = 40
    low: float = 60.0
    high: float | None = None
    floor: float = 1e-5

    def __post_init__(self) -> None:
        check_settings(self)
        least, most = SOUND_RATES
        if not least <= self.rate <= most:
            raise ContractError(f"frames: expected a rate from {least:,} to {most:,} a second, found {self.rate:,}")
        if not (0 < self.hop <= self.window <= WINDOW and self.hop_samples):
            raise ContractError(
                f"frames: expected 0 < hop ≤ window ≤ {WINDOW:,} ms, at least a sample each, found hop={self.hop} and "
                f"window={self.window}"
            )
        if not 0 <= self.low < self.top <= self.rate / 2:
            raise ContractError(
                f"frames: expected 0 ≤ low < high ≤ {self.rate / 2:g} Hz, half the rate, found low={self.low:g} and "
                f"high={self.top:g}"
            )
        if not 0 < self.floor < 1:
            raise ContractError(f"frames: expected floor in (0, 1), found {self.floor}")
        if self.bands > BANDS:
            raise ContractError(f"frames: expected at most {BANDS} bands, found {self.bands}")
        edges = self.edges()
        if (empty := next((n for n, (a, _, c) in enumerate(edges) if not self._bin_within(a, c)), None)) is not None:
            raise ContractError(
                f"frames: expected bands that the window can tell apart, found band {empty + 1} of {self.bands} "
                f"narrower than the {self.rate / self.size:.3g} Hz of its spectrum; set fewer bands, a longer window "
                "or a higher low"
            )

    @property
    def top(self) -> float:
        """The upper end of the highest band, in Hz."""
        return self.rate / 2 if self.high is None else self.high

    @property
    def window_samples(self) -> int:
        return round(self.rate * self.window / 1_000)

    @property
    def hop_samples(self) -> int:
        return round(self.rate * self.hop / 1_000)

    @property
    def size(self) -> int:
        """Samples of a Fourier transform: at least twice the window, filled up with zeros, for the low bands."""
        return 1 << max(1, (2 * self.window_samples - 1).bit_length())

    def count(self, samples: int) -> int:
        """The number of frames of so many samples."""
        return max(0, 1 + (samples - self.window_samples) // self.hop_samples)

    def edges(self) -> list[tuple[float, float, float]]:
        """Lower end, peak and upper end of each band, in Hz."""
        low, high = _mel(self.low), _mel(self.top)
        marks = [_hertz(low + (high - low) * n / (self.bands + 1)) for n in range(self.bands + 2)]
        return list(zip(marks, marks[1:], marks[2:], strict=False))

    def _bin_within(self, low: float, high: float) -> bool:
        """Whether a bin of the spectrum lies strictly between two frequencies."""
        step = self.rate / self.size
        return (math.floor(low / step) + 1) * step < high

    def frames(self, samples: "np.ndarray | Tensor") -> "Tensor":
        """The frames of samples at `rate`: T bands, float32. Fewer samples than a window have none."""
        from .mel import compute_frames

        return compute_frames(self, samples)

    def stream(self, samples: "np.ndarray | Tensor", tail: "Tensor | None" = None) -> "tuple[Tensor, Tensor]":
        """The frames that a further chunk of samples completes, and the tail to hand to the next call.

        The tail holds the samples from the start of the first frame that is not complete. Before the first chunk there
        is none.
        """
        from .mel import stream_frames

        return stream_frames(self, samples, tail)

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class FrameSettings:
    """For settings of data that take recordings: how they become frames (see `LogMel`)."""

    sample_rate: int = 8_000
    frame: float = 25.0
    hop: float = 10.0
    bands: int = 40
    lowest: float = 60.0
    highest: float | None = None
    scale_bands: bool = True
    level: bool = False

    @property
    def mel(self) -> LogMel:
        return LogMel(
            rate=self.sample_rate, window=self.frame, hop=self.hop, bands=self.bands, low=self.lowest, high=self.highest
        )


@dataclass(frozen=True, kw_only=True)
class AugmentSettings:
    """For settings of tasks that train on recordings: how their frames are altered, anew each time; 0: not at all.

    What is said here of sounds is done to their frames: another speed of speaking moves frames in time, another length
    of the vocal tract moves bands, and sounds that are mixed add their powers.
    """

    tempo: float = 0.0
    warp: float = 0.0
    gain: float = 0.0
    tilt: float = 0.0
    response: float = 0.0
    noise: float | None = None
    shift: float = 0.0
    time_masks: int = at_least(0, default=0)
    time_mask: int = 10
    band_masks: int = at_least(0, default=0)
    band_mask: int = 6

    def check_augmentation(self) -> None:
        for name, most in (
            ("tempo", 0.5),
            ("warp", 0.5),
            ("gain", 60.0),
            ("tilt", 60.0),
            ("response", 60.0),
            ("shift", 10_000.0),
        ):
            if not 0 <= getattr(self, name) <= most:
                raise ContractError(f"augmentation: expected {name} from 0 to {most:g}, found {getattr(self, name)}")
        if self.noise is not None and not -20 <= self.noise <= 100:
            raise ContractError(f"augmentation: expected noise from -20 to 100 dB, found {self.noise}")

    @property
    def augments(self) -> bool:
        """Whether anything is altered."""
        some = (self.tempo, self.warp, self.gain, self.tilt, self.response, self.shift)
        return any(some) or bool(self.time_masks or self.band_masks) or self.noise is not None


def _mel(hertz: float) -> float:
    return 2595 * math.log10(1 + hertz / 700)


def _hertz(mel: float) -> float:
    return 700 * (10 ** (mel / 2595) - 1)
