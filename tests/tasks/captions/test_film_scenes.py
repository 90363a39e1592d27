"""Rendered films: the same from the same number, true to their captions, told by the order of frames alone."""

from collections import Counter

import numpy as np
import pytest

from recollect.data.files import DataError
from recollect.tasks.captions import scenes as pictures
from recollect.tasks.captions.films import scenes

SOME = {split: list(scenes.films(split, 60)) for split in pictures.SPLITS}
every = pytest.mark.parametrize("split", pictures.SPLITS)


def events_in(caption):
    """What a caption says, read apart from what wrote it: colour, shape, action, and the other thing or None."""
    for part in caption.split(" then "):
        words = part.split()
        assert words[0] == "a"
        action = " ".join(words[3:5]) if words[3] == "moves" else words[3]
        other = tuple(words[-2:]) if action in ("meets", "leaves") else None
        yield tuple(words[1:3]), action, other


def course_of(frames, colour):
    """The middle (x, y) and the area of all that has a colour, frame by frame, as seen in the pixels."""
    colours = np.array([pictures.COLOURS[name] for name in scenes.COLOURS], float)
    for frame in frames.astype(float):
        far = np.linalg.norm(frame[:, :, None] - colours, axis=-1)
        ground = np.median(frame.reshape(-1, 3), axis=0)
        own = scenes.COLOURS.index(colour)
        seen = (far.argmin(axis=-1) == own) & (far[..., own] < np.linalg.norm(frame - ground, axis=-1))
        rows, columns = np.nonzero(seen)
        yield columns.mean(), rows.mean(), seen.sum()


@every
def test_a_film_is_its_number(split):
    for number in (0, 7, 59):
        again = scenes.film(split, number)
        assert np.array_equal(again.frames, SOME[split][number].frames)
        assert again.caption == SOME[split][number].caption
    other = scenes.film(split, 0, seed=1)
    assert not np.array_equal(other.frames[0], SOME[split][0].frames[0])


@every
def test_frames_are_as_many_as_the_events_take(split):
    for number, film in enumerate(SOME[split]):
        assert film.events == scenes.events_of(split, number) == len(list(events_in(film.caption)))
        assert film.frames.shape == (1 + scenes.STEPS * film.events, scenes.PIXELS, scenes.PIXELS, 3)
        assert film.frames.dtype == np.uint8
    assert {film.events for film in SOME[split]} == set(range(1, 6 if split == "test" else 4))


@pytest.mark.parametrize("varied", [False, True])
def test_what_a_caption_says_is_seen_in_the_pixels(varied):
    """Of films whose things have a colour of their own each, by the middle and the area of each colour."""
    draw, seen = np.random.default_rng(0), Counter()
    while len(seen) < len(scenes.OPPOSITE) or min(seen.values()) < 4:
        plan = scenes.draw_plan(draw, 2)
        if plan is None or len({thing.colour for thing in plan.things}) < len(plan.things):
            continue
        manner = scenes.draw_manner(draw, 2) if varied else scenes.usual(2)
        course = scenes.place(plan, draw, manner)
        if course is None:
            continue
        frames, way = scenes.render(plan, course, 64, draw), manner.way * 64
        shown = {(*thing,): np.array(list(course_of(frames, thing.colour))) for thing in plan.things}
        for at, (thing, action, other) in enumerate(events_in(plan.caption)):
            first, last = manner.spans[at].start, manner.spans[at].stop - 1
            before, after = shown[thing][first], shown[thing][last]
            moved, grown = after[:2] - before[:2], after[2] / before[2]
            if action.startswith("moves"):
                wanted = {"left": (-way, 0), "right": (way, 0), "up": (0, -way), "down": (0, way)}[action.split()[1]]
                assert np.abs(moved - wanted).max() < 2.5, plan
            elif action in ("grows", "shrinks"):
                assert grown > 1.5 if action == "grows" else grown < 1 / 1.5, plan
            elif action in ("starts", "stops"):
                swing = np.ptp([place[1] for place in shown[thing][first : last + 1]])
                assert scenes.SWING * 64 - 1.5 < swing < 2 * scenes.SWING * 64 + 1.5, plan
                assert abs(moved[0]) < 1.5, plan
            else:
                far = [np.hypot(*(shown[thing][t] - shown[other][t])[:2]) for t in (first, last)]
                assert far[1] < far[0] - 5 if action == "meets" else far[1] > far[0] + 5, plan
            for name, rest in shown.items():
                if name not in (thing, other):
                    assert np.abs(rest[last, 0] - rest[first, 0]) < 2, "nothing else goes anywhere"
            seen[action] += 1


