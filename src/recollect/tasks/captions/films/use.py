"""A trained captioner of films in use: films in, captions out, with the frames it looked at for each word."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ....core.artifacts import artifact_path
from ....core.contract import Memory
from ....core.errors import RecollectError
from ....core.task import LoadedRun
from ....data.files import load_json
from ....decode.beam import Config as Search
from ....decode.position import device_of
from ...decoding import search_settings
from ..describing import Caption, Described, DescribingModel, describe
from .film_files import read_film
from .filmed import Artifacts
from .frames import join_films, to_frames

VIEW = 160  # pixels of the longer side of a frame as it is shown again


class FilmModel(DescribingModel):
    """A captioner of films: it says what happens in them, and at which frames it looked for each word."""

    axes = 4

    def caption(self, images: Any, **options: Any) -> Caption | list[Caption]:
        """The caption of a film, or those of several: GIF or other animated files, folders of frames, or arrays.

        An array has the shape T H W 3. Options: `beam` (1 is greedy), `nbest`, `length_penalty`; `gaze=True` adds where
        it looked for each word, frame by frame, by `layer` and `head` (default: the mean).
        """
        return self._caption(images, options)

    def view(self, given: Any) -> np.ndarray:
        """The frames that the model reads, in their own proportions."""
        return read_film(as_film(given), VIEW, self._artifacts.frames, square=False)[0]

    def seen(self, given: Any) -> np.ndarray:
        """The frames as the model sees them: squashed to squares of a few pixels."""
        return read_film(as_film(given), self._artifacts.pixels, self._artifacts.frames)[0]

    @cached_property
    def _artifacts(self) -> Artifacts:
        path = artifact_path(self._source.artifacts, "tokenizer.json")
        return load_json(path, "the words of captions", Artifacts.from_json)

    def _describe(self, decoder: Any, given: Iterable[Any], search: Search) -> Iterator[Described]:
        return describe_with(decoder, self._artifacts, map(as_film, given), search)

    def _look(self, found: Described, layer: int | None, head: int | None) -> Any:
        from .gaze import gaze

        return gaze(self._source.run, found.image, found.found[0], layer=layer, head=head)


def as_film(given: Any) -> str | Path | bytes | np.ndarray:
    """A film as a file or a folder, the content of a file, or an array of frames."""
    if isinstance(given, str | Path | bytes):
        return given
    found = np.asarray(given)
    if found.ndim == 4 and found.shape[3] == 3 and found.dtype == np.uint8 and found.size:
        return found
    what = f"an array of {found.dtype} {found.shape}" if found.ndim else type(given).__name__
    raise RecollectError(
        f"caption: expected a file, a folder of frames, or an array of T H W 3 with whole numbers from 0 to 255 "
        f"(uint8), found {what}"
    )


def describe_films(run: LoadedRun[Any, Any], given: Iterable[Any], search: Search | None = None) -> Iterator[Described]:
    """The captions of each film by a run's model, in order."""
    return describe_with(run.model, run.artifacts, given, search or search_settings(run.config.task))


def describe_with(model: Any, artifacts: Artifacts, given: Iterable[Any], search: Search) -> Iterator[Described]:
    """The captions of each film, in order. A file that is none is one clear line."""

    def encode(films: Sequence[np.ndarray]) -> Memory:
        frames, lengths = join_films(films, device_of(model))
        return model.encode(to_frames(frames, model), lengths)

    def read(film: Any) -> tuple[np.ndarray, list[str]]:
        return read_film(film, artifacts.pixels, artifacts.frames)

    return describe(model, artifacts.tokenizer, given, search, "film", read, encode)
