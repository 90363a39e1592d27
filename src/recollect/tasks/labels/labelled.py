"""Labelled sequences: arrays by split, and the part of them that a run folder stores."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ...core import typed
from ...core.artifacts import artifact_path, read_artifact
from ...core.errors import RunError
from ...core.summary import DataSummary, FileList
from ...data import tokenizers
from ...data.sound import BandScaler, LogMel
from ...data.tokenizers.base import LONGEST_WORD, Tokenizer
from .settings import StepName

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_SIDE = 65_536  # of an image


class Part(NamedTuple):
    """The labelled sequences of one split."""

    values: (
        np.ndarray
    )  # the tokens, or the log-mel frames (T D), of all rows end to end; of images N T D, from 0 to 255
    lengths: np.ndarray  # N
    labels: np.ndarray  # N, numbers of classes


@dataclass(frozen=True, kw_only=True)
class Sounds:
    """How recordings are read: the settings of their frames, and of each band the scale (none: as they are)."""

    mel: LogMel
    scaler: BandScaler | None = None
    level: bool = False  # whether a recording's mean, over time and bands, is taken from its frames

    def prepare(self, frames: np.ndarray) -> np.ndarray:
        """The frames of a recording (T D) as a model reads them."""
        levelled = frames - frames.mean(dtype=np.float64) if self.level else frames
        return (levelled if self.scaler is None else self.scaler.scale(levelled)).astype(np.float32)

    def scale(self) -> "tuple[Tensor, Tensor]":
        """Mean and deviation of each band: D each."""
        import torch

        scaler = self.scaler or BandScaler((0.0,) * self.mel.bands, (1.0,) * self.mel.bands)
        return torch.tensor(scaler.mean), torch.tensor(scaler.deviation)

    def to_json(self) -> dict[str, Any]:
        return {
            "mel": self.mel.to_json(),
            "scaler": None if self.scaler is None else self.scaler.to_json(),
            "level": self.level,
        }


@dataclass(frozen=True, kw_only=True)
class Stored:
    """labels.json: the artifacts but for the tokenizer, which has a file of its own."""

    classes: tuple[str, ...]
    longest: int
    shape: tuple[int, int] | None
    step: StepName
    permute: int | None = field(metadata={"least": 0})
    sound: Sounds | None = None


@dataclass(frozen=True, kw_only=True)
class Artifacts:
    """What a run folder stores of its data: names of the classes, the tokenizer, or how images or sounds are read."""

    classes: tuple[str, ...]
    tokenizer: Tokenizer | None = None
    longest: int = 1_000  # tokens of a text, or frames of a recording, that are read
    shape: tuple[int, int] | None = None  # of an image: rows, columns
    step: StepName = "pixel"
    permute: int | None = None
    sound: Sounds | None = None

    @property
    def kind(self) -> Literal["texts", "images", "recordings"]:
        """What rows are."""
        return "texts" if self.tokenizer is not None else "images" if self.sound is None else "recordings"

    @property
    def inputs(self) -> int:
        """The size of a model's input: of the vocabulary, or numbers of a step."""
        if self.tokenizer is not None:
            return self.tokenizer.size
        if self.sound is not None:
            return self.sound.mel.bands
        assert self.shape is not None
        return self.shape[1] if self.step == "row" else 1

    def encode(self, text: str) -> np.ndarray:
        """The first `longest` tokens of a text."""
        assert self.tokenizer is not None
        # no token is longer than a word may be, so the rest of a very long text need not be read
        return self.tokenizer.encode(text[: self.longest * (LONGEST_WORD + 1)])[: self.longest]

    def is_unknown(self, row: np.ndarray) -> bool:
        """Whether a text has tokens, and none of them is in the vocabulary."""
        unknown = None if self.tokenizer is None else self.tokenizer.unknown
        return unknown is not None and len(row) > 0 and bool((row == unknown).all())

    def lay_out(self, images: np.ndarray) -> np.ndarray:
        """Images (N, rows, columns) as sequences: N T D."""
        flat = images.reshape(len(images), -1)
        if self.permute is not None:
            flat = flat[:, np.random.default_rng(self.permute).permutation(flat.shape[1])]
        return flat.reshape(len(images), -1, self.inputs).copy()  # of its own: what was read from a file is not

    def to_json(self) -> dict[str, Any]:
        return {
            "classes": list(self.classes),
            "longest": self.longest,
            "shape": None if self.shape is None else list(self.shape),
            "step": self.step,
            "permute": self.permute,
        } | ({} if self.sound is None else {"sound": self.sound.to_json()})

    @classmethod
    def from_json(cls, data: Any, tokenizer: Tokenizer | None) -> "Artifacts":
        """The inverse of `to_json`; anything else is a ValueError."""
        found = typed.read(data, Stored)
        if len(set(found.classes)) < max(2, len(found.classes)):
            raise ValueError("expected two or more different classes, found others")
        if sum(part is not None for part in (found.shape, tokenizer, found.sound)) != 1:
            raise ValueError(
                "expected the shape of images, the frames of recordings or a tokenizer, found not just one"
            )
        scaler = None if found.sound is None else found.sound.scaler
        if found.sound is not None and scaler is not None and len(scaler.mean) != found.sound.mel.bands:
            raise ValueError(f"expected a scale for each of {found.sound.mel.bands} bands, found another number")
        if found.shape is not None and not all(0 < side <= LARGEST_SIDE for side in found.shape):
            raise ValueError(f"expected images of up to {LARGEST_SIDE:,} pixels a side, found {list(found.shape)}")
        return cls(tokenizer=tokenizer, **vars(found))


