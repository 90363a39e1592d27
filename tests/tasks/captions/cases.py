"""Small pictures, folders and runs of captions."""

import io

from PIL import Image

from recollect.tasks.captions.task import CaptionsTask
from recollect.training import run as runs
from tasks.cases import photo


def flat(colour, mode="RGB", size=(10, 8)):
    return Image.new(mode, size, colour)


def truncated_png():
    """The beginning of a PNG file."""
    held = io.BytesIO()
    photo(size=(100, 100)).save(held, "png")
    return held.getvalue()[:5000]


def configure(model="attend", data=None, **settings):
    """A run of a few steps."""
    given = {"steps": 8, "batch": 4, "warmup": 2, "save_every": 3, "eval_every": 5, "log_every": 2, "eval_images": 4}
    given |= {"channels": 8, "width": 8, "heads": 2, "beam": 2, "extra": 14}
    if data is None:
        given |= {"count": 24, "pixels": 32}
    texts = {name: str(value) for name, value in (given | settings).items()}
    return runs.configure(CaptionsTask, texts, model=model, **({} if data is None else {"data": [str(data)]}))
