"""Captioned pictures: arrays by split, and the part of them that a run folder stores."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.files import write_aside
from ...core.summary import DataSummary, FileList
from ...data.files import DataError, load_json
from ...data.tokenizers.sentences import SentenceTokenizer

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Artifacts:
    """What a run folder stores of its data: the tokenizer of captions, and the size of pictures."""

    tokenizer: SentenceTokenizer
    pixels: int

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "pixels": self.pixels, "captions": self.tokenizer.to_json()}

    @classmethod
    def from_json(cls, data: Any) -> "Artifacts":
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise DataError(f"expected format {FORMAT} of the words of captions, found something else")
        pixels = data.get("pixels")
        if not isinstance(pixels, int) or isinstance(pixels, bool) or not 2 <= pixels <= 4096:
            raise DataError(f"expected pixels from 2 to 4096 beside the words of captions, found {pixels!r}")
        return cls(SentenceTokenizer.from_json(data.get("captions")), pixels)


def save_artifacts(artifacts: Artifacts, path: Path) -> None:
    write_aside(path, json.dumps(artifacts.to_json(), ensure_ascii=False).encode())


def load_artifacts(path: Path) -> Artifacts:
    return load_json(path, "the words of captions", Artifacts.from_json)


@dataclass(frozen=True, eq=False, kw_only=True)
class CaptionedRows:
    """What one split has of captions: one or more for each thing that is described."""

    names: list[str]  # N
    captions: list[list[str]]  # N, plain
    tokens: np.ndarray  # int32, of all captions end to end
    offsets: np.ndarray  # C + 1, where each caption begins
    first: np.ndarray  # N + 1, the first caption of each
    held_out: np.ndarray | None = None  # N, whether it shows a combination that training never does

    def __len__(self) -> int:
        return len(self.names)

    def tokens_of(self, caption: int) -> np.ndarray:
        return self.tokens[self.offsets[caption] : self.offsets[caption + 1]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Part(CaptionedRows):
    """The pictures of one split with their captions."""

    images: np.ndarray  # N P P 3, uint8
    boxes: np.ndarray | None = None  # N M 4: left, top, right, bottom of each thing, in pixels
    named: np.ndarray | None = None  # as tokens: the thing that a word names, or -1

    def named_of(self, caption: int) -> np.ndarray:
        assert self.named is not None
        return self.named[self.offsets[caption] : self.offsets[caption + 1]]


@dataclass(frozen=True, eq=False)
class Captioned:
    """Pictures with captions by split."""

    name: str
    tokenizer: SentenceTokenizer
    pixels: int
    train: Part
    valid: Part
    test: Part | None
    fingerprint: str  # over pixels, captions and words: the same wherever the files lie
    notes: list[str]
    mirrored: bool = True  # whether the captions of a picture are those of its mirror image too
    files: FileList | None = None


def summarize(data: Captioned) -> DataSummary:
    """The pictures, captions and words of each split."""
    parts = {"train": data.train, "valid": data.valid} | ({} if data.test is None else {"test": data.test})
    splits: dict[str, dict[str, int]] = {}
    for split, part in parts.items():
        splits[split] = {"pictures": len(part), "captions": len(part.offsets) - 1, "words": len(part.tokens)}
        if data.tokenizer.unknown is not None:
            splits[split]["unknown"] = int(np.count_nonzero(part.tokens == data.tokenizer.unknown))
    facts = {"vocabulary": data.tokenizer.size, "pixels": f"{data.pixels} × {data.pixels}"}
    return DataSummary(name=data.name, files=data.files, splits=splits, facts=facts, notes=data.notes)
