"""A trained captioner in use: pictures in, captions out, with where it looked for each word."""

# torch declares some functions in part
# pyright: reportUnknownMemberType=false

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...core.contract import Memory
from ...core.errors import RecollectError
from ...core.task import LoadedRun
from ...decode.beam import Config as Search
from ...decode.position import device_of
from ..decoding import search_settings
from .describing import Caption, Described, DescribingModel
from .describing import describe as describe_all
from .films.use import FilmModel
from .images import to_floats
from .picture_files import read_picture

VIEW = 512  # pixels of the longer side of a picture as it is shown again


class CaptionModel(DescribingModel):
    """A captioner: it says what pictures show, and where it looked for each word."""

    axes = 3

    def caption(self, images: Any, **options: Any) -> Caption | list[Caption]:
        """The caption of a picture, or those of several: files, arrays (H W 3), or Pillow's pictures.

        Options: `beam` (1 is greedy), `nbest`, `length_penalty`; `gaze=True` adds where it looked for each word, by
        `layer` and `head` (default: the mean).
        """
        return self._caption(images, options)

    def view(self, given: Any) -> np.ndarray:
        """A picture in its own proportions."""
        return view(given)

    def seen(self, given: Any) -> np.ndarray:
        """A picture as the model sees it: squashed to a square of a few pixels."""
        return read_picture(as_file(given), self._artifacts.pixels)[0]

    def _describe(self, decoder: Any, given: Iterable[Any], search: Search) -> Iterator[Described]:
        return describe(decoder, self._artifacts, map(as_file, given), search)

    def _look(self, found: Described, layer: int | None, head: int | None) -> Any:
        from .gaze import gaze

        return gaze(self._source.run, found.image, found.found[0], layer=layer, head=head)


def as_file(image: Any) -> str | Path | bytes:
    """A picture as a file, or as the content of one."""
    if isinstance(image, str | Path | bytes):
        return image
    from io import BytesIO

    from PIL import Image

    try:
        made = image if hasattr(image, "save") else Image.fromarray(np.asarray(image))
        content = BytesIO()
        made.save(content, "PNG")
    except (TypeError, ValueError, OSError, KeyError) as error:
        raise RecollectError(
            f"caption: expected a file, an array of H W 3 with numbers from 0 to 255, or a picture of Pillow's, found "
            f"{type(image).__name__} ({error})"
        ) from None
    return content.getvalue()


def caption(
    run: LoadedRun[Any, Any], files: Iterable[str | Path | bytes], search: Search | None = None
) -> Iterator[Described]:
    """The captions of each file by a run's model, in order."""
    return describe(run.model, run.artifacts, files, search or search_settings(run.config.task))


def describe(model: Any, artifacts: Any, files: Iterable[str | Path | bytes], search: Search) -> Iterator[Described]:
    """The captions of each file, in order. A file that is no picture is one clear line."""

    def encode(images: Sequence[np.ndarray]) -> Memory:
        return model.encode(to_floats(torch.from_numpy(np.stack(images)).to(device_of(model)), model))

    def read(file: Any) -> tuple[np.ndarray, list[str]]:
        return read_picture(file, artifacts.pixels)

    return describe_all(model, artifacts.tokenizer, files, search, "picture", read, encode)


def view(file: str | Path | bytes) -> np.ndarray:
    """A picture in its own proportions, to draw attention over."""
    return read_picture(file, VIEW, square=False)[0]


MODELS = {"captions": CaptionModel, "films": FilmModel}
