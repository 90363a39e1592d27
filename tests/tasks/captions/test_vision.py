"""The CNN whose grid is a Memory."""

import pytest
import torch

from recollect.core.contract import ContractError
from recollect.tasks.captions import vision


def look(pixels=32, **settings):
    torch.manual_seed(0)
    return vision.Config(pixels=pixels, channels=8, **settings).build().double().eval()


@pytest.mark.parametrize(("pixels", "grid"), [(96, 6), (48, 6), (64, 8), (32, 8), (224, 7), (100, 7), (16, 8)])
def test_a_picture_becomes_a_grid_of_at_most_8_cells_a_side(pixels, grid):
    model = look(pixels)
    memory = model(torch.rand(2, 3, pixels, pixels, dtype=torch.float64))
    assert memory.shape == (grid, grid)
    assert memory.values.shape == (2, grid**2, model.width)
    assert model.cells() == grid**2
    assert bool(memory.valid.all())
    assert memory.summary is None


def test_a_grid_need_not_be_square():
    assert look()(torch.rand(1, 3, 32, 48, dtype=torch.float64)).shape == (8, 12)


def test_a_picture_is_seen_the_same_whoever_stands_beside_it():
    """In training too: norms are over a picture's own channels."""
    model = look(self_attention=True).train()
    images = torch.rand(4, 3, 32, 32, dtype=torch.float64)
    together = model(images).values
    for row in range(4):
        assert torch.allclose(model(images[row : row + 1]).values[0], together[row], atol=1e-12)


def test_cells_lie_in_the_order_of_the_picture():
    """What a cell holds depends most on the pixels of its own corner."""
    model = look()
    images = torch.rand(1, 3, 32, 32, dtype=torch.float64, requires_grad=True)
    values = model(images).values.view(8, 8, -1)
    for row, column in ((0, 7), (7, 0), (2, 5)):
        (found,) = torch.autograd.grad(values[row, column].square().sum(), images, retain_graph=True)
        blocks = torch.nn.functional.avg_pool2d(found.abs().sum(dim=1), 4)[0]
        assert divmod(int(blocks.argmax()), 8) == (row, column)


@pytest.mark.parametrize(("near", "reach"), [(False, 39), (True, 23)])
def test_a_near_cell_knows_only_what_lies_in_and_beside_it(monkeypatch, near, reach):
    """The pixels a side that a cell's value depends on, but for the mean and deviation that norms take of all."""
    monkeypatch.setattr(vision, "norm", lambda channels: torch.nn.Identity())
    model = look(48, near=near, blocks=1)
    stages = torch.nn.Sequential(model.stem, model.stages)  # over a larger picture, so that no edge cuts it
    images = torch.rand(1, 3, 96, 96, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(stages(images)[0, :, 6, 6].square().sum(), images)
    seen = found.abs().sum(dim=(0, 1)) > 0
    assert (int(seen.any(dim=0).sum()), int(seen.any(dim=1).sum())) == (reach, reach)


def test_each_cell_is_told_its_row_and_column():
    found = vision.places(3, 4, 8, torch.zeros(1, dtype=torch.float64)).view(3, 4, 8)
    assert torch.equal(found[0, :, :4], found[0, :1, :4].expand(4, -1)), "a row's cells share the first half"
    assert torch.equal(found[:, 0, 4:], found[:1, 0, 4:].expand(3, -1))
    assert len({tuple(cell.tolist()) for cell in found.flatten(0, 1)}) == 12


def test_self_attention_begins_as_nothing_and_ends_as_its_definition():
    torch.manual_seed(0)
    block = vision.SelfAttention(16).double()
    x = torch.randn(2, 16, 3, 4, dtype=torch.float64)
    assert torch.equal(block(x), x)
    with torch.no_grad():
        block.gate.fill_(0.7)
    cells = x.flatten(2).mT  # B S C
    q, k, v = (cells @ layer.weight[:, :, 0, 0].mT + layer.bias for layer in (block.query, block.key, block.value))
    wanted = torch.empty_like(cells)
    for row in range(2):
        for place in range(12):
            scores = torch.stack([q[row, place] @ k[row, other] for other in range(12)])
            share = scores.exp() / scores.exp().sum()
            wanted[row, place] = cells[row, place] + 0.7 * sum(share[other] * v[row, other] for other in range(12))
    assert torch.allclose(block(x).flatten(2).mT, wanted)


def test_self_attention_stands_where_the_grid_is_twice_as_fine():
    model = look(48, self_attention=True)
    sizes = {}
    attention = next(module for module in model.modules() if isinstance(module, vision.SelfAttention))
    attention.register_forward_hook(lambda module, given, _: sizes.update(grid=given[0].shape[2:]))
    assert model(torch.rand(1, 3, 48, 48, dtype=torch.float64)).shape == (6, 6)
    assert tuple(sizes["grid"]) == (12, 12)


def test_flops_are_those_of_the_products():
    """Two for each weight at each place that a convolution writes, and for each pair of cells."""
    model, counts = look(48, self_attention=True, blocks=2), []

    def count(module, given, made):
        counts.append(2 * made.numel() * module.weight[0].numel())

    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(count)
    model(torch.rand(2, 3, 48, 48, dtype=torch.float64))
    pairs = 2 * 2 * 144**2 * (16 // 8 + 16)  # over a grid of 12 × 12 with 16 channels
    assert model.flops(2) == sum(counts) + pairs


@pytest.mark.parametrize(
    "images",
    [
        torch.zeros(2, 32, 32, 3),
        torch.zeros(3, 32, 32),
        torch.zeros(1, 3, 32, 32, dtype=torch.uint8),
        torch.zeros(1, 3, 1, 9),
    ],
)
def test_what_is_no_picture_for_a_cnn_is_one_line(images):
    with pytest.raises(ContractError, match="expected pictures as numbers from 0 to 1 of shape"):
        vision.Config(channels=8).build()(images)
