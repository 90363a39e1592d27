"""Captions of picture files with a trained run."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ...core.contract import Memory
from ...core.task import LoadedRun
from ...data.tokenizers.sentences import SentenceTokenizer
from ...decode import beam
from ...decode.beam import Config as Search
from ...decode.beam import Hypothesis
from ..decoding import search_settings
from .images import to_floats
from .picture_files import read_picture

TOGETHER = 16  # pictures that are described at once
VIEW = 512  # pixels of the longer side of a picture as it is shown again


class Described(NamedTuple):
    """A picture and its captions."""

    file: str
    image: np.ndarray  # P P 3, as the model saw it
    found: list[Hypothesis]  # best first
    texts: list[str]
    notes: list[str]


@torch.inference_mode()
def caption(run: LoadedRun[Any, Any], files: Iterable[str | Path], search: Search | None = None) -> Iterator[Described]:
    """The captions of each file, in order. A file that is no picture is one clear line."""
    search = search or search_settings(run.config.task)
    pixels, tokenizer = run.artifacts.pixels, run.artifacts.tokenizer
    waiting = iter(files)
    while some := list(islice(waiting, TOGETHER)):
        read = [read_picture(file, pixels) for file in some]
        images = torch.from_numpy(np.stack([image for image, _ in read])).to(run.device)
        memory = run.model.encode(to_floats(images, run.model))
        lists = search_captions(run.model, memory, tokenizer, search)
        for file, (image, notes), found in zip(some, read, lists, strict=True):
            texts = [tokenizer.decode(hypothesis.tokens) for hypothesis in found]
            yield Described(str(file), image, found, texts, notes)


def search_captions(model: Any, memory: Memory, tokenizer: SentenceTokenizer, search: Search) -> list[list[Hypothesis]]:
    """The n-best captions of each picture of the memory."""
    unknown = [] if tokenizer.unknown is None else [tokenizer.unknown]  # not a word that a caption can have
    banned = [tokenizer.pad, tokenizer.begin, *unknown]
    return beam.search(model, memory, begin=tokenizer.begin, end=tokenizer.end, config=search, banned=banned)


def view(file: str | Path) -> np.ndarray:
    """A picture in its own proportions, to draw attention over."""
    return read_picture(file, VIEW, square=False)[0]
