"""What moves from frame to frame: differences, and the flow of an edge whatever its colour and its ground."""

import numpy as np
import pytest
import torch

from recollect.tasks.captions.films.motion import PLANES, slopes, with_motion

SIDE = 24


def film(way, colour, ground, steps=4):
    """A soft disc that moves by `way` (x, y) pixels a frame: 1 T 3 H W."""
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    frames = []
    for step in range(steps):
        far = torch.hypot(columns - 10 - step * way[0], rows - 10 - step * way[1])
        cover = torch.sigmoid(5 - far)[None]
        frames.append(torch.tensor(colour)[:, None, None] * cover + torch.tensor(ground)[:, None, None] * (1 - cover))
    return torch.stack(frames)[None].double()


def test_planes_are_the_frame_and_its_difference_and_nothing_moves_before_the_first():
    frames = film((1.0, 0.0), (1.0, 0.2, 0.1), (0.4, 0.4, 0.4))
    assert with_motion(frames, "none") is frames
    for kind in ("differences", "flow"):
        seen = with_motion(frames, kind)
        assert seen.shape == (1, 4, PLANES[kind], SIDE, SIDE)
        assert torch.equal(seen[:, :, :3], frames)
        assert torch.allclose(seen[:, 1:, 3:6], 0.5 + torch.diff(frames, dim=1))
        assert (seen[:, 0, 3:] == 0.5).all()


def test_slopes_of_a_plane_are_those_of_numpy_but_at_its_rim():
    pictures = torch.rand(2, 3, 7, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    across, down = slopes(pictures)
    wanted = np.gradient(pictures.numpy(), axis=(2, 3))
    assert np.allclose(down[:, :, 1:-1], wanted[0][:, :, 1:-1])
    assert np.allclose(across[..., 1:-1], wanted[1][..., 1:-1])


@pytest.mark.parametrize("way", [(1.0, 0.0), (-1.0, 0.0), (0.0, 0.5), (0.6, -0.8)])
@pytest.mark.parametrize(
    ("colour", "ground"),
    [((1.0, 0.2, 0.1), (0.4, 0.4, 0.4)), ((0.2, 0.3, 0.9), (1.0, 1.0, 1.0)), ((0.9, 0.9, 0.2), (0.0, 0.0, 0.0))],
)
def test_the_flow_tells_which_way_a_thing_moves_whatever_its_colour_and_its_ground(way, colour, ground):
    flow = (with_motion(film(way, colour, ground), "flow")[0, 1:, 6:] - 0.5) / 0.25  # pixels a frame, at edges
    mean = flow.sum(dim=(0, 2, 3))
    mean = mean / torch.linalg.vector_norm(mean)
    wanted = torch.tensor(way, dtype=torch.float64)
    assert torch.allclose(mean, wanted / torch.linalg.vector_norm(wanted), atol=0.1)
    assert 0.5 < float(torch.linalg.vector_norm(flow, dim=1).max() / torch.linalg.vector_norm(wanted)) < 1.5


def test_a_film_run_backwards_flows_the_other_way():
    frames = film((1.0, 0.5), (1.0, 0.2, 0.1), (0.4, 0.4, 0.4))
    ahead = with_motion(frames, "flow")[:, 1:, 6:] - 0.5
    back = with_motion(frames.flip(1), "flow")[:, 1:, 6:] - 0.5
    assert torch.allclose(back.flip(1), -ahead, atol=1e-12)
