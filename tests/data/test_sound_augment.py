"""Frames altered at random, each alteration by itself."""

import math

import numpy as np
import pytest
import torch

from recollect.data.sound import LogMel
from recollect.data.sound.augment import DECIBEL, augment
from recollect.data.sound.settings import AugmentSettings

MEL = LogMel(bands=12, floor=1e-9)


def altered(frames, lengths, seed=0, **settings):
    return augment(frames, lengths, MEL, AugmentSettings(**settings), np.random.default_rng(seed))


@pytest.fixture
def rows():
    draw = torch.Generator().manual_seed(0)
    return torch.randn(4, 9, 12, generator=draw), torch.tensor([9, 7, 9, 5])


@pytest.mark.parametrize(("name", "same_in_bands"), [("gain", True), ("tilt", False), ("response", False)])
def test_loudness_and_response_move_all_frames_of_a_row_alike_and_no_further_than_asked(rows, name, same_in_bands):
    found, lengths = altered(*rows, **{name: 6.0})
    moved = (found - rows[0]) / DECIBEL
    assert torch.equal(lengths, rows[1])
    assert moved.abs().max() <= 6 + 1e-3
    assert torch.allclose(moved, moved[:, :1].expand_as(moved), atol=1e-3)
    assert torch.allclose(moved, moved[..., :1].expand_as(moved), atol=1e-3) == same_in_bands
    assert not torch.allclose(moved[0], moved[2], atol=0.1)


def test_a_response_goes_up_and_down_where_a_tilt_is_a_line(rows):
    tilted, curved = (altered(*rows, **{name: 6.0})[0] - rows[0] for name in ("tilt", "response"))
    bends = [own[:, 0].diff(n=2, dim=-1).abs().max() for own in (tilted, curved)]
    assert bends[0] < 1e-4 < 0.05 < bends[1]


def test_noise_is_so_far_below_the_power_of_its_row(rows):
    found, _ = altered(*rows, noise=10.0)
    for row, before, length in zip(found, rows[0], rows[1], strict=True):
        added = (row[:length].exp() - before[:length].exp()).mean() / before[:length].exp().mean()
        assert 10 * math.log10(added) < -10 + 12  # its slope adds up to 10 dB at an end
        assert added > 0


def test_nothing_is_altered_unless_settings_ask_for_it(rows):
    found, lengths = altered(*rows)
    assert torch.equal(found, rows[0])
    assert torch.equal(lengths, rows[1])
    assert not AugmentSettings().augments
    assert AugmentSettings(response=1.0).augments
    assert AugmentSettings(noise=0.0).augments
