"""A trained captioner in use: pictures in, captions out, with where it looked for each word."""

# what a program gives is checked whatever its type says, and torch declares some functions in part
# pyright: reportUnnecessaryIsInstance=false, reportUnknownMemberType=false

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ...core.artifacts import artifact_path
from ...core.contract import Memory
from ...core.errors import RecollectError
from ...core.task import LoadedRun
from ...core.trained import Array, check_options
from ...data.tokenizers.sentences import SentenceTokenizer
from ...decode import beam
from ...decode.beam import Config as Search
from ...decode.beam import Hypothesis
from ...decode.position import device_of
from ..decoding import DecodingModel, search_settings
from .captioned import Artifacts, load_artifacts
from .images import to_floats
from .picture_files import read_picture

TOGETHER = 16  # pictures that are described at once
OPTIONS = ("beam", "nbest", "length_penalty", "gaze", "layer", "head")
VIEW = 512  # pixels of the longer side of a picture as it is shown again


class Described(NamedTuple):
    """A picture and its captions."""

    file: str
    image: np.ndarray  # P P 3, as the model saw it
    found: list[Hypothesis]  # best first
    texts: list[str]
    notes: list[str]


@dataclass(frozen=True)
class Caption:
    """A picture's captions, best first."""

    file: str
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    finished: tuple[bool, ...]
    words: tuple[str, ...] = ()  # of the best, its end included
    gaze: Array | None = None  # words, rows, columns: weights over the picture for each word
    kind: str = ""  # what the weights are: attention, or influence by gradient
    notes: tuple[str, ...] = ()  # on how the picture was read

    @property
    def text(self) -> str:
        """The best caption."""
        return self.texts[0] if self.texts else ""

    def __str__(self) -> str:
        return self.text


class CaptionModel(DecodingModel):
    """A captioner: it says what pictures show, and where it looked for each word."""

    methods = ("caption",)

    def caption(self, images: Any, **options: Any) -> Caption | list[Caption]:
        """The caption of a picture, or those of several: files, arrays (H W 3), or Pillow's pictures.

        Options: `beam` (1 is greedy), `nbest`, `length_penalty`; `gaze=True` adds where it looked for each word, by
        `layer` and `head` (default: the mean).
        """
        check_options("caption", options, OPTIONS)
        given: Any = images  # which `isinstance` would narrow to an iterable of no known type
        several = isinstance(images, Iterable) and not isinstance(images, str | Path | bytes)
        if not several or hasattr(given, "convert") or getattr(given, "ndim", 4) < 4:
            return next(self.stream([given], **options))
        return list(self.stream(given, **options))

    def stream(
        self,
        images: Iterable[Any],
        *,
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        gaze: bool = False,
        layer: int | None = None,
        head: int | None = None,
    ) -> Iterator[Caption]:
        """Captions one by one as they are made; else as `caption`."""
        own = self._search_defaults
        given = {"beam": max(own.beam, nbest) if beam is None else beam, "nbest": nbest}
        given |= {} if length_penalty is None else {"length_penalty": length_penalty}
        count = len(images) if isinstance(images, Sequence) else 0
        decoder, search = self._decoder(count), replace(own, **given)
        for found in describe(decoder, self._artifacts, map(as_file, images), search):
            yield self._describe(found, gaze, layer, head)

    @cached_property
    def _artifacts(self) -> Artifacts:
        return load_artifacts(artifact_path(self._source.artifacts, "tokenizer.json"))

    def _describe(self, found: "Described", gaze: bool, layer: int | None, head: int | None) -> Caption:
        more: dict[str, Any] = {}
        if gaze and found.found:
            from .instruments import gaze as look

            seen = look(self._source.run, found.image, found.found[0], layer=layer, head=head)
            more = {"words": tuple(seen.words), "gaze": seen.weights.numpy(), "kind": seen.kind}
        return Caption(
            file=found.file,
            texts=tuple(found.texts),
            scores=tuple(hypothesis.score for hypothesis in found.found),
            finished=tuple(hypothesis.finished for hypothesis in found.found),
            notes=tuple(found.notes),
            **more,
        )


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


@torch.inference_mode()
def describe(
    model: Any, artifacts: Artifacts, files: Iterable[str | Path | bytes], search: Search
) -> Iterator[Described]:
    """The captions of each file, in order. A file that is no picture is one clear line."""
    pixels, tokenizer = artifacts.pixels, artifacts.tokenizer
    waiting = iter(files)
    while some := list(islice(waiting, TOGETHER)):
        read = [read_picture(file, pixels) for file in some]
        images = torch.from_numpy(np.stack([image for image, _ in read])).to(device_of(model))
        memory = model.encode(to_floats(images, model))
        lists = search_captions(model, memory, tokenizer, search)
        for file, (image, notes), found in zip(some, read, lists, strict=True):
            texts = [tokenizer.decode(hypothesis.tokens) for hypothesis in found]
            name = "the picture" if isinstance(file, bytes) else str(file)
            yield Described(name, image, found, texts, notes)


def search_captions(model: Any, memory: Memory, tokenizer: SentenceTokenizer, search: Search) -> list[list[Hypothesis]]:
    """The n-best captions of each picture of the memory."""
    unknown = [] if tokenizer.unknown is None else [tokenizer.unknown]  # not a word that a caption can have
    banned = [tokenizer.pad, tokenizer.begin, *unknown]
    return beam.search(model, memory, begin=tokenizer.begin, end=tokenizer.end, config=search, banned=banned)


def view(file: str | Path) -> np.ndarray:
    """A picture in its own proportions, to draw attention over."""
    return read_picture(file, VIEW, square=False)[0]


MODELS = {"captions": CaptionModel}
