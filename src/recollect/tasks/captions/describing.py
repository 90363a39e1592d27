"""Trained captioners in use, of pictures or of films: captions out, with where the model looked for each word."""

# what a program gives is checked whatever its type says, and torch declares some functions in part
# pyright: reportUnnecessaryIsInstance=false, reportUnknownMemberType=false

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ...core.artifacts import artifact_path
from ...core.contract import Memory
from ...core.trained import Array, check_options
from ...data.tokenizers.sentences import SentenceTokenizer
from ...decode import beam
from ...decode.beam import Config as Search
from ...decode.beam import Hypothesis
from ..decoding import DecodingModel
from .captioned import Artifacts, load_artifacts

TOGETHER = 16  # pictures or films that are described at once
OPTIONS = ("beam", "nbest", "length_penalty", "gaze", "layer", "head")
Given = Any  # a file, its content, or an array
Read = tuple[np.ndarray, list[str]]  # what the model sees, and notes on how it was read


class Described(NamedTuple):
    """A picture or a film and its captions."""

    file: str
    image: np.ndarray  # P P 3, or T P P 3, as the model saw it
    found: list[Hypothesis]  # best first
    texts: list[str]
    notes: list[str]


@dataclass(frozen=True)
class Caption:
    """The captions of a picture or a film, best first."""

    file: str
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    finished: tuple[bool, ...]
    words: tuple[str, ...] = ()  # of the best, its end included
    gaze: Array | None = None  # words, rows, columns of a picture, or words, frames, rows, columns of a film: weights
    kind: str = ""  # what the weights are: attention, or influence by gradient
    notes: tuple[str, ...] = ()  # on how it was read

    @property
    def text(self) -> str:
        """The best caption."""
        return self.texts[0] if self.texts else ""

    def __str__(self) -> str:
        return self.text


class DescribingModel(DecodingModel):
    """A captioner of pictures or of films."""

    methods = ("caption",)
    axes: int  # of an array of one of them

    @abstractmethod
    def view(self, given: Given) -> Array:
        """What is described as it is shown again, in its own proportions."""

    @abstractmethod
    def seen(self, given: Given) -> Array:
        """What is described as the model sees it."""

    @abstractmethod
    def _describe(self, decoder: Any, given: Iterable[Any], search: Search) -> Iterator[Described]:
        """The captions of each, in order."""

    @abstractmethod
    def _look(self, found: Described, layer: int | None, head: int | None) -> Any:
        """Where it looked for each word of the best caption: `words`, `weights` and `kind`."""

    def _caption(self, given: Any, options: dict[str, Any]) -> Caption | list[Caption]:
        """The caption of one, or those of several."""
        check_options("caption", options, OPTIONS)
        several = isinstance(given, Iterable) and not isinstance(given, str | Path | bytes)
        if not several or hasattr(given, "convert") or getattr(given, "ndim", self.axes + 1) <= self.axes:
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
        for found in self._describe(decoder, images, search):
            more: dict[str, Any] = {}
            if gaze and found.found:
                seen = self._look(found, layer, head)
                more = {"words": tuple(seen.words), "gaze": seen.weights.numpy(), "kind": seen.kind}
            yield Caption(
                file=found.file,
                texts=tuple(found.texts),
                scores=tuple(hypothesis.score for hypothesis in found.found),
                finished=tuple(hypothesis.finished for hypothesis in found.found),
                notes=tuple(found.notes),
                **more,
            )

    @cached_property
    def _artifacts(self) -> Artifacts:
        return load_artifacts(artifact_path(self._source.artifacts, "tokenizer.json"))


@torch.inference_mode()
def describe(
    model: Any,
    tokenizer: SentenceTokenizer,
    given: Iterable[Given],
    search: Search,
    noun: str,
    read: Callable[[Given], Read],
    encode: Callable[[Sequence[np.ndarray]], Memory],
) -> Iterator[Described]:
    """The captions of each, in order. What cannot be read is one clear line."""
    waiting = iter(given)
    while some := list(islice(waiting, TOGETHER)):
        found = [read(each) for each in some]
        lists = search_captions(model, encode([image for image, _ in found]), tokenizer, search)
        for each, (image, notes), hypotheses in zip(some, found, lists, strict=True):
            texts = [tokenizer.decode(hypothesis.tokens) for hypothesis in hypotheses]
            name = str(each) if isinstance(each, str | Path) else f"the {noun}"
            yield Described(name, image, hypotheses, texts, notes)


def search_captions(model: Any, memory: Memory, tokenizer: SentenceTokenizer, search: Search) -> list[list[Hypothesis]]:
    """The n-best captions of each row of the memory."""
    unknown = [] if tokenizer.unknown is None else [tokenizer.unknown]  # not a word that a caption can have
    banned = [tokenizer.pad, tokenizer.begin, *unknown]
    return beam.search(model, memory, begin=tokenizer.begin, end=tokenizer.end, config=search, banned=banned)