def test_varied_films_have_events_of_unequal_length_with_rests_between_them():
    found = [scenes.film("train", number, varied=True) for number in range(40)]
    lengths = {events: {len(film.frames) for film in found if film.events == events} for events in (1, 2, 3)}
    assert all(len(some) > 3 and max(some) <= scenes.frames_of(events, True) for events, some in lengths.items())
    assert [film.events for film in found[:3]] == [1, 2, 3]
    grounds = [film.frames[0].mean() for film in found]
    assert min(grounds) < 40
    assert max(grounds) > 200
    again = scenes.film("train", 7, varied=True)
    assert np.array_equal(again.frames, found[7].frames)
    manner = scenes.Manner((2, 4), (1, 0))
    assert manner.spans == [slice(0, 3), slice(3, 8)]


def test_a_film_run_backwards_is_a_film_of_the_opposite_and_both_are_in_one_part():
    draw = np.random.default_rng(0)
    plans = [plan for plan in (scenes.draw_plan(draw, 1 + i % 3) for i in range(600)) if plan is not None]
    assert len(plans) > 200
    for plan in plans:
        back = plan.reversed_caption
        told = [(thing, scenes.OPPOSITE[action], other) for thing, action, other in events_in(back)]
        assert told == list(events_in(plan.caption))[::-1]
        mirrored = plan._replace(
            events=tuple(e._replace(action=scenes.OPPOSITE[e.action]) for e in reversed(plan.events))
        )
        assert (mirrored.caption, mirrored.reversed_caption) == (back, plan.caption)
        assert scenes.split_of(mirrored) == scenes.split_of(plan)
        assert mirrored.held_out == plan.held_out


def test_no_film_is_told_alike_both_ways_and_either_way_is_as_frequent():
    actions = Counter()
    for split in SOME:
        for film in SOME[split]:
            told = list(events_in(film.caption))
            assert told != [(thing, scenes.OPPOSITE[action], other) for thing, action, other in reversed(told)]
            actions.update(action for _, action, _ in told)
    for one, other in scenes.KINDS.values():
        count = actions[one] + actions[other]
        assert count > 30
        assert abs(actions[one] - actions[other]) < 4 * count**0.5, (one, other)


def test_no_caption_of_several_events_in_one_part_is_in_another():
    found = {split: {film.caption for film in SOME[split] if film.events > 1} for split in SOME}
    assert not found["train"] & found["valid"]
    assert not found["train"] & found["test"]
    assert not found["valid"] & found["test"]


@every
def test_what_is_held_out_is_in_every_second_film_of_the_test_alone(split):
    for number, film in enumerate(SOME[split]):
        strange = any(
            (*thing, scenes.KIND_OF[action]) in scenes.HELD_OUT for thing, action, _ in events_in(film.caption)
        )
        assert film.held_out == strange == (split == "test" and number % 2 == 1)
    done = {(*thing, scenes.KIND_OF[action]) for film in SOME["train"] for thing, action, _ in events_in(film.caption)}
    assert {part for kind in done for part in kind} == {*scenes.COLOURS, *scenes.SHAPES, *scenes.KINDS}


def test_swinging_is_up_and_down_and_ends_with_the_event():
    plan = scenes.Plan(
        (scenes.Thing("red", "circle"), scenes.Thing("blue", "square")),
        (False, False), (True, False), None,
        (scenes.Event(0, "stops"), scenes.Event(1, "starts")),
    )  # fmt: skip
    course = scenes.place(plan, np.random.default_rng(0))
    assert course is not None
    off = course.places[:, 0, 1] - course.places[-1, 0, 1]
    assert np.allclose(np.abs(off), [scenes.SWING] * 3 + [0] * 4)
    assert (np.sign(off[:3]) == np.sign(off[0]) * np.array([1, -1, 1])).all()
    off = course.places[:, 1, 1] - course.places[0, 1, 1]
    assert np.allclose(np.abs(off), [0] * 4 + [scenes.SWING] * 3)
    assert np.ptp(course.places[..., 0], axis=0).max() < 1e-12, "nobody goes aside"


@pytest.mark.parametrize(
    ("split", "pixels", "message"), [("other", 28, "expected a part out of"), ("train", 8, "at least 24 pixels")]
)
def test_a_film_that_cannot_be_is_one_line(split, pixels, message):
    with pytest.raises(DataError, match=message) as caught:
        scenes.film(split, 0, pixels=pixels)
    assert "\n" not in str(caught.value)
