"""Rendered scenes: two shapes on a noisy ground, with captions of what they are and how they stand.

A scene is known by its part, its seed and its number. Both of its captions are true ("a small red circle left of a
large blue square", "a large blue square right of a small red circle"), and no other caption of this grammar is. The
caption of a scene decides its part, so no caption of one part occurs in another; some pairs of colour
and shape (`HELD_OUT`) occur in the test alone.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from ...core.typed import show
from ...data.files import DataError

SplitName = Literal["train", "valid", "test"]
SPLITS = ("train", "valid", "test")
PIXELS = 48
LEAST = 32  # pixels; on less a small triangle is no longer a triangle
COLOURS = {
    "red": (208, 40, 40),
    "green": (50, 165, 60),
    "blue": (45, 85, 220),
    "yellow": (240, 225, 60),
    "purple": (150, 55, 180),
    "orange": (245, 140, 25),
}
SHAPES = ("circle", "square", "triangle", "cross", "diamond")
SIZES = {"small": (0.105, 0.125), "large": (0.175, 0.205)}  # radius, as a share of the picture's side
RELATIONS = (("left of", "right of"), ("above", "below"))  # as the first thing sees it, and as the second does
HELD_OUT = frozenset(
    {("red", "square"), ("green", "circle"), ("blue", "triangle"), ("yellow", "cross"), ("purple", "diamond")}
)
SHARE = 0.1  # of all captions, for validation, and as much for the test
FINE = 4  # drawn so much larger, then averaged, for soft edges
JITTER, NOISE = 12, 6  # of a thing's colour, and of every pixel
PURE = {  # what drawing programs and style sheets call by the same names
    "red": (255, 0, 0),
    "green": (0, 128, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "purple": (128, 0, 128),
    "orange": (255, 165, 0),
}
GROUNDS = (-64.0, 319.0)  # of varied scenes; what is beyond black or white is that
CLEAR = 1.5  # the distance along the named axis is at least so many times that across it


class Thing(NamedTuple):
    """One shape of a scene, and the pixels it covers: from (left, top) up to but not including (right, bottom)."""

    size: str
    colour: str
    shape: str
    box: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def words(self) -> tuple[str, str, str]:
        return self.size, self.colour, self.shape

    @property
    def held_out(self) -> bool:
        return (self.colour, self.shape) in HELD_OUT


class Scene(NamedTuple):
    """A picture, what it shows, and all captions that are true of it."""

    image: np.ndarray  # P P 3, uint8
    things: tuple[Thing, Thing]  # the left or upper one first
    captions: tuple[str, str]
    named: tuple[tuple[int, ...], tuple[int, ...]]  # of each caption's words: the thing that it names, or -1

    @property
    def held_out(self) -> bool:
        """Whether it shows a pair of colour and shape that training never does."""
        return any(thing.held_out for thing in self.things)


def scenes(split: SplitName, count: int, seed: int = 0, pixels: int = PIXELS, varied: bool = False) -> Iterator[Scene]:
    """The first `count` scenes of a part."""
    return (scene(split, number, seed, pixels, varied) for number in range(count))


def scene(split: SplitName, number: int, seed: int = 0, pixels: int = PIXELS, varied: bool = False) -> Scene:
    """One scene. Every second one of the test shows a held-out pair; `varied` ones stand on any ground."""
    if split not in SPLITS:
        raise DataError(f"expected a part out of {', '.join(SPLITS)}, found {split!r}")
    if pixels < LEAST:
        raise DataError(f"expected scenes of at least {LEAST} pixels a side, found {pixels}; ask for more")
    draw = np.random.default_rng([seed, SPLITS.index(split), number])
    strange = split == "test" and number % 2 == 1
    while True:
        things, axis = (_thing(draw), _thing(draw)), int(draw.integers(2))
        if things[0] == things[1] or any(thing.held_out for thing in things) != strange:
            continue
        captions, named = write_captions(things, axis)
        if strange or split_of(captions[0]) == split:
            break
    image, boxes = render(things, axis, pixels, draw, varied)
    placed = things[0]._replace(box=boxes[0]), things[1]._replace(box=boxes[1])
    return Scene(image, placed, captions, named)


def draw_words(words: str, seed: int = 0, pixels: int = PIXELS) -> tuple[np.ndarray, tuple[str, str]]:
    """A scene that shows what a caption says, and both of its captions; `seed` decides what the words leave open."""
    things, axis = read_caption(words)
    captions, _ = write_captions(things, axis)
    image, _ = render(things, axis, pixels, np.random.default_rng([seed, len(SPLITS)]))
    return image, captions


def read_caption(words: str) -> tuple[tuple[Thing, Thing], int]:
    """The things of a caption, the left or upper one first, and the axis along which they stand."""
    given = words.lower().split()
    for axis, pair in enumerate(RELATIONS):
        for turned, relation in enumerate(pair):
            between = relation.split()
            if given[4 : 4 + len(between)] != between or len(given) != 8 + len(between):
                continue
            first, second = _read_thing(given[:4]), _read_thing(given[4 + len(between) :])
            return ((second, first) if turned else (first, second)), axis
    relations = ", ".join(relation for pair in RELATIONS for relation in pair)
    raise DataError(
        f"words: expected a scene such as 'a small red circle left of a large blue square', with one of {relations} "
        f"between its things, found {show(words[:100])}"
    )


def _read_thing(words: list[str]) -> Thing:
    """`a small red circle` as a thing."""
    known = (("a", "an"), SIZES, COLOURS, SHAPES)
    for word, some in zip(words, known, strict=True):
        if word not in some:
            raise DataError(f"words: expected one of {', '.join(some)}, found {show(word[:40])}")
    _, size, colour, shape = words
    return Thing(size, colour, shape)


def _thing(draw: np.random.Generator) -> Thing:
    size, colour, shape = (list(some)[int(draw.integers(len(some)))] for some in (SIZES, COLOURS, SHAPES))
    return Thing(size, colour, shape)


def write_captions(
    things: tuple[Thing, Thing], axis: int
) -> tuple[tuple[str, str], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Both captions, and for each of their words which thing it names."""
    captions, named = [], []
    for first, second, relation in ((0, 1, RELATIONS[axis][0]), (1, 0, RELATIONS[axis][1])):
        between = relation.split()
        captions.append(" ".join(["a", *things[first].words, *between, "a", *things[second].words]))
        named.append((-1, *[first] * 3, *[-1] * (len(between) + 1), *[second] * 3))
    return (captions[0], captions[1]), (named[0], named[1])


