"""Rendered scenes: the same from the same number, true to their captions, and in one part only."""

import numpy as np
import pytest

from recollect.data.files import DataError
from recollect.tasks.captions import scenes

SOME = {split: list(scenes.scenes(split, 150)) for split in scenes.SPLITS}
every = pytest.mark.parametrize("split", scenes.SPLITS)


def canonical(scene):
    return scene.captions[0]


def parse(caption):
    """What a caption says, read apart from what wrote it: (size, colour, shape), relation, (size, colour, shape)."""
    words = caption.split()
    assert words[0] == "a"
    second = words.index("a", 1)
    return tuple(words[1:4]), " ".join(words[4:second]), tuple(words[second + 1 :])


def pixels_of(scene, thing):
    """Where a scene shows the colour of a thing, within its box."""
    left, top, right, bottom = thing.box
    inside = scene.image[top:bottom, left:right].astype(float)
    colours = np.array(list(scenes.COLOURS.values()), float)
    nearest = np.linalg.norm(inside[:, :, None] - colours, axis=-1)
    ground = np.median(scene.image.reshape(-1, 3), axis=0)
    own = list(scenes.COLOURS).index(thing.colour)
    return (nearest.argmin(axis=-1) == own) & (nearest[..., own] < np.linalg.norm(inside - ground, axis=-1))


@every
def test_a_scene_is_its_number(split):
    for number in (0, 7, 149):
        again = scenes.scene(split, number)
        assert np.array_equal(again.image, SOME[split][number].image)
        assert again[1:] == SOME[split][number][1:]
    other = scenes.scene(split, 0, seed=1)
    assert not np.array_equal(other.image, SOME[split][0].image)


