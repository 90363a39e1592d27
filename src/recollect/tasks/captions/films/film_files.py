"""One film: a GIF, an animated PNG or WebP, or a folder of pictures in natural order, its frames as pictures are read.

A frame counts once for every time that the shortest frame would fit into its own: what is shown three times as long
is read three times. Where that makes more frames than are wanted, they are taken evenly spread.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....data.byte_files import StrPath
from ....data.limits import FILM_FRAMES, FILM_PIXELS, PICTURE_PIXELS
from ..picture_files import PictureError, on_white, opened, read_picture

BRIEF, USUAL = 10, 100  # milliseconds: a frame of so few is shown for the usual time, as in browsers
_DIGITS = re.compile(r"(\d+)")


def read_film(
    source: StrPath | bytes | np.ndarray | Sequence[Path],
    side: int,
    most: int,
    *,
    square: bool = True,
    name: str | None = None,
) -> tuple[np.ndarray, list[str]]:
    """The frames of a film (T H W 3, uint8), `most` of them at most, and what should be known of how they were read.

    `source` is a file, its content, a folder of pictures, the files of its pictures in their order, or its frames as
    an array (T H W 3). `square` squashes frames to side × side; else they keep the proportions of the first and are
    made smaller where larger.
    """
    if isinstance(source, bytes):
        return _read_file(source, side, most, square, name or "the film")
    if isinstance(source, np.ndarray):
        return _read_array(source, side, most, square, name or "the film")
    if not isinstance(source, Sequence) or isinstance(source, str):
        path = Path(source)
        if not path.is_dir():
            return _read_file(path, side, most, square, name or str(source))
        if not (found := list_frames(path)):
            raise PictureError(f"{path}: expected a film, found a folder without a picture; put its frames there")
        source = found
    return _read_frames(source, side, most, square, name or str(source[0].parent))


def list_frames(folder: Path) -> list[Path]:
    """The pictures of a folder in natural order: 9.png before 10.png."""
    from PIL import Image

    known = Image.registered_extensions()
    found = [path for path in folder.iterdir() if path.suffix.lower() in known and path.is_file()]
    return sorted(found, key=lambda path: natural(path.name))


def natural(name: str) -> list[tuple[int, str]]:
    """What to sort a name by so that numbers in it go by their value."""
    parts = _DIGITS.split(name.lower())
    return [(int(part), part) if part.isdigit() and part.isascii() else (-1, part) for part in parts]


def spread(count: int, most: int) -> np.ndarray:
    """The numbers from 0 to count − 1, or `most` of them, evenly spread from the first to the last."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).round().astype(np.int64)


def _read_frames(paths: Sequence[Path], side: int, most: int, square: bool, name: str) -> tuple[np.ndarray, list[str]]:
    if len(paths) > FILM_FRAMES:
        raise PictureError(f"{name}: expected a film of at most {FILM_FRAMES:,} frames, found {len(paths):,}; cut it")
    chosen = spread(len(paths), most)
    frames, notes = [], list(_note_length(name, len(paths), len(chosen)))
    for number in chosen:
        frame, more = read_picture(paths[number], side, square=square)
        if frames and frame.shape != frames[0].shape:
            frame = _resize(frame, frames[0].shape)
        frames.append(frame)
        notes += [note for note in more if note not in notes]
    return np.stack(frames), notes


def _read_array(film: np.ndarray, side: int, most: int, square: bool, name: str) -> tuple[np.ndarray, list[str]]:
    from PIL import Image

    chosen = spread(len(film), most)
    frames = [_fit(Image.fromarray(film[number]), side, square) for number in chosen]
    return np.stack(frames), list(_note_length(name, len(film), len(chosen)))


def _read_file(source: StrPath | bytes, side: int, most: int, square: bool, name: str) -> tuple[np.ndarray, list[str]]:
    """Twice through the file: for how long each frame is shown, and for the frames that are read."""
    with opened(source, name, "film") as image:
        _check_size(image, 1, name)
        shown = _durations(image, name)
    times = np.array(shown)
    if not times.any():
        raise PictureError(f"{name}: expected a film, found a picture beside one that has no frames; get a new copy")
    repeats = np.maximum(1, (times / times[times > 0].min()).round()).astype(np.int64)
    repeats[times == 0] = 0  # a picture beside the film, for readers that know no films
    every = np.repeat(np.arange(len(times)), np.minimum(repeats, FILM_FRAMES))
    chosen = every[spread(len(every), most)]
    frames: dict[int, np.ndarray] = {}
    with opened(source, name, "film") as image:
        for number in range(int(chosen[-1]) + 1):
            if number:
                image.seek(number)
            if number in chosen:
                frames[number] = _fit(on_white(image.copy()), side, square)
    notes = list(_note_length(name, len(every), len(chosen), len(times)))
    return np.stack([frames[number] for number in chosen.tolist()]), notes


def _durations(image: Any, name: str) -> list[int]:
    """How long each frame is shown, in milliseconds; 0 for a picture that is no frame of the film."""
    found: list[int] = []
    while True:
        if found:
            try:
                image.seek(len(found))
            except EOFError:
                return found
        elif getattr(image, "default_image", False):
            found.append(0)
            continue
        if len(found) >= FILM_FRAMES:
            raise PictureError(f"{name}: expected a film of at most {FILM_FRAMES:,} frames, found more; cut it")
        _check_size(image, len(found) + 1, name)
        image.load()
        time = image.info.get("duration", 0)
        found.append(round(time) if isinstance(time, int | float) and time > BRIEF else USUAL)
        if not getattr(image, "is_animated", False):
            return found


def _check_size(image: Any, frames: int, name: str) -> None:
    width, height = image.size
    if width * height > PICTURE_PIXELS or frames * width * height > FILM_PIXELS:
        found = f"{frames:,} frames of {width:,} × {height:,}" if frames > 1 else f"{width:,} × {height:,}"
        limit = PICTURE_PIXELS if width * height > PICTURE_PIXELS else FILM_PIXELS
        said = "a frame" if limit == PICTURE_PIXELS else "all frames together"
        raise PictureError(
            f"{name}: expected a film of at most {limit:,} pixels in {said}, found {found}; make it smaller"
        )


def _fit(flat: Any, side: int, square: bool) -> np.ndarray:
    """A frame of a film, squashed to side × side, or made smaller."""
    from PIL import Image

    if square:
        return np.array(flat.resize((side, side), Image.Resampling.BILINEAR))
    flat.thumbnail((side, side), Image.Resampling.BILINEAR)
    return np.array(flat)


def _resize(frame: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    from PIL import Image

    return np.array(Image.fromarray(frame).resize((shape[1], shape[0]), Image.Resampling.BILINEAR))


def _note_length(name: str, count: int, read: int, frames: int | None = None) -> Sequence[str]:
    """`frames` of the file are `count` where those that are shown for long count several times."""
    if count == 1:
        return [f"{name}: one picture; a film has several frames"]
    if read == count:
        return []
    if frames is None or frames == count:
        return [f"{name}: a long film; {read:,} of its {count:,} frames are read, evenly spread"]
    shown = f"{frames:,} frames, shown for {count:,} times the shortest"
    return [f"{name}: a long film ({shown}); it is read at {read:,} times, evenly spread"]