def split_of(caption: str) -> SplitName:
    """The part that scenes with this first caption belong to, where no pair in it is held out."""
    place = int.from_bytes(hashlib.sha256(caption.encode()).digest()[:8]) / 2**64
    return "valid" if place < SHARE else "test" if place < 2 * SHARE else "train"


def render(
    things: tuple[Thing, Thing], axis: int, pixels: int, draw: np.random.Generator, varied: bool = False
) -> tuple[np.ndarray, list[tuple[int, int, int, int]]]:
    """The picture with the first thing left of (axis 0) or above (axis 1) the second, and the box of each."""
    from PIL import Image, ImageDraw

    radii = [pixels * draw.uniform(*SIZES[thing.size]) for thing in things]
    ground = draw.uniform(*(GROUNDS if varied else (75, 125))) + draw.uniform(-12, 12, size=3)
    image = np.broadcast_to(np.clip(ground, 0, 255), (pixels, pixels, 3))
    boxes = []
    for thing, radius, centre in zip(things, radii, _centres(radii, axis, pixels, draw), strict=True):
        mask = Image.new("L", (FINE * pixels, FINE * pixels))
        draw_shape(ImageDraw.Draw(mask), thing.shape, FINE * centre, FINE * radius)
        cover = np.asarray(mask.reduce(FINE), np.float64) / 255
        colour = np.array(COLOURS[thing.colour])
        if varied:
            colour = colour + draw.random() * (np.array(PURE[thing.colour]) - colour)
        colour = colour + draw.uniform(-JITTER, JITTER, size=3)
        image = image * (1 - cover[..., None]) + colour * cover[..., None]
        rows, columns = (np.flatnonzero((cover >= 0.25).any(axis=side)) for side in (1, 0))
        boxes.append((int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1))
    noisy = image + draw.normal(0, NOISE * (draw.random() if varied else 1), size=image.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8), boxes


def _centres(radii: list[float], axis: int, pixels: int, draw: np.random.Generator) -> np.ndarray:
    """Where the things stand (x, y of each): apart along the axis, and clearly more so than across it."""
    low = np.array(radii)[:, None] + 1
    apart = sum(radii) + 0.04 * pixels
    while True:
        centres = low + draw.random((2, 2)) * (pixels - 2 * low)
        along, across = (centres[1] - centres[0])[[axis, 1 - axis]]
        if along >= apart and along >= CLEAR * abs(across):
            return centres


def draw_shape(page: Any, shape: str, centre: np.ndarray, radius: float) -> None:
    """Fill a shape around its centre on a page of Pillow's."""
    (x, y), r = centre, radius
    if shape == "circle":
        page.ellipse((x - r, y - r, x + r, y + r), fill=255)
    elif shape == "square":
        page.rectangle((x - 0.85 * r, y - 0.85 * r, x + 0.85 * r, y + 0.85 * r), fill=255)
    elif shape == "triangle":
        page.polygon([(x, y - r), (x + r, y + 0.85 * r), (x - r, y + 0.85 * r)], fill=255)
    elif shape == "diamond":
        page.polygon([(x, y - r), (x + r, y), (x, y + r), (x - r, y)], fill=255)
    else:
        arm = r / 3
        page.rectangle((x - r, y - arm, x + r, y + arm), fill=255)
        page.rectangle((x - arm, y - r, x + arm, y + r), fill=255)
