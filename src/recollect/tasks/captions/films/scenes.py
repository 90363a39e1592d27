"""Rendered films: two or three shapes to which something happens, one event after the other, and a caption of it.

Each event takes STEPS steps between frames: a thing moves left, right, up or down, grows or shrinks, starts or stops to
swing, meets another thing or leaves it. A film is known by its part, its seed and its number.

What happens is told by the order of frames alone. Every action has an opposite, so that a film run backwards is a film
too, of the opposite actions in opposite order; every second film is such a reversed one, and a caption that would be
true both ways is never drawn. So the same set of frames is as often one film as the other, and whoever ignores their
order is right about half of the films at most.

The part of a film of several events is decided by the captions of both, and no such caption of one part occurs in
another; those of a single event are few, and all parts have them. Each thing never does one of the five kinds of action
in training (`HELD_OUT`).

Varied films are drawn as others might: on any ground, events of 2 to 12 steps with rests between them, things of other
sizes that move farther or less far, and slower swings.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ....data.files import DataError
from ..scenes import COLOURS as EVERY_COLOUR
from ..scenes import FINE, GROUNDS, JITTER, NOISE, PURE, SHARE, SPLITS, SplitName, draw_shape

PIXELS = 28
LEAST = 24  # pixels; on less the shapes cannot be told apart
COLOURS = ("red", "green", "blue", "yellow")
SHAPES = ("circle", "square", "triangle", "cross")
KINDS = {  # of action → the action and its opposite
    "across": ("moves left", "moves right"),
    "upright": ("moves up", "moves down"),
    "size": ("grows", "shrinks"),
    "swing": ("starts", "stops"),
    "meeting": ("meets", "leaves"),
}
OPPOSITE = {one: other for pair in KINDS.values() for one, other in (pair, pair[::-1])}
KIND_OF = {action: kind for kind, pair in KINDS.items() for action in pair}
HELD_OUT = frozenset(  # colour, shape, kind of action
    (colour, shape, list(KINDS)[(i + 2 * j) % len(KINDS)])
    for i, colour in enumerate(COLOURS)
    for j, shape in enumerate(SHAPES)
)
THEN = " then "  # between events in a caption
TRAINED, TESTED = 3, 5  # the most events of a film, where the settings name none
STEPS = 3  # between frames, of an event
VARIED_STEPS = (2, 12)  # of an event, and of all events of a film together at most
REST = 2  # steps at most after an event of a varied film
PERIODS = (2, 4)  # steps of a swing there and back: of two steps one is far from the middle
SCALES = (0.8, 1.15)  # of the sizes of things in a varied film
WAYS = (0.16, 0.36)  # how far things move in a varied film
RADII = (0.12, 0.17)  # small and large, as shares of the picture's side
WAY = 0.25  # how far a thing moves
APART = 0.05  # at least so far between things that do not touch
ABOUT = 0.18  # at least so far between things of which one is about to meet the other
SWING = 0.055  # how far a swinging thing is off its place, upwards or downwards in turn
THREE = 0.4  # share of films with three things
TRIES = 100  # at placing the things of a plan


class Thing(NamedTuple):
    colour: str
    shape: str


class Event(NamedTuple):
    """Something that happens to a thing; `other` is the thing that it meets or leaves."""

    thing: int
    action: str
    other: int = -1


class Plan(NamedTuple):
    """What a film shows: its things, how they are at first, and what happens to them."""

    things: tuple[Thing, ...]
    large: tuple[bool, ...]
    swinging: tuple[bool, ...]
    touching: tuple[int, int] | None
    events: tuple[Event, ...]

    @property
    def caption(self) -> str:
        return THEN.join(self.describe(event) for event in self.events)

    @property
    def reversed_caption(self) -> str:
        """Of the same film run backwards."""
        opposite = (event._replace(action=OPPOSITE[event.action]) for event in reversed(self.events))
        return THEN.join(self.describe(event) for event in opposite)

    @property
    def held_out(self) -> bool:
        """Whether a thing does what it never does in training."""
        return any((*self.things[event.thing], KIND_OF[event.action]) in HELD_OUT for event in self.events)

    def describe(self, event: Event) -> str:
        found = f"a {' '.join(self.things[event.thing])} {event.action}"
        return found if event.other < 0 else f"{found} a {' '.join(self.things[event.other])}"


class Film(NamedTuple):
    frames: np.ndarray  # T P P 3, uint8
    caption: str
    events: int
    held_out: bool


class Manner(NamedTuple):
    """How a film shows its events: the steps between frames that each takes, and that all rest after it."""

    steps: tuple[int, ...]
    rests: tuple[int, ...]
    period: int = PERIODS[0]
    way: float = WAY
    scale: float = 1.0

    @property
    def spans(self) -> list[slice]:
        """The frames of each event, from the one before it to its last."""
        found, start = list[slice](), 0
        for steps, rest in zip(self.steps, self.rests, strict=True):
            found.append(slice(start, start + steps + 1))
            start += steps + rest
        return found


def usual(events: int) -> Manner:
    """That of films that are not varied."""
    return Manner((STEPS,) * events, (0,) * events)


def draw_manner(draw: np.random.Generator, events: int) -> Manner:
    least, most = VARIED_STEPS
    steps = draw.integers(least, max(least, most // events) + 1, size=events).tolist()
    rests = (draw.integers(REST + 1, size=events) * (draw.random(events) < 0.5)).tolist()
    period = PERIODS[int(draw.integers(len(PERIODS)))]
    return Manner(tuple(steps), tuple(rests), period, draw.uniform(*WAYS), draw.uniform(*SCALES))


def films(
    split: SplitName, count: int, seed: int = 0, pixels: int = PIXELS, most: int = TRAINED, varied: bool = False
) -> Iterator[Film]:
    """The first `count` films of a part."""
    return (film(split, number, seed, pixels, most, varied) for number in range(count))


def events_of(split: SplitName, number: int, most: int = TRAINED) -> int:
    """How many events a film has: each number of them equally often, up to `most`, in the test up to TESTED."""
    return 1 + (number // 2 % TESTED if split == "test" else number % most)


def frames_of(events: int, varied: bool = False) -> int:
    """How many frames a film of so many events has, a varied one at most."""
    return 1 + (max(VARIED_STEPS[0] * events, VARIED_STEPS[1]) + REST * events if varied else STEPS * events)


def film(
    split: SplitName,
    number: int,
    seed: int = 0,
    pixels: int = PIXELS,
    most: int = TRAINED,
    varied: bool = False,
) -> Film:
    """One film. In every second one of the test a thing does what it never does in training."""
    if split not in SPLITS:
        raise DataError(f"expected a part out of {', '.join(SPLITS)}, found {split!r}")
    if pixels < LEAST:
        raise DataError(f"expected films of at least {LEAST} pixels a side, found {pixels}; ask for more")
    draw = np.random.default_rng([seed, SPLITS.index(split), number])
    events, strange = events_of(split, number, most), split == "test" and number % 2 == 1
    while True:
        plan = draw_plan(draw, events)
        if plan is None or plan.held_out != strange or plan.caption == plan.reversed_caption:
            continue
        if not strange and events > 1 and split_of(plan) != split:
            continue
        manner = draw_manner(draw, events) if varied else usual(events)
        if (course := place(plan, draw, manner)) is not None:
            break
    frames = render(plan, course, pixels, draw, varied)
    if draw.random() < 0.5:
        return Film(frames[::-1], plan.reversed_caption, events, plan.held_out)
    return Film(frames, plan.caption, events, plan.held_out)


def split_of(plan: Plan) -> SplitName:
    """The part that a film of several events and the same run backwards belong to, where nothing in it is held out."""
    caption = min(plan.caption, plan.reversed_caption)
    place = int.from_bytes(hashlib.sha256(caption.encode()).digest()[:8]) / 2**64
    return "valid" if place < SHARE else "test" if place < 2 * SHARE else "train"


# What happens


def draw_plan(draw: np.random.Generator, events: int) -> Plan | None:
    """Things and what happens to them; None where something that should end in the film does not.

    A swinging thing only stops, and of two that touch one leaves the other. What swings or touches at first ends so.
    """
    count = 2 + int(draw.random() < THREE)
    kinds = [Thing(colour, shape) for colour in COLOURS for shape in SHAPES]
    things = tuple(kinds[i] for i in draw.choice(len(kinds), size=count, replace=False))
    large, swinging = draw.random(count) < 0.5, draw.random(count) < 0.25
    one, other = draw.choice(count, size=2, replace=False).tolist()
    pair = (one, other) if draw.random() < 0.2 else None
    if pair is not None and (swinging[one] or swinging[other]):
        return None
    first = tuple(map(bool, large)), tuple(map(bool, swinging)), pair
    found: list[Event] = []
    held, unrest = pair, set(np.flatnonzero(swinging).tolist())
    for _ in range(events):
        options = list(_possible(count, large, swinging, held))
        kind = sorted({KIND_OF[event.action] for event in options})
        wanted = kind[int(draw.integers(len(kind)))]
        options = [event for event in options if KIND_OF[event.action] == wanted]
        event = options[int(draw.integers(len(options)))]
        found.append(event)
        if event.action in KINDS["size"]:
            large[event.thing] = event.action == "grows"
        elif event.action in KINDS["swing"]:
            swinging[event.thing] = event.action == "starts"
            unrest.discard(event.thing)
        elif event.action in KINDS["meeting"]:
            held, pair = ((event.thing, event.other), pair) if event.action == "meets" else (None, None)
    return None if unrest or pair is not None else Plan(things, *first, tuple(found))


def _possible(count: int, large: np.ndarray, swinging: np.ndarray, touching: tuple[int, ...] | None) -> Iterator[Event]:
    """What can happen next."""
    for thing in range(count):
        if swinging[thing]:
            yield Event(thing, "stops")
        elif touching is not None and thing in touching:
            yield Event(thing, "leaves", next(other for other in touching if other != thing))
        else:
            for action in (*KINDS["across"], *KINDS["upright"], "shrinks" if large[thing] else "grows", "starts"):
                yield Event(thing, action)
            if touching is None:
                for other in range(count):
                    if other != thing and not swinging[other]:
                        yield Event(thing, "meets", other)


class Course(NamedTuple):
    """Where the things of a film are, in sides of the picture."""

    places: np.ndarray  # T N 2: x, y
    radii: np.ndarray  # T N


def place(plan: Plan, draw: np.random.Generator, manner: Manner | None = None) -> Course | None:
    """Places for the things of a plan at which nothing overlaps or leaves the picture; None where none was found."""
    manner = manner or usual(len(plan.events))
    for _ in range(TRIES):
        course = _course(plan, draw, manner)
        if course is not None and _fits(course, plan, manner):
            return course
    return None


def _course(plan: Plan, draw: np.random.Generator, manner: Manner) -> Course | None:
    count, radii_of = len(plan.things), [manner.scale * radius for radius in RADII]
    radius = np.array([radii_of[large] for large in plan.large])
    where = radius[:, None] + draw.random((count, 2)) * (1 - 2 * radius[:, None])
    if plan.touching is not None:
        one, other = plan.touching
        angle = draw.uniform(0, 2 * np.pi)
        where[other] = where[one] + (radius[one] + radius[other]) * np.array([np.cos(angle), np.sin(angle)])
    swinging = np.array(plan.swinging)
    sign = np.where(draw.random(count) < 0.5, -1.0, 1.0)
    places, radii, swings = [where], [radius], [swinging]
    for event, steps, rest in zip(plan.events, manner.steps, manner.rests, strict=True):
        after, wider, during = where.copy(), radius.copy(), swinging.copy()
        if KIND_OF[event.action] in ("across", "upright"):
            axis = int(KIND_OF[event.action] == "upright")
            after[event.thing, axis] += -manner.way if event.action in ("moves left", "moves up") else manner.way
        elif event.action in KINDS["size"]:
            wider[event.thing] = radii_of[event.action == "grows"]
        elif event.action in KINDS["swing"]:
            during[event.thing] = True
        else:
            line = where[event.other] - where[event.thing]
            far, near = float(np.hypot(*line)), radius[event.thing] + radius[event.other]
            if event.action == "meets" and far - near < ABOUT:
                return None
            way = far - near if event.action == "meets" else -draw.uniform(ABOUT, 2 * ABOUT)
            after[event.thing] = where[event.thing] + way * line / far
        for step in range(1, steps + 1):
            places.append(where + (after - where) * step / steps)
            radii.append(radius + (wider - radius) * step / steps)
            swings.append(during)
        where, radius = after, wider
        if event.action == "stops":  # at rest from the last frame of the event on, as who starts is up to the first
            swinging = during.copy()
            swinging[event.thing] = False
            swings[-1] = swinging
        else:
            swinging = during
        for _ in range(rest):
            places.append(where)
            radii.append(radius)
            swings.append(swinging)
    found = np.array(places)
    phase = np.cos(2 * np.pi * np.arange(len(found)) / manner.period)[:, None]
    found[..., 1] += SWING * sign * np.array(swings) * phase
    return Course(found, np.array(radii))


def _fits(course: Course, plan: Plan, manner: Manner) -> bool:
    """Whether all things stay inside, and apart but for those that meet, touch or leave."""
    edge = np.minimum(course.places, 1 - course.places).min(axis=2)
    if (edge < course.radii).any():
        return False
    count = len(plan.things)
    for one in range(count):
        for other in range(one):
            gap = np.hypot(*np.moveaxis(course.places[:, one] - course.places[:, other], 1, 0))
            gap = gap - course.radii[:, one] - course.radii[:, other]
            if (gap < APART)[~_near(plan, {one, other}, len(gap), manner)].any():
                return False
    return True


def _near(plan: Plan, pair: set[int], frames: int, manner: Manner) -> np.ndarray:
    """The frames in which two things touch, or one goes to the other or away from it."""
    found = np.zeros(frames, bool)
    touching = plan.touching is not None and set(plan.touching) == pair
    found[0] = touching
    for event, span, rest in zip(plan.events, manner.spans, manner.rests, strict=True):
        own = {event.thing, event.other} == pair
        found[span] |= touching or own
        touching = (touching or own) and not (own and event.action == "leaves")
        found[span.stop : span.stop + rest] |= touching
    return found


# What it looks like


def render(plan: Plan, course: Course, pixels: int, draw: np.random.Generator, varied: bool = False) -> np.ndarray:
    """T P P 3: the frames, with noise of their own each."""
    from PIL import Image, ImageDraw

    ground = draw.uniform(*(GROUNDS if varied else (75, 125))) + draw.uniform(-12, 12, size=3)
    colours = [np.array(EVERY_COLOUR[thing.colour]) + draw.uniform(-JITTER, JITTER, size=3) for thing in plan.things]
    noise = NOISE
    if varied:
        ground, noise = np.clip(ground, 0, 255), NOISE * draw.random()
        pure = [np.array(PURE[thing.colour]) for thing in plan.things]
        colours = [colour + draw.random() * (far - colour) for colour, far in zip(colours, pure, strict=True)]
    frames = np.empty((len(course.places), pixels, pixels, 3), np.uint8)
    for frame, (where, radii) in enumerate(zip(course.places, course.radii, strict=True)):
        image = np.broadcast_to(ground, (pixels, pixels, 3))
        for thing, colour, centre, radius in zip(plan.things, colours, where, radii, strict=True):
            mask = Image.new("L", (FINE * pixels, FINE * pixels))
            draw_shape(ImageDraw.Draw(mask), thing.shape, FINE * pixels * centre, FINE * pixels * radius)
            cover = np.asarray(mask.reduce(FINE), np.float64)[..., None] / 255
            image = image * (1 - cover) + colour * cover
        noisy = image + draw.normal(0, noise, size=image.shape)
        frames[frame] = np.clip(np.rint(noisy), 0, 255)
    return frames


def words_of_films() -> Sequence[str]:
    """Every word of these captions."""
    words = " ".join([*COLOURS, *SHAPES, *OPPOSITE, "a then"]).split()
    return list(dict.fromkeys(words))
