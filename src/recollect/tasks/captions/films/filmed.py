"""Captioned films: arrays by split, and the part of them that a run folder stores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ....core.summary import DataSummary, FileList
from ....data.errors import DataError
from ....data.tokenizers.sentences import SentenceTokenizer
from .. import captioned
from ..captioned import CaptionedRows
from .settings import MOST_FRAMES


@dataclass(frozen=True, eq=False)
class Artifacts(captioned.Artifacts):
    """What a run folder stores of its data: the tokenizer of captions, the size of frames, the most of a film."""

    frames: int

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"frames": self.frames}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        own = captioned.Artifacts.from_json(data)
        frames = data.get("frames") if isinstance(data, Mapping) else None
        if type(frames) is not int or not 1 <= frames <= MOST_FRAMES:
            raise DataError(f"expected frames from 1 to {MOST_FRAMES:,} beside the words of captions, found {frames!r}")
        return cls(own.tokenizer, own.pixels, frames)


@dataclass(frozen=True, eq=False, kw_only=True)
class Part(CaptionedRows):
    """The films of one split with their captions."""

    frames: np.ndarray  # F P P 3, uint8, of all films end to end
    starts: np.ndarray  # N, where each film begins among them
    lengths: np.ndarray  # N, how many frames it has
    events: np.ndarray | None = None  # N, how many things happen in it, where that is known

    def film(self, row: int) -> np.ndarray:
        """T P P 3."""
        start = int(self.starts[row])
        return self.frames[start : start + int(self.lengths[row])]


@dataclass(frozen=True, eq=False)
class Filmed:
    """Films with captions by split."""

    name: str
    tokenizer: SentenceTokenizer
    pixels: int
    frames: int  # the most of a film
    train: Part
    valid: Part
    test: Part | None
    fingerprint: str  # over frames, captions and words: the same wherever the files lie
    notes: list[str]
    files: FileList | None = None


def summarize(data: Filmed) -> DataSummary:
    """The films, frames, captions and words of each split."""
    parts = {"train": data.train, "valid": data.valid} | ({} if data.test is None else {"test": data.test})
    splits: dict[str, dict[str, int]] = {}
    for split, part in parts.items():
        splits[split] = {
            "films": len(part),
            "frames": int(part.lengths.sum()),
            "captions": len(part.offsets) - 1,
            "words": len(part.tokens),
        }
        if data.tokenizer.unknown is not None:
            splits[split]["unknown"] = int(np.count_nonzero(part.tokens == data.tokenizer.unknown))
    facts = {
        "vocabulary": data.tokenizer.size,
        "pixels": f"{data.pixels} × {data.pixels}",
        "frames of a film at most": f"{max(int(part.lengths.max()) for part in parts.values()):,}",
    }
    return DataSummary(name=data.name, files=data.files, splits=splits, facts=facts, notes=data.notes)
