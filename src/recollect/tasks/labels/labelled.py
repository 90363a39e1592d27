"""Labelled sequences: arrays by split, and the part of them that a run folder stores."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...data import tokenizers
from ...data.tokenizers.base import LONGEST_WORD, Tokenizer
from .settings import StepName


class Part(NamedTuple):
    """The labelled sequences of one split."""

    values: np.ndarray  # the tokens of all rows, end to end; of images N T D, from 0 to 255
    lengths: np.ndarray  # N
    labels: np.ndarray  # N, numbers of classes


@dataclass(frozen=True, kw_only=True)
class Artifacts:
    """What a run folder stores of its data: names of the classes, the tokenizer, the layout of images."""

    classes: tuple[str, ...]
    tokenizer: Tokenizer | None = None
    longest: int = 1_000  # tokens of a text that are read
    shape: tuple[int, int] | None = None  # of an image: rows, columns
    step: StepName = "pixel"
    permute: int | None = None

    @property
    def inputs(self) -> int:
        """The size of a model's input: of the vocabulary, or numbers of a step."""
        if self.tokenizer is not None:
            return self.tokenizer.size
        assert self.shape is not None
        return self.shape[1] if self.step == "row" else 1

    def encode(self, text: str) -> np.ndarray:
        """The first `longest` tokens of a text."""
        assert self.tokenizer is not None
        # no token is longer than a word may be, so the rest of a very long text need not be read
        return self.tokenizer.encode(text[: self.longest * (LONGEST_WORD + 1)])[: self.longest]

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
        }

    @classmethod
    def from_json(cls, data: Any, tokenizer: Tokenizer | None) -> "Artifacts":
        """The inverse of `to_json`; anything else is a ValueError, TypeError or KeyError."""
        classes, shape = [str(name) for name in data["classes"]], data["shape"]
        if len(classes) < 2 or (shape is None) == (tokenizer is None) or data["step"] not in ("pixel", "row"):
            raise ValueError("these are not the labels of a run")
        return cls(
            classes=tuple(classes),
            tokenizer=tokenizer,
            longest=int(data["longest"]),
            shape=None if shape is None else (int(shape[0]), int(shape[1])),
            step=data["step"],
            permute=None if data["permute"] is None else int(data["permute"]),
        )


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


def assemble(name: str, artifacts: Artifacts, parts: dict[str, Part], notes: list[str]) -> Labelled:
    """The labelled sequences of all splits, with a fingerprint over arrays and artifacts."""
    digest = hashlib.sha256(json.dumps(artifacts.to_json(), sort_keys=True).encode())
    if artifacts.tokenizer is not None:
        digest.update(tokenizers.fingerprint(artifacts.tokenizer).encode())
    for split, part in parts.items():
        digest.update(f"{split} {part.values.dtype} {part.values.shape}".encode())
        for values in part:
            digest.update(np.ascontiguousarray(values).data)
    return Labelled(name, artifacts, parts["train"], parts["valid"], parts.get("test"), digest.hexdigest(), notes)
