"""Character tokenizer, optionally with bytes for characters outside the vocabulary; and byte tokenizer."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np

from ..files import DataError
from .base import FORMAT, UNKNOWN, OfBytes, UnknownCharacter, code_points, field_of, smallest, utf8

Fallback = Literal["bytes"] | None


class Chars(OfBytes):
    """A character tokenizer; ids are in the order of code points.

    `<unk>` and the 256 bytes are there only when asked for, after the characters, so that adding one moves no other.
    """

    kind = "chars"

    def __init__(self, characters: Iterable[str], *, unknown: bool = False, fallback: Fallback = None) -> None:
        self.characters = "".join(sorted(set(characters)))
        if not self.characters:
            raise DataError("expected at least one character for a vocabulary, found none; give it text")
        if fallback not in (None, "bytes"):
            raise DataError(f"expected the fallback bytes or none, found {fallback!r}")
        if unknown and fallback:
            raise DataError("expected <unk> or bytes for the characters a vocabulary lacks, found both; choose one")
        known = len(self.characters)
        self.fallback: Fallback = fallback
        self.unknown = known if unknown else None
        self.pieces = [utf8(c) for c in self.characters]
        if unknown:
            self.pieces.append("\ufffd".encode())
        if fallback:
            self.pieces += [bytes([b]) for b in range(256)]
        codes = code_points(self.characters)
        self._lacking = known  # marks what is not in the vocabulary; it is also the number of <unk>
        self._table = np.full(int(codes[-1]) + 2, known, np.dtype("<u4"))
        self._table[codes] = np.arange(known)

    @classmethod
    def train(cls, texts: Iterable[str], vocab: int | None = None, *, fallback: Fallback = None) -> "Chars":
        """Train on a text; with `vocab`, its most frequent characters and <unk> or bytes for the others."""
        counts = _count_characters(texts)
        present = np.flatnonzero(counts)
        extra = 256 if fallback else 1
        if vocab is None or len(present) + (256 if fallback else 0) <= vocab:
            return cls(map(chr, present), fallback=fallback)
        if vocab <= extra:
            raise DataError(f"expected a vocabulary of more than {extra} for chars, found {vocab}; ask for more")
        # stable: among characters of one frequency the lower code point stays
        frequent = present[np.argsort(-counts[present], kind="stable")[: vocab - extra]]
        return cls(map(chr, frequent), unknown=not fallback, fallback=fallback)

    @property
    def closed(self) -> bool:
        """Whether characters outside the vocabulary are refused."""
        return self.unknown is None and self.fallback is None

    def with_unknown(self) -> "Chars":
        return Chars(self.characters, unknown=True)

    def lacking(self, texts: Iterable[str]) -> dict[str, int]:
        """Counts of the characters of a text that are not in the vocabulary."""
        counts = _count_characters(texts)
        counts[code_points(self.characters)] = 0
        return {chr(code): int(counts[code]) for code in np.flatnonzero(counts)}

    def encode(self, text: str) -> np.ndarray:
        return self._encode(text, 0)

    def encode_stream(self, chunks: Iterable[str]) -> Iterator[np.ndarray]:
        at = 0
        for chunk in chunks:
            if chunk:
                yield self._encode(chunk, at)
            at += len(chunk)

    def _encode(self, text: str, at: int) -> np.ndarray:
        codes = code_points(text)
        ids = self._table[np.minimum(codes, len(self._table) - 1)]
        if self.unknown is None:
            lacking = ids == self._lacking
            if lacking.any():
                if self.fallback is None:
                    index = int(lacking.argmax())
                    raise UnknownCharacter(text[index], at + index, self.size)
                ids = self._spell(codes, ids, lacking)
        return ids.astype(smallest(self.size))

    def _spell(self, codes: np.ndarray, ids: np.ndarray, lacking: np.ndarray) -> np.ndarray:
        """Replace each character outside the vocabulary by its bytes."""
        spelt = codes[lacking].tobytes().decode("utf-32-le").encode("utf-8")
        lengths = 1 + sum((codes >= bound).astype(np.intp) for bound in (0x80, 0x800, 0x10000))
        times = np.where(lacking, lengths, 1)
        ids = np.repeat(ids, times)
        ids[np.repeat(lacking, times)] = np.frombuffer(spelt, np.uint8) + np.uint32(len(self.characters))
        return ids

    def token(self, id: int) -> str:
        if id == self.unknown:
            return UNKNOWN
        if id >= len(self.characters):
            return f"<0x{id - len(self.characters):02X}>" if id < self.size else super().token(id)
        return super().token(id)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "kind": self.kind,
            "characters": self.characters,
            "unknown": self.unknown is not None,
            "fallback": self.fallback,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Chars":
        characters = field_of(data, "characters", str)
        if list(characters) != sorted(set(characters)):
            raise DataError(
                "expected each character once, in order, in tokenizer.json, found others; use the file of the run"
            )
        return cls(
            characters,
            unknown=field_of(data, "unknown", bool),
            fallback=data.get("fallback"),
        )


def _count_characters(texts: Iterable[str]) -> np.ndarray:
    counts = np.zeros(0x110000, np.int64)
    for text in texts:
        some = np.bincount(code_points(text))
        counts[: len(some)] += some
    return counts


class Bytes(OfBytes):
    """A tokenizer of bytes: those of a text as UTF-8, and whatever else a file holds.

    A byte that is no UTF-8 comes as a lone surrogate, as `files.chunks` reads it with `exact`.
    """

    kind = "bytes"
    unknown = None

    def __init__(self) -> None:
        self.pieces = [bytes([b]) for b in range(256)]

    @classmethod
    def train(cls, texts: Iterable[str], vocab: int | None = None) -> "Bytes":
        if vocab not in (None, 256):
            raise DataError(f"expected a vocabulary of 256 for bytes, found {vocab}; leave it out")
        return cls()

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(utf8(text, "surrogateescape"), np.uint8).copy()

    def encode_stream(self, chunks: Iterable[str]) -> Iterator[np.ndarray]:
        return (self.encode(chunk) for chunk in chunks if chunk)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "kind": self.kind}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Bytes":
        return cls()
