"""Transcribed sound: recordings by split, and the part of it that a run folder stores."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor

from ...core import typed
from ...core.files import write_aside
from ...core.summary import DataSummary, FileList
from ...data.errors import DataError
from ...data.files import load_json
from ...data.sound import BandScaler, LogMel
from ...data.tokenizers.sentences import SentenceTokenizer
from .parts import Part

FORMAT = 1
MOST_STACK = 1_000


class _Stored(TypedDict):
    format: int
    stack: int
    mel: dict[str, Any]
    scaler: dict[str, Any]
    characters: dict[str, Any]


class _Scaler(TypedDict):
    mean: list[float]
    deviation: list[float]


@dataclass(frozen=True, eq=False)
class Artifacts:
    """What a run folder stores of its data: the characters, and how sound becomes the steps that a model reads."""

    tokenizer: SentenceTokenizer
    mel: LogMel
    scaler: BandScaler
    stack: int

    @property
    def inputs(self) -> int:
        """Numbers of a step."""
        return self.mel.bands * self.stack

    @property
    def labels(self) -> int:
        """What CTC tells apart: every token of the text, and the blank, which is the last."""
        return self.tokenizer.tokenizer.size + 1

    @property
    def banned(self) -> list[int]:
        """Tokens that a text cannot have."""
        return [] if self.tokenizer.unknown is None else [self.tokenizer.unknown]

    @property
    def seconds(self) -> float:
        """Of a step."""
        return self.stack * self.mel.hop_samples / self.mel.rate

    def time(self, step: int) -> float:
        """Seconds at which a step begins."""
        return step * self.seconds

    def scaled(self, frames: Tensor) -> Tensor:
        return torch.from_numpy(self.scaler.scale(frames.numpy()))

    def steps(self, samples: Any) -> Tensor:
        """Samples at the rate of `mel` → S D, at least one; frames that fill no step are left out."""
        return self.stacked(self.scaled(self.frames(samples)))

    def frames(self, samples: Any) -> Tensor:
        """Samples at the rate of `mel` → T bands, at least a step; after a shorter sound stands silence."""
        missing = self.mel.window_samples + (self.stack - 1) * self.mel.hop_samples - len(samples)
        if missing > 0:
            samples = np.concatenate([np.asarray(samples, np.float32), np.zeros(missing, np.float32)])
        return self.mel.frames(samples)

    def stacked(self, frames: Tensor) -> Tensor:
        """Frames (T bands) side by side: S D."""
        count = len(frames) // self.stack
        return frames[: count * self.stack].reshape(count, self.inputs)

    def count(self, samples: int) -> int:
        """The steps of so many samples."""
        return self.mel.count(samples) // self.stack

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "stack": self.stack,
            "mel": self.mel.to_json(),
            "scaler": self.scaler.to_json(),
            "characters": self.tokenizer.to_json(),
        }

    @classmethod
    def from_json(cls, data: Any) -> "Artifacts":
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise DataError(f"expected format {FORMAT} of the characters of a run, found something else")
        found = typed.read(dict(data), _Stored)
        scaler = BandScaler(**{k: tuple(v) for k, v in typed.read(found["scaler"], _Scaler).items()})  # type: ignore[arg-type]
        mel = typed.read(found["mel"], LogMel, "mel")
        if len(scaler.mean) != mel.bands or not 1 <= found["stack"] <= MOST_STACK:
            raise DataError(
                f"expected a scale for each of {mel.bands} bands and a stack from 1 to {MOST_STACK:,}, found "
                f"{len(scaler.mean)} and {found['stack']}"
            )
        return cls(SentenceTokenizer.from_json(found["characters"]), mel, scaler, found["stack"])


def save_artifacts(artifacts: Artifacts, path: Path) -> None:
    write_aside(path, json.dumps(artifacts.to_json(), ensure_ascii=False).encode())


def load_artifacts(path: Path) -> Artifacts:
    return load_json(path, "the characters of a run", Artifacts.from_json)


@dataclass(frozen=True, eq=False)
class Transcribed:
    """Transcribed sound by split."""

    name: str
    artifacts: Artifacts
    train: Part
    valid: Part
    test: Part | None
    fingerprint: str
    notes: list[str]
    files: FileList | None = None
    join: int = 1

    def parts(self) -> dict[str, Part]:
        return {"train": self.train, "valid": self.valid} | ({} if self.test is None else {"test": self.test})


def summarize(data: Transcribed) -> DataSummary:
    """The recordings, seconds and strings of each split."""
    rate = data.artifacts.mel.rate
    splits: dict[str, dict[str, int]] = {}
    for split, part in data.parts().items():
        seconds = round(len(part.recordings.samples) / rate)
        splits[split] = {"recordings": len(part.recordings), "seconds": seconds}
        if part.plan is not None and part.longer is not None:
            splits[split]["strings"] = len(part)
    facts: dict[str, int | str] = {"characters": data.artifacts.tokenizer.tokenizer.size}
    if data.join > 1:
        facts["joined"] = f"1 to {data.join}"
    return DataSummary(name=data.name, files=data.files, splits=splits, facts=facts, notes=data.notes)


def pad(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Steps of unequal length as one tensor, B S D with zeros behind, and their lengths."""
    lengths = torch.tensor([len(row) for row in rows])
    x = rows[0].new_zeros(len(rows), int(lengths.max()), rows[0].shape[1])
    for number, row in enumerate(rows):
        x[number, : len(row)] = row
    return x, lengths
