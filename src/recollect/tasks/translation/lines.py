"""The lines of pairs: read, put among those of their split by the hash of the source, and kept aside until encoded."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from .counts import Count
from .plan import SIDES, Work

LINES = 4096  # taken together at a time, if they are no more than
BLOCK = 1 << 23  # bytes


class Scratch:
    """The lines of one split on their way to tokens, as they are and as prepared, in files that go afterwards."""

    def __init__(self, folder: Path, split: str) -> None:
        self.raw = [folder / f"{split}.{side}.raw" for side in SIDES]
        self.prepared = [folder / f"{split}.{side}.prepared" for side in SIDES]
        self._files: list[IO[bytes]] = []

    def __enter__(self) -> "Scratch":
        self._files = [path.open("wb") for path in (*self.raw, *self.prepared)]
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def write(self, raw: tuple[str, str], prepared: tuple[str, str]) -> None:
        for file, line in zip(self._files, (*raw, *prepared), strict=True):
            file.write(line.encode() + b"\n")

    def batches(self) -> Iterator[list[tuple[bytes, ...]]]:
        """The raw lines of source and target with the prepared ones, some at a time."""
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(path.open("rb")) for path in (*self.raw, *self.prepared)]
            batch: list[tuple[bytes, ...]] = []
            size = 0
            for row in zip(*opened, strict=True):  # a file of bytes ends its lines at \n alone
                batch.append(tuple(line[:-1] for line in row))
                size += sum(map(len, row))
                if len(batch) == LINES or size > BLOCK:
                    yield batch
                    batch, size = [], 0
            if batch:
                yield batch


def read(work: Work, lines: dict[str, Scratch], counts: dict[str, Count]) -> None:
    """Put every usable pair of lines among those of its split."""
    first, second = work.preparations
    with contextlib.ExitStack() as stack:
        for scratch in lines.values():
            stack.enter_context(scratch)
        for own, part in work.parts.items():
            for pair in part:
                if pair is None:
                    counts[own].torn += 1
                    continue
                prepared = first.apply(pair[0]), second.apply(pair[1])
                if not all(prepared):
                    counts[own].empty += 1
                    continue
                split = _split(_key(pair[0]), work) if own == "train" and work.carved else own
                lines[split].write(pair, prepared)
                counts[split].pairs += 1


def _key(source: str) -> int:
    """64 bits of a source sentence, the same however it is spaced and whichever of its letters are large."""
    return int.from_bytes(hashlib.sha256(" ".join(source.casefold().split()).encode()).digest()[:8])


def _split(key: int, work: Work) -> str:
    """The lowest keys are for validation, the next for the test, wherever that part is not there already."""
    if "valid" in work.carved and key < work.share * 2**64:
        return "valid"
    if "test" in work.carved and work.share * 2**64 <= key < 2 * work.share * 2**64:
        return "test"
    return "train"


class SharedSources:
    """Which source sentences of validation and test occur in training too."""

    def __init__(self) -> None:
        self._of: dict[str, list[int]] = {}
        self._looked: dict[int, bool] = {}  # whether a source of another part was met in training

    def note(self, split: str, sources: Iterable[bytes]) -> None:
        keys = [_key(source.decode()) for source in sources]
        if split == "train":
            for key in keys:
                if key in self._looked:
                    self._looked[key] = True
            return
        self._of.setdefault(split, []).extend(keys)
        self._looked.update(dict.fromkeys(keys, False))

    def shared(self, split: str) -> int:
        return sum(self._looked[key] for key in self._of.get(split, []))
