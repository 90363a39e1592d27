"""Log-mel frames: against the definition written out, and the law that chunks have the frames of the whole."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.core.settings import ContractError
from recollect.data.sound import BandScaler, LogMel

SMALL = LogMel(rate=8_000, window=25, hop=10, bands=13)


def noise(count, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, count).astype(np.float32)


def defined(mel, samples):
    """The frames by their definition, in float64 and without torch."""
    window, hop, size = mel.window_samples, mel.hop_samples, mel.size
    taper = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    hertz = np.arange(size // 2 + 1) * mel.rate / size
    rows = []
    for start in range(0, len(samples) - window + 1, hop):
        power = np.abs(np.fft.rfft(samples[start : start + window] * taper, size)) ** 2 / window
        bands = [
            (np.clip(np.minimum((hertz - a) / (b - a), (c - hertz) / (c - b)), 0, None) * power).sum()
            for a, b, c in mel.edges()
        ]
        rows.append(np.log(np.array(bands) + mel.floor))
    return np.array(rows).reshape(-1, mel.bands)


@pytest.mark.parametrize(
    "mel",
    [SMALL, LogMel(), LogMel(rate=16_000, bands=80, low=0), LogMel(rate=44_100, window=20, hop=20, bands=64, high=9e3)],
)
def test_frames_are_their_definition(mel):
    samples = noise(3 * mel.rate // 10)
    found = mel.frames(samples)
    assert found.dtype == torch.float32
    assert found.shape == (mel.count(len(samples)), mel.bands)
    np.testing.assert_allclose(found.numpy(), defined(mel, samples.astype(np.float64)), atol=2e-4)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3_000), st.lists(st.integers(0, 3_000), max_size=12))
def test_any_cut_gives_the_frames_of_the_whole(count, cuts):
    samples, tail, found = noise(count), None, []
    for chunk in np.split(samples, sorted(cut for cut in cuts if cut <= count)):
        frames, tail = SMALL.stream(chunk, tail)
        found.append(frames)
    whole = SMALL.frames(samples)
    assert torch.cat(found).shape == whole.shape == (SMALL.count(count), SMALL.bands)
    torch.testing.assert_close(torch.cat(found), whole, atol=1e-5, rtol=0)
    assert tail is not None
    assert len(tail) < SMALL.window_samples + SMALL.hop_samples


def test_a_stream_that_forgets_its_tail_has_other_frames():
    samples = noise(1_000)
    parts = [SMALL.frames(part) for part in np.split(samples, [333])]
    assert torch.cat(parts).shape != SMALL.frames(samples).shape


def test_a_long_recording_is_cut_into_blocks_of_frames():
    samples = noise(8_000 * 25)  # more frames than a block has
    whole = SMALL.frames(samples)
    assert len(whole) == SMALL.count(len(samples)) > 2_000
    torch.testing.assert_close(whole[1_500:1_510], SMALL.frames(samples[1_500 * 80 : 1_509 * 80 + 200]))


def test_a_tone_is_loudest_in_the_band_around_it():
    mel = LogMel()
    for hertz in (200, 440, 1_000, 3_000):
        frames = mel.frames(np.sin(2 * np.pi * hertz * np.arange(4_000) / 8_000))
        low, _, high = mel.edges()[int(frames.mean(dim=0).argmax())]
        assert low < hertz < high


def test_silence_is_the_floor():
    found = SMALL.frames(np.zeros(1_000))
    torch.testing.assert_close(found, torch.full_like(found, float(np.log(SMALL.floor))))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rate": 100}, "rate"),
        ({"hop": 30.0}, "hop"),
        ({"hop": 0.0}, "hop"),
        ({"window": 2_000.0}, "window"),
        ({"high": 5_000.0}, "half the rate"),
        ({"low": 4_000.0}, "low"),
        ({"floor": 0.0}, "floor"),
        ({"bands": 0}, "bands"),
        ({"bands": 257}, "bands"),
        ({"bands": 200}, "narrower"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong, words):
    with pytest.raises(ContractError, match=words) as caught:
        LogMel(**wrong)
    assert "\n" not in str(caught.value)


def test_scaled_bands_have_mean_nothing_and_deviation_one():
    parts = [noise(500, seed).reshape(-1, 5) * [1, 2, 3, 4, 0] + [0, 1, 2, 3, 4] for seed in range(3)]
    scaler = BandScaler.fit(parts, 5)
    scaled = scaler.scale(np.concatenate(parts))
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 1, 1, 0], atol=1e-5)


@pytest.mark.parametrize(
    ("mean", "deviation"), [((0.0,), (0.0,)), ((0.0,), (1.0, 1.0)), ((), ()), ((float("nan"),), (1.0,))]
)
def test_a_scaler_that_cannot_be_is_refused(mean, deviation):
    with pytest.raises(ValueError, match="mean and a deviation"):
        BandScaler(mean, deviation)
