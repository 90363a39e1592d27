"""Views of an image, and the share of a cell that lies in a box."""

import numpy as np
import pytest
import torch

from recollect.tasks.captions.images import apply_views, box_coverage, random_views


def test_a_view_is_the_whole_its_mirror_or_a_part():
    image = torch.arange(16.0).view(1, 1, 4, 4).expand(1, 3, 4, 4) / 16
    whole = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])
    assert torch.allclose(apply_views(image, whole), image, atol=1e-6)
    mirror = torch.tensor([[[-1.0, 0, 0], [0, 1, 0]]])
    assert torch.allclose(apply_views(image, mirror), image.flip(-1), atol=1e-6)
    corner = torch.tensor([[[0.5, 0, -0.5], [0, 0.5, -0.5]]])  # the upper left quarter
    assert apply_views(image, corner).max() <= image[..., :3, :3].max()
    drawn = random_views(np.random.default_rng(0), 500, True, 0.2)
    size = np.abs(drawn[:, [0, 1], [0, 1]])
    assert size.min() >= 0.8
    assert size.max() <= 1
    assert (np.abs(drawn[:, :, 2]) + size <= 1 + 1e-6).all(), "a part lies inside the picture"
    assert 0.4 < (drawn[:, 0, 0] < 0).mean() < 0.6


def test_the_share_of_a_cell_that_lies_in_a_box():
    found = box_coverage((0, 0, 3, 4), (2, 2), 8).reshape(2, 2)
    assert found.tolist() == [[0.75, 0], [0, 0]]
    assert box_coverage((2, 2, 6, 6), (2, 2), 8).tolist() == [0.25] * 4
    assert box_coverage((0, 0, 8, 8), (3, 5), 8) == pytest.approx(np.ones(15))
    wide = box_coverage((4, 0, 8, 2), (2, 4), 8).reshape(2, 4)
    assert wide.tolist() == [[0, 0, 0.5, 0.5], [0, 0, 0, 0]], "rows first"
