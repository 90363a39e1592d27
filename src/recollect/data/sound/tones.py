"""Generated recordings: three tones in an order, which is the label. To tell it, one must remember the first.

Every recording has a pitch, a pace, a timbre, a loudness and a noise of its own, and silence before and after.
"""

import itertools

import numpy as np

STEPS = {"low": 0, "middle": 5, "high": 9}  # semitones above the recording's own pitch
ORDERS = ["-".join(order) for order in itertools.permutations(STEPS)]  # the labels
PITCH = (180.0, 420.0)  # Hz of the lowest tone
OVERTONES = 3


def tones(number: int, rate: int, seed: int = 0) -> tuple[np.ndarray, str]:
    """One recording and its label; the same for the same numbers."""
    draw = np.random.default_rng([seed, number, 0x70E5])
    label = ORDERS[int(draw.integers(len(ORDERS)))]
    pitch, volume = np.exp(draw.uniform(*np.log(PITCH))), 10 ** draw.uniform(-1.2, -0.2)
    overtones = draw.dirichlet(np.ones(OVERTONES))
    parts = [np.zeros(int(rate * draw.uniform(0, 0.1)))]
    for name in label.split("-"):
        count = int(rate * draw.uniform(0.08, 0.2))
        time = np.arange(count) / rate
        hertz = pitch * 2 ** ((STEPS[name] + draw.normal(0, 0.15)) / 12)
        waves = [part * np.sin(2 * np.pi * hertz * n * time) for n, part in enumerate(overtones, start=1)]
        swell = np.minimum(1, np.minimum(time, time[::-1]) / 0.01)  # no click at either end
        parts += [swell * np.sum(waves, axis=0), np.zeros(int(rate * draw.uniform(0, 0.05)))]
    sound = np.concatenate([*parts, np.zeros(int(rate * draw.uniform(0, 0.1)))])
    noise = volume * 10 ** draw.uniform(-3, -1) * draw.standard_normal(len(sound))
    return (volume * sound + noise).astype(np.float32), label