def test_the_parts_of_one_seed_differ():
    first = [SOME[split][0].image for split in scenes.SPLITS]
    assert not any(np.array_equal(first[i], first[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


@every
def test_relations_are_those_of_the_boxes(split):
    for scene in SOME[split]:
        for caption in scene.captions:
            first, relation, second = parse(caption)
            boxes = {}
            for thing in scene.things:
                boxes[tuple(thing[:3])] = thing.box
            assert len(boxes) == 2, "two things that a caption can tell apart"
            (left, top, right, bottom), (left2, top2, right2, bottom2) = boxes[first], boxes[second]
            holds = {
                "left of": right <= left2,
                "right of": left >= right2,
                "above": bottom <= top2,
                "below": top >= bottom2,
            }
            assert holds[relation], caption
            # the other axis never separates them more than the one that is named
            across = abs((left + right) - (left2 + right2)), abs((top + bottom) - (top2 + bottom2))
            assert (across[0] > across[1]) == (relation in ("left of", "right of")), caption


@every
def test_colours_sizes_and_boxes_are_those_of_the_pixels(split):
    for scene in SOME[split]:
        for thing in scene.things:
            left, top, right, bottom = thing.box
            assert 0 <= left < right <= scenes.PIXELS
            assert 0 <= top < bottom <= scenes.PIXELS
            own = pixels_of(scene, thing)
            assert own.mean() > 0.3, (thing, own.mean())
            # a box ends where its thing ends
            assert all(edge.any() for edge in (own[:2], own[-2:], own[:, :2], own[:, -2:])), thing
            assert (right - left > 13) == (thing.size == "large"), thing


def test_shapes_fill_their_boxes_as_shapes_do():
    """A square all of it, a circle π/4, a triangle and a diamond half, a cross 5/9."""
    filled = {shape: [] for shape in scenes.SHAPES}
    for scene in SOME["train"]:
        for thing in scene.things:
            if thing.size == "large":
                filled[thing.shape].append(pixels_of(scene, thing).mean())
    wanted = {"square": 1.0, "circle": 0.785, "triangle": 0.5, "diamond": 0.5, "cross": 0.556}
    for shape, share in wanted.items():
        assert np.mean(filled[shape]) == pytest.approx(share, abs=0.1), shape


@every
def test_nothing_stands_outside_the_boxes(split):
    for scene in SOME[split][:50]:
        rest = np.ones(scene.image.shape[:2], bool)
        for left, top, right, bottom in (thing.box for thing in scene.things):
            rest[max(0, top - 1) : bottom + 1, max(0, left - 1) : right + 1] = False
        ground = scene.image[rest].astype(float)
        assert ground.std(axis=0).max() < 1.5 * scenes.NOISE


@every
def test_words_name_the_things_that_they_describe(split):
    for scene in SOME[split]:
        for caption, named in zip(scene.captions, scene.named, strict=True):
            words = caption.split()
            assert len(words) == len(named)
            for word, thing in zip(words, named, strict=True):
                described = word in (*scenes.COLOURS, *scenes.SHAPES, *scenes.SIZES)
                assert described == (thing >= 0), caption
                assert not described or word in scene.things[thing][:3], caption


@pytest.mark.parametrize("split", ["train", "valid"])
def test_held_out_pairs_are_never_trained_on_or_chosen_by(split):
    shown = {(thing.colour, thing.shape) for scene in SOME[split] for thing in scene.things}
    assert not shown & scenes.HELD_OUT
    assert not any(scene.held_out for scene in SOME[split])


def test_each_word_of_a_held_out_pair_is_trained_on():
    words = {word for scene in SOME["train"] for caption in scene.captions for word in caption.split()}
    assert words >= {*scenes.COLOURS, *scenes.SHAPES, *scenes.SIZES, "left", "right", "above", "below"}


def test_every_second_scene_of_the_test_shows_a_held_out_pair():
    assert [scene.held_out for scene in SOME["test"]] == [number % 2 == 1 for number in range(150)]


def test_no_caption_is_in_two_parts():
    said = {split: {caption for scene in SOME[split] for caption in scene.captions} for split in scenes.SPLITS}
    assert not said["train"] & said["valid"]
    assert not said["train"] & said["test"]
    assert not said["valid"] & said["test"]
    assert all(scenes.split_of(canonical(scene)) == "valid" for scene in SOME["valid"])


def test_varied_scenes_have_grounds_of_any_brightness_and_the_same_captions():
    plain, varied = (list(scenes.scenes("train", 200, varied=flag)) for flag in (False, True))
    assert [one.captions for one in plain] == [one.captions for one in varied]
    corners = [np.stack([one.image[0, 0] for one in some]).astype(float).mean(axis=1) for some in (plain, varied)]
    assert corners[0].min() > 30
    assert corners[0].max() < 170
    shares = [float(np.mean(corners[1] <= 20)), float(np.mean(corners[1] >= 235))]
    assert min(shares) > 0.08, shares
    flat = [one.image[:4, :4].astype(float).std() for one in varied]
    assert min(flat) < 0.5 < 3 < max(flat)


def test_varied_scenes_have_the_colours_of_drawing_programs_too():
    for one in scenes.scenes("train", 200, varied=True):
        for thing in one.things:
            left, top, right, bottom = thing.box
            colour = np.median(one.image[top:bottom, left:right].reshape(-1, 3), axis=0)
            ends = np.stack([scenes.COLOURS[thing.colour], scenes.PURE[thing.colour]])
            if thing.shape in ("square", "circle"):  # they fill most of their box
                slack = scenes.JITTER + 2 * scenes.NOISE
                assert (colour >= ends.min(axis=0) - slack).all(), thing
                assert (colour <= ends.max(axis=0) + slack).all(), thing


def test_scenes_can_be_larger():
    scene = scenes.scene("train", 3, pixels=96)
    assert scene.image.shape == (96, 96, 3)
    assert scene.image.dtype == np.uint8
    assert scene.captions == scenes.scene("train", 3).captions


def test_what_cannot_be_drawn_is_one_line():
    with pytest.raises(DataError, match="expected scenes of at least 32 pixels a side, found 16"):
        scenes.scene("train", 0, pixels=16)
    with pytest.raises(DataError, match="expected a part out of train, valid, test, found 'dev'"):
        scenes.scene("dev", 0)  # type: ignore[arg-type]


def test_a_scene_is_drawn_after_its_words():
    for words in ("a small red circle left of a large blue square", "A large green cross below a small yellow diamond"):
        image, captions = scenes.draw_words(words, 3)
        assert words.lower() in captions
        assert image.shape == (48, 48, 3)
        assert not np.array_equal(image, scenes.draw_words(words, 4)[0])
    things, axis = scenes.read_caption("a large blue square right of a small red circle")
    assert [thing.colour for thing in things] == ["red", "blue"]
    assert axis == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("", "such as"),
        ("a red circle", "such as"),
        ("a small red circle beside a large blue square", "such as"),
        ("a small red cube left of a large blue square", "circle, square"),
        ("a tiny red circle left of a large blue square", "small, large"),
        ("a small pink circle left of a large blue square", "red, green"),
        ("x" * 5_000, "such as"),
    ],
)
def test_words_that_are_no_scene_are_refused_in_one_line(words, named):
    with pytest.raises(DataError, match=named) as caught:
        scenes.read_caption(words)
    assert len(str(caught.value)) < 400
