"""Captioners of films: what a memory leaves of each frame, and what one without memory cannot know."""

import pytest
import torch

from recollect.core.contract import ContractError
from recollect.models.size import parameters
from recollect.tasks.captions.films import model as films
from recollect.tasks.captions.films import scenes
from recollect.tasks.captions.films.frames import join_films, to_frames
from recollect.tasks.captions.films.pool import Pool

WORDS = 20


def build(model="gru", **settings):
    torch.manual_seed(0)
    given = {"words": WORDS, "pixels": 28, "channels": 8, "width": 16, "heads": 2, "layers": 1, "motion": "none"}
    return films.Config(model=model, **given | settings).build().double().eval()


def some_frames(count=2, steps=5, side=28, seed=0):
    return torch.rand(count, steps, 3, side, side, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def said(model, frames, lengths=None):
    """The logits of a caption."""
    x = torch.arange(6).expand(len(frames), -1)
    return model(x, memory=model.encode(frames, lengths))[0]


every = pytest.mark.parametrize("name", films.MODELS)
POOLED = {"pool": "attention", "pool_heads": 2, "motion": "flow"}
NAMES = ("flat", "pooled", "grid")
readings = pytest.mark.parametrize("settings", [{"pool": "flat"}, POOLED, {"grid": True}], ids=NAMES)


@every
@readings
@torch.no_grad()
def test_a_film_leaves_the_same_whoever_stands_beside_it_and_whatever_follows_its_end(name, settings):
    grid = "grid" in settings
    model, frames = build(name, **settings), some_frames(3)
    lengths = torch.tensor([5, 1, 3])
    for row, length in enumerate(lengths.tolist()):
        frames[row, length:] = torch.nan
    memory = model.encode(frames, lengths)
    places = model.places(1)
    assert memory.values.shape == (3, 5 * places, 16)
    assert memory.shape == ((5, 7, 7) if grid else (5,))
    assert memory.valid.sum(dim=1).tolist() == [places * length for length in lengths.tolist()]
    for row, length in enumerate(lengths.tolist()):
        alone = model.encode(frames[row : row + 1, :length])
        kept = memory.values[row, : length * places]
        assert torch.allclose(kept, alone.values[0], atol=1e-12)
        assert not memory.values[row, length * places :].any()
        if not grid:
            assert torch.allclose(memory.summary.h[row], alone.values[0, -1:], atol=1e-12)


@every
@readings
@torch.no_grad()
def test_no_frame_knows_a_later_one_and_all_but_the_bag_know_an_earlier_one(name, settings):
    grid, near = "grid" in settings, "motion" in settings
    model, frames = build(name, **settings), some_frames(1)
    before, places = model.encode(frames).values, model.places(1)
    frames[0, 2] = 1 - frames[0, 2]
    changed = ~torch.isclose(model.encode(frames).values, before, atol=1e-12).all(dim=2)[0].reshape(5, places)
    assert changed.any(dim=1).tolist() == [False, False, True, near or name != films.BAG, name != films.BAG]
    assert bool(changed[2].all()) or grid


@pytest.mark.parametrize("decoder", ["fixed", "context", "attend", "conv", "transformer"])
@torch.no_grad()
def test_the_bag_says_the_same_of_a_film_and_of_the_film_run_backwards_and_a_memory_does_not(decoder):
    for number in (0, 1):
        film = scenes.film("train", number).frames
        ways = [to_frames(join_films([way], "cpu")[0], build()) for way in (film, film[::-1])]
        for name, settings in (("bag", {}), ("bag", {"grid": True}), ("gru", {}), ("gru", {"grid": True})):
            model = build(name, decoder=decoder, **settings)
            same = torch.allclose(said(model, ways[0]), said(model, ways[1]), atol=1e-10)
            assert same == (name == "bag"), (name, settings)


@pytest.mark.parametrize("pool", ["mean", "max", "attention"])
@torch.no_grad()
def test_pools_see_the_same_in_any_order_of_cells_and_the_flat_one_does_not(pool):
    cells = torch.rand(2, 9, 8, generator=torch.Generator().manual_seed(0))
    order = torch.tensor([3, 8, 5, 1, 4, 2, 0, 7, 6])
    for kind, same in ((pool, True), ("flat", False)):
        own = Pool(kind, 9, 8, 6, 2)
        assert own(cells).shape == (2, 1, 6)
        assert torch.allclose(own(cells), own(cells[:, order]), atol=1e-6) == same


@torch.no_grad()
def test_the_pools_are_the_mean_the_largest_and_the_weighted_mean():
    cells = torch.rand(2, 9, 8, generator=torch.Generator().manual_seed(0))
    for kind, wanted in (("mean", lambda each: each.mean(dim=1)), ("max", lambda each: each.max(dim=1).values)):
        own = Pool(kind, 9, 8, 6, 2)
        assert torch.allclose(own(cells)[:, 0], wanted(own.enter(cells)), atol=1e-6)
    own = Pool("attention", 9, 8, 6, 2)
    weights = own.query(cells).softmax(dim=1)
    assert torch.equal(own.weights(cells), weights)
    halves = [torch.einsum("ns,nsd->nd", weights[..., h], own.enter(cells)[..., 3 * h : 3 * h + 3]) for h in (0, 1)]
    assert torch.allclose(own(cells)[:, 0], torch.cat(halves, dim=-1), atol=1e-6)


@torch.no_grad()
def test_a_bag_that_sees_motion_knows_the_order_of_neighbours():
    frames = some_frames(2, 3)
    for kind in ("differences", "flow"):
        model = build("bag", motion=kind)
        assert not torch.allclose(said(model, frames), said(model, frames.flip(1)), atol=1e-6)


@torch.no_grad()
def test_any_order_of_frames_is_one_to_the_bag():
    model, frames = build("bag"), some_frames(1, 6)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert torch.allclose(said(model, frames), said(model, frames[:, order]), atol=1e-12)


def test_every_part_of_a_model_learns_from_a_film():
    for name, settings in (
        ("lstm", {"pool": "attention", "pool_heads": 2, "motion": "flow"}),
        ("transformer", {"grid": True}),
        ("ttt-linear", {"decoder": "fixed"}),
    ):
        model = build(name, **settings)
        said(model, some_frames(), torch.tensor([5, 2])).square().mean().backward()
        idle = [place for place, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
        assert not idle, (name, idle)


def test_a_model_is_as_large_as_it_is_asked_to_be():
    for name in ("bag", "gru", "transformer"):
        config = films.Config(model=name, words=WORDS, heads=2, layers=1).sized(150_000)
        assert parameters(config.build()) == pytest.approx(150_000, rel=0.05)


def test_the_cost_of_reading_grows_with_the_frames():
    for settings in ({"pool": "flat"}, {"grid": True}, {"motion": "flow"}):
        model = build(**settings)
        assert model.encoder_flops(2, 6) == pytest.approx(2 * model.encoder_flops(2, 3), rel=0.01)
        assert model.encoder_flops(2, 6) == 2 * model.encoder_flops(1, 6)


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (lambda: build().encode(torch.rand(2, 3, 28, 28).double()), "expected frames as numbers from 0 to 1 of shape"),
        (lambda: build().encode(some_frames(side=32)), "expected frames of 28 × 28 pixels, found 32 × 32"),
        (lambda: build().encode(some_frames(), torch.tensor([5, 0])), "lengths: expected 1 to 5"),
        (lambda: build("bag", layer={"num_layers": 2}), "expected no settings of a layer with bag"),
        (lambda: build("lstm", layer={"forget": 2}), "forget"),
        (lambda: build("lsmt"), "did you mean 'lstm'"),
        (lambda: build(pool="attention", pool_heads=3), "expected a width that pool_heads=3 divides, found width=16"),
        (lambda: build(pool="most"), "pool"),
        (lambda: build(motion="fast"), "motion"),
        (lambda: build(channels=9), "expected channels to be a multiple of 8, found 9"),
    ],
)
def test_what_cannot_be_is_one_line(do, message):
    with pytest.raises(ContractError, match=message) as caught:
        do()
    assert "\n" not in str(caught.value)
