"""Sentence pairs before encoding: read from their sources, assigned to splits, counted, kept in scratch files."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ...data.files import DataError
from ...data.moses import Preparation
from ...data.tokenizers.sentences import TokenizerPair
from .pairs import SIDES
from .sources import Part

LINES = 4096  # lines of a batch, at most, and
BLOCK = 1 << 23  # bytes of it


@dataclass(frozen=True)
class PairPlan:
    """How pairs become tokens: the parts they are read from, the splits made of them, and the tokenizers."""

    parts: dict[str, Part]
    carved: tuple[str, ...]  # the splits that are taken out of the training part
    share: float  # of the source sentences, for each of these
    preparations: tuple[Preparation, Preparation]
    tokenizer: tuple[tuple[str, str], int | None, bool]  # kinds of source and target, vocabulary, joint
    longest: int  # tokens of a sentence that is trained on
    existing: TokenizerPair | None


@dataclass
class Count:
    """Numbers of lines of a split: used, and left out by reason."""

    empty: int = 0
    malformed: int = 0  # without the tabs that they should have
    long: int = 0
    pairs: int = 0
    shared: int = 0  # pairs whose source occurs in training too
    unknown: list[int] = field(default_factory=lambda: [0, 0])  # by side
    tokens: list[int] = field(default_factory=lambda: [0, 0])

    def left_out(self, split: str) -> int:
        """The lines that were not used; pairs that are long are left out of training alone."""
        return self.empty + self.malformed + (self.long if split == "train" else 0)


class Scratch:
    """Temporary files with the lines of one split, raw and prepared."""

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


def read_pairs(plan: PairPlan, lines: dict[str, Scratch], counts: dict[str, Count]) -> None:
    """Write every usable pair of lines to the scratch files of its split."""
    first, second = plan.preparations
    with contextlib.ExitStack() as stack:
        for scratch in lines.values():
            stack.enter_context(scratch)
        for own, part in plan.parts.items():
            for pair in part:
                if pair is None:
                    counts[own].malformed += 1
                    continue
                prepared = first.apply(pair[0]), second.apply(pair[1])
                if not all(prepared):
                    counts[own].empty += 1
                    continue
                split = _split(_key(pair[0]), plan) if own == "train" and plan.carved else own
                lines[split].write(pair, prepared)
                counts[split].pairs += 1


def _key(source: str) -> int:
    """64 bits of the hash of a source sentence, without regard to case and spacing."""
    return int.from_bytes(hashlib.sha256(" ".join(source.casefold().split()).encode()).digest()[:8])


def _split(key: int, plan: PairPlan) -> str:
    """The split of a key: the lowest share is for validation, the next for the test, if these are carved."""
    if "valid" in plan.carved and key < plan.share * 2**64:
        return "valid"
    if "test" in plan.carved and plan.share * 2**64 <= key < 2 * plan.share * 2**64:
        return "test"
    return "train"


class SharedSources:
    """Counts the source sentences of validation and test that occur in training too; training has to come last."""

    def __init__(self) -> None:
        self._of: dict[str, list[int]] = {}
        self._met: dict[int, bool] = {}  # whether a source of another split occurs in training

    def add(self, split: str, sources: Iterable[bytes]) -> None:
        keys = [_key(source.decode()) for source in sources]
        if split == "train":
            for key in keys:
                if key in self._met:
                    self._met[key] = True
            return
        self._of.setdefault(split, []).extend(keys)
        self._met.update(dict.fromkeys(keys, False))

    def count(self, split: str) -> int:
        return sum(self._met[key] for key in self._of.get(split, []))


def report_too_few(plan: PairPlan, split: str, counts: dict[str, Count]) -> DataError:
    """The error for a split without a pair."""
    paths = " and ".join(str(path) for path in plan.parts.get(split, plan.parts["train"]).paths) or "the numbers"
    total = sum(counts[part].pairs for part in ("train", *plan.carved))
    if total and (split in plan.carved or split == "train"):
        return DataError(
            f"expected source sentences enough to take {100 * plan.share:g} % for {' and '.join(plan.carved)} each, "
            f"found {total:,} pairs in {paths}, and none for {split}; give more, another share, or files for each part"
        )
    return DataError(
        f"expected pairs for the {split} part, found none that can be used in {paths} (both sides filled, at most "
        f"{plan.longest:,} tokens each); look at the files, or allow longer ones"
    )


def describe_counts(plan: PairPlan, counts: dict[str, Count]) -> list[str]:
    """Notes for readers of results: how splits were made, what was left out, shared sources, unknown tokens."""
    notes: list[str] = []
    if plan.carved:
        notes.append(
            f"{' and '.join(plan.carved)}: {100 * plan.share:g} % of the source sentences"
            f"{' each' if len(plan.carved) > 1 else ''}, chosen by their hash; no source sentence is in two parts"
        )
    for split, count in counts.items():
        left_out = {
            "with an empty side": count.empty,
            "without the tab between source and target": count.malformed,
            f"longer than {plan.longest:,} tokens": count.long if split == "train" else 0,
        }
        some = ", ".join(f"{number:,} {what}" for what, number in left_out.items() if number)
        if some:
            notes.append(f"{split}: {count.pairs:,} pairs; left out: {some}")
        if count.long and split != "train":
            notes.append(f"{split}: {count.long:,} pairs are longer than {plan.longest:,} tokens and are kept")
        if count.shared:
            notes.append(f"{split}: {count.shared:,} of {count.pairs:,} source sentences occur in train too")
        shares = [
            f"{100 * unknown / tokens:.3g} % of the {side}"
            for side, unknown, tokens in zip(SIDES, count.unknown, count.tokens, strict=True)
            if unknown
        ]
        if shares:
            notes.append(f"{split}: tokens that are <unk>: {', '.join(shares)}")
    if "test" in plan.carved and not counts["test"].pairs:
        notes.append("test: no source sentence fell into it; there is no test part")
    return notes
