"""Another sampling rate, block by block: a low-pass filter (a sinc under a Kaiser window) at the new sample times."""

import math
from functools import lru_cache

import numpy as np

ZEROS = 24  # of the sinc on each side
BETA = 8.0  # of the Kaiser window: about 80 dB of what would fold back is taken away
PASS = 0.94  # of the lower rate's half is let through
GATHERED = 1 << 20  # samples times taps at a time


def resample(samples: np.ndarray, source: int, target: int) -> np.ndarray:
    """All samples at another rate."""
    if source == target:
        return np.asarray(samples, np.float32)
    made = Resampler(source, target)
    return np.concatenate([made(samples), made.finish()])


class Resampler:
    """Samples at one rate to samples at another, in blocks of any length; silence is taken to lie before and after."""

    def __init__(self, source: int, target: int) -> None:
        shared = math.gcd(source, target)
        self.up, self.down = target // shared, source // shared  # output n lies at input n·down/up
        self.table = _filters(self.up, self.down)
        self.reach = self.table.shape[1] // 2  # taps on each side
        self.held = np.zeros(self.reach, np.float32)  # the inputs that outputs to come may read
        self.at = -self.reach  # the number of the first of them
        self.next = 0  # output

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        """The outputs that further inputs complete."""
        self.held = np.concatenate([self.held, samples.astype(np.float32)])
        last = self.at + len(self.held) - 1 - self.reach  # the input below the last output that is complete
        return self._outputs(((last + 1) * self.up - 1) // self.down + 1)

    def finish(self) -> np.ndarray:
        """The outputs up to the last input."""
        given = self.at + len(self.held)
        self.held = np.concatenate([self.held, np.zeros(self.reach + 1, np.float32)])
        return self._outputs(-(-given * self.up // self.down))

    def _outputs(self, stop: int) -> np.ndarray:
        """Outputs from `next` up to `stop`; inputs that no later one reads are dropped."""
        width = self.table.shape[1]
        found = []
        for first in range(self.next, stop, GATHERED // width):
            numbers = np.arange(first, min(stop, first + GATHERED // width))
            below, phase = np.divmod(numbers * self.down, self.up)
            places = (below - self.reach + 1 - self.at)[:, None] + np.arange(width)
            found.append(np.einsum("nk,nk->n", self.held[places], self.table[phase]))
        self.next = max(self.next, stop)
        unused = self.next * self.down // self.up - self.reach + 1 - self.at
        if unused > 0:
            self.held, self.at = self.held[unused:], self.at + unused
        return np.concatenate(found) if found else np.zeros(0, np.float32)


@lru_cache(maxsize=8)
def _filters(up: int, down: int) -> np.ndarray:
    """The weights of the inputs around an output, for each place that it can have between two of them: up, taps."""
    cut = PASS * min(1.0, up / down)  # of the input's half rate
    reach = math.ceil(ZEROS / cut)
    offsets = np.arange(-reach + 1, reach + 1) - np.arange(up)[:, None] / up  # of inputs, seen from the output
    inside = np.sqrt(np.maximum(1 - np.square(offsets / reach), 0))
    weights = np.sinc(cut * offsets) * np.i0(BETA * inside)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
