"""Small pictures, folders and runs of captions."""

import io

import numpy as np
from PIL import Image

from recollect.tasks.captions.task import CaptionsTask
from recollect.train import run as runs


def photo(seed=0, size=(20, 12)):
    """An image without any sense, of width × height."""
    draw = np.random.default_rng(seed)
    return Image.fromarray(draw.integers(0, 256, size=(size[1], size[0], 3), dtype=np.uint8))


def flat(colour, mode="RGB", size=(10, 8)):
    return Image.new(mode, size, colour)


def truncated_png():
    """The beginning of a PNG file."""
    held = io.BytesIO()
    photo(size=(100, 100)).save(held, "png")
    return held.getvalue()[:5000]


def folder_of(path, count=30, captions_file="captions.tsv"):
    """A folder of pictures with two captions each."""
    path.mkdir()
    lines = []
    for number in range(count):
        photo(number).save(path / f"p{number}.png")
        lines += [f"p{number}.png\tA {word} thing, number {number % 3}!" for word in ("fine", "good")]
    (path / captions_file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def configure(model="attend", data=None, **settings):
    """A run of a few steps."""
    given = {"steps": 8, "batch": 4, "warmup": 2, "save_every": 3, "eval_every": 5, "log_every": 2, "eval_images": 4}
    given |= {"channels": 8, "width": 8, "heads": 2, "beam": 2, "extra": 14}
    if data is None:
        given |= {"count": 24, "pixels": 32}
    texts = {name: str(value) for name, value in (given | settings).items()}
    return runs.configure(CaptionsTask, texts, model=model, **({} if data is None else {"data": [str(data)]}))