def load_artifacts(folder: Path) -> Artifacts:
    """The labels, the tokenizer and the layout in a folder."""
    content = read_artifact(folder, "labels.json")
    texts = isinstance(content, dict) and content.get("shape") is None and content.get("sound") is None
    tokenizer = tokenizers.load(artifact_path(folder, "tokenizer.json")) if texts else None
    try:
        return Artifacts.from_json(content, tokenizer)
    except ValueError as error:
        raise RunError(
            f"{folder / 'labels.json'}: expected the labels of a run, found something else ({error})"
        ) from error


@dataclass(frozen=True)
class Labelled:
    """Labelled sequences by split."""

    name: str
    artifacts: Artifacts
    train: Part
    valid: Part
    test: Part | None
    fingerprint: str
    notes: list[str]
    files: FileList | None = None


def assemble(
    name: str, artifacts: Artifacts, parts: dict[str, Part], notes: list[str], content: str | None = None
) -> Labelled:
    """The labelled sequences of all splits, with a fingerprint over arrays and artifacts.

    `content` stands for arrays and artifacts that are computed of what was read, and may differ in their last digits
    between machines.
    """
    if content is not None:
        return Labelled(name, artifacts, parts["train"], parts["valid"], parts.get("test"), content, notes)
    digest = hashlib.sha256(json.dumps(artifacts.to_json(), sort_keys=True).encode())
    if artifacts.tokenizer is not None:
        digest.update(tokenizers.fingerprint(artifacts.tokenizer).encode())
    for split, part in parts.items():
        digest.update(f"{split} {part.values.dtype} {part.values.shape}".encode())
        for values in part:
            digest.update(np.ascontiguousarray(values).data)
    return Labelled(name, artifacts, parts["train"], parts["valid"], parts.get("test"), digest.hexdigest(), notes)


def summarize(data: Labelled) -> DataSummary:
    """The rows and tokens of each split, and how often each label occurs in training."""
    parts = {"train": data.train, "valid": data.valid} | ({} if data.test is None else {"test": data.test})
    tokenizer = data.artifacts.tokenizer
    splits: dict[str, dict[str, int]] = {}
    for split, part in parts.items():
        splits[split] = {"rows": len(part.labels), "tokens" if tokenizer else "steps": int(part.lengths.sum())}
        if tokenizer is not None and tokenizer.unknown is not None:
            splits[split]["unknown"] = int(np.count_nonzero(part.values == tokenizer.unknown))
    times = np.bincount(data.train.labels, minlength=len(data.artifacts.classes)).tolist()
    counts = {"labels": dict(zip(data.artifacts.classes, times, strict=True))}
    facts: dict[str, int | str] = {"vocabulary": tokenizer.size} if tokenizer else {}
    if data.artifacts.sound is not None:
        mel = data.artifacts.sound.mel
        facts = {"bands": mel.bands, "frames a second": round(1_000 / mel.hop), "sampling rate": mel.rate}
    return DataSummary(name=data.name, files=data.files, splits=splits, counts=counts, facts=facts, notes=data.notes)
