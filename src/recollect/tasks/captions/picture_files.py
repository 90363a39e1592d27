"""One picture: any file that Pillow opens, as RGB on white, upright, its first frame."""

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, BinaryIO

import numpy as np

from ...core.files import FileError, open_regular
from ...data.byte_files import StrPath
from ...data.errors import DataError
from ...data.limits import PICTURE_BYTES, PICTURE_PIXELS

MOST = PICTURE_PIXELS


class PictureError(DataError):
    """A file that cannot be read as a picture."""


def read_picture(
    source: StrPath | bytes, side: int, *, square: bool = True, name: str | None = None
) -> tuple[np.ndarray, list[str]]:
    """RGB of a picture (H W 3, uint8), and what should be known of how it was read.

    `square` squashes it to side × side; else it keeps its proportions and is made smaller where it is larger.
    `source` is a file, or its content.
    """
    name = name or ("the picture" if isinstance(source, bytes) else str(source))
    with opened(source, name, "picture") as image:
        return _read(image, side, square, name)


@contextmanager
def opened(source: StrPath | bytes, name: str, noun: str) -> Iterator[Any]:
    """A file or its content as Pillow opens it; whatever is raised while it is read becomes one line."""
    from PIL import Image

    content: Any = io.BytesIO(source) if isinstance(source, bytes) else open_picture(source, noun)
    try:
        with content, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's doubts about a file are no errors, and its limit is ours below
            with Image.open(content, formats=picture_formats()) as image:
                yield image
    except PictureError:
        raise
    except Image.DecompressionBombError:
        raise PictureError(f"{name}: expected a {noun} of at most {MOST:,} pixels, found far more") from None
    except Image.UnidentifiedImageError:
        raise PictureError(f"{name}: expected a {noun}, found something that Pillow does not know as one") from None
    except MemoryError:
        raise PictureError(f"{name}: expected a {noun} that fits in memory, found a larger one") from None
    except Exception as error:  # a decoder may raise anything on bytes that are not what they say
        reason = " ".join(str(error).split()) or type(error).__name__
        raise PictureError(f"{name}: expected a whole {noun}, found a damaged one ({reason}); get a new copy") from None


@cache
def picture_formats() -> tuple[str, ...]:
    """What Pillow opens, but EPS: that is a program, which Ghostscript would run."""
    from PIL import Image

    Image.preinit()  # the common ones come first
    Image.init()
    return tuple(name for name in Image.ID if name != "EPS")


def open_picture(path: StrPath, noun: str = "picture") -> BinaryIO:
    """The file of a picture or film, opened: a regular one that is neither empty nor too large."""
    try:
        file = open_regular(path)
    except FileError as error:
        raise PictureError(str(error).replace("a regular file", f"a {noun}")) from None
    except OSError as error:
        raise PictureError(f"{path}: expected a {noun}, found {error.strerror or error}") from None
    size = os.fstat(file.fileno()).st_size
    if not 0 < size <= PICTURE_BYTES:
        file.close()
        found = f"a file of {size:,} bytes, more than {PICTURE_BYTES:,}" if size else "an empty file"
        raise PictureError(f"{path}: expected a {noun}, found {found}")
    return file


def _read(image: Any, side: int, square: bool, name: str) -> tuple[np.ndarray, list[str]]:
    from PIL import Image, ImageOps

    notes: list[str] = []
    if getattr(image, "is_animated", False):
        notes.append(f"{name}: an animation; its first frame is read")
    if image.size[0] * image.size[1] > MOST:
        image.draft("RGB", (2 * side, 2 * side))  # a JPEG can be decoded at an eighth of its size
        if image.size[0] * image.size[1] > MOST:
            width, height = image.size
            raise PictureError(
                f"{name}: expected a picture of at most {MOST:,} pixels, found {width:,} × {height:,}; make it smaller"
            )
        notes.append(f"{name}: very large; it is read at {image.size[0]:,} × {image.size[1]:,}")
    image.load()
    try:
        turned = ImageOps.exif_transpose(image)
    except Exception:  # the note about which way is up is damaged, the picture is not
        turned = image
    flat = on_white(turned)
    if square:
        small = flat.resize((side, side), Image.Resampling.BILINEAR)
    else:
        small = flat.copy()
        small.thumbnail((side, side), Image.Resampling.BILINEAR)
    return np.array(small), notes


def on_white(image: Any) -> Any:
    """RGB of an image of any mode; what is transparent shows white."""
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        return Image.fromarray(_eight_bits(np.asarray(image))).convert("RGB")
    if "A" in image.mode or "a" in image.mode or "transparency" in image.info:
        clear = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB")
    return image.convert("RGB")


def _eight_bits(values: np.ndarray) -> np.ndarray:
    """Grey of 16 bits, of 32 bits or as fractions, on the scale from 0 to 255."""
    values = np.nan_to_num(values.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    highest = float(values.max(initial=0))
    scale = 255 if highest <= 1 else 1 if highest <= 255 else 255 / max(highest, 65_535)
    return np.clip(np.rint(values * scale), 0, 255).astype(np.uint8)
