"""Sentence pairs as tokens in the cache, encoded a few thousand lines at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from ...core import typed
from ...data import tokenizers
from ...data.cache import Entry, EntryWriter, Loaded, hash_json
from ...data.files import DataError, Text
from ...data.tokenizers.base import Tokenizer, UnknownCharacter, visible
from ...data.tokenizers.sentences import SentenceTokenizer, TokenizerPair, pair_from_json, pair_to_json
from .lines import Count, PairPlan, Scratch, SharedSources, describe_counts, read_pairs, report_too_few
from .pairs import SIDES, SPLITS, Pairs

JOINED_LINE = 1 << 13  # characters of a line up to which it may be encoded together with others
_TOKENS, _BYTE, _OFFSET = np.dtype("<i4"), np.dtype("u1"), np.dtype("<i8")


@dataclass(frozen=True)
class Encoded:
    """Pairs by split, with the tokenizers of source and target."""

    tokenizers: TokenizerPair
    splits: dict[str, Pairs]
    fingerprint: str
    notes: list[str]
    left_out: dict[str, int]  # lines of each split


def load_encoded(entry: Entry, plan: PairPlan) -> Encoded:
    """The pairs in the cache; where they are not there, they are made."""
    return entry.load_or_make(_assemble, partial(_make, plan))


def _make(plan: PairPlan, writer: EntryWriter) -> None:
    """Read, split, prepare and tokenise pairs, and write them to the cache."""
    for part in plan.parts.values():
        part.check()
    counts = {split: Count() for split in SPLITS}
    lines = {split: Scratch(writer.folder, split) for split in SPLITS}
    read_pairs(plan, lines, counts)
    if not counts["train"].pairs:
        raise report_too_few(plan, "train", counts)
    pair = plan.existing or _train_tokenizers(plan, lines["train"])
    shared = SharedSources()
    for split in reversed(SPLITS):
        if counts[split].pairs:
            _encode(writer, split, lines[split], pair, plan, counts[split], shared)
    for split in SPLITS:
        if not counts[split].pairs and (split != "test" or "test" in plan.parts):
            raise report_too_few(plan, split, counts)
    for split in ("valid", "test"):
        counts[split].shared = shared.count(split)
    left_out = {split: count.left_out(split) for split, count in counts.items()}
    writer.content = {"sides": pair_to_json(*pair), "notes": describe_counts(plan, counts), "left_out": left_out}


class _Content(TypedDict):
    """What the cache holds beside tokens and texts."""

    sides: dict[str, Any]
    notes: list[str]
    left_out: dict[str, int]


def _assemble(found: Loaded) -> Encoded:
    content = typed.read(found.content, _Content)
    splits = {
        # still mapped, faster to slice
        split: Pairs(**{f.name: np.asarray(found.arrays[f"{split}-{f.name}"]) for f in fields(Pairs)})
        for split in SPLITS
        if f"{split}-source" in found.arrays
    }
    sides = pair_from_json(content["sides"])
    for pairs in splits.values():
        _check_rows(pairs.source, pairs.source_offsets, sides[0].tokenizer.size)
        _check_rows(pairs.target, pairs.target_offsets, sides[1].tokenizer.size)
        _check_rows(pairs.source_text, pairs.source_text_offsets, 256)
        _check_rows(pairs.target_text, pairs.target_text_offsets, 256)
    if not {"train", "valid"} <= splits.keys():
        raise DataError("expected a train and a valid part in the cache, found others")
    fingerprint = _fingerprint(content["sides"], found.hashes, list(splits))
    return Encoded(sides, splits, fingerprint, content["notes"], content["left_out"])


def _check_rows(values: np.ndarray, offsets: np.ndarray, size: int) -> None:
    """Refuse rows in the cache whose values or offsets point to nothing."""
    good = values.ndim == offsets.ndim == 1 and len(offsets) > 1 and offsets[0] == 0 and offsets[-1] == len(values)
    if not good or (np.diff(offsets) < 0).any() or not 0 <= int(values.min()) <= int(values.max()) < size:
        raise DataError(f"expected rows of numbers from 0 to {size - 1:,} in the cache, found others")


def _fingerprint(tokenizer_json: Any, hashes: dict[str, str], splits: list[str]) -> str:
    texts = {split: [hashes[f"{split}-{f.name}"] for f in fields(Pairs) if "_text" in f.name] for split in splits}
    return hash_json({"texts": texts, "sides": tokenizer_json})


class _Lines:
    """Prepared lines as a text to train a tokenizer on."""

    def __init__(self, paths: Sequence[Path], newlines: bool) -> None:
        self._text, self._newlines = Text(tuple(paths)), newlines

    def __iter__(self) -> Iterator[str]:
        return iter(self._text) if self._newlines else (chunk.replace("\n", "") for chunk in self._text)


def _train_tokenizers(plan: PairPlan, lines: Scratch) -> TokenizerPair:
    """The tokenizers of source and target, trained on the training part."""
    kinds, vocab, joint = plan.tokenizer

    def made(kind: str, paths: Sequence[Path]) -> Tokenizer:
        # a newline parts words, but among characters it would be one of them, and no sentence has it
        return tokenizers.train_open(kind, _Lines(paths, newlines=not kind.startswith("chars")), vocab)

    first, second = plan.preparations
    if joint:
        both = made(kinds[0], lines.prepared)
        return SentenceTokenizer(first, both), SentenceTokenizer(second, both)
    return (
        SentenceTokenizer(first, made(kinds[0], lines.prepared[:1])),
        SentenceTokenizer(second, made(kinds[1], lines.prepared[1:])),
    )


class _Rows:
    """Rows of unequal length, end to end: an array of values and one of offsets."""

    def __init__(self, writer: EntryWriter, name: str, dtype: np.dtype[Any]) -> None:
        self._values, self._offsets = writer.add_array(name, dtype), writer.add_array(f"{name}_offsets", _OFFSET)
        self._offsets.append(np.zeros(1))
        self._end = 0

    def append(self, values: np.ndarray, lengths: np.ndarray) -> None:
        self._values.append(values)
        if len(lengths):
            ends = self._end + np.cumsum(lengths)
            self._end = int(ends[-1])
            self._offsets.append(ends)


def _encode(
    writer: EntryWriter,
    split: str,
    lines: Scratch,
    pair: TokenizerPair,
    plan: PairPlan,
    count: Count,
    shared: SharedSources,
) -> None:
    """Write the tokens and the texts of a split; a training pair that is too long is left out."""
    tokens = [_Rows(writer, f"{split}-{name}", _TOKENS) for name in SIDES]
    texts = [_Rows(writer, f"{split}-{name}_text", _BYTE) for name in SIDES]
    count.pairs = 0
    for batch in lines.batches():
        raw_source, raw_target, *prepared = (list(some) for some in zip(*batch, strict=True))
        found = [encode_lines(tokenizer, some, split) for tokenizer, some in zip(pair, prepared, strict=True)]
        both = np.stack([lengths for _, lengths in found])
        fits = both.max(axis=0) <= plan.longest
        count.long += int(np.count_nonzero(~fits))
        good = both.min(axis=0) > 0
        count.empty += int(np.count_nonzero(~good))
        if split == "train":
            good &= fits
        count.pairs += int(np.count_nonzero(good))
        for index, (tokenizer, (ids, lengths)) in enumerate(zip(pair, found, strict=True)):
            ids = ids[np.repeat(good, lengths)]
            tokens[index].append(ids, lengths[good])
            count.tokens[index] += len(ids)
            if tokenizer.unknown is not None:
                count.unknown[index] += int(np.count_nonzero(ids == tokenizer.unknown))
        for index, raw in enumerate((raw_source, raw_target)):
            used = [line for line, stays in zip(raw, good.tolist(), strict=True) if stays]
            texts[index].append(np.frombuffer(b"".join(used), np.uint8), np.array([len(line) for line in used]))
            if index == 0 and len(plan.carved) < 2:
                shared.add(split, used)
    if not count.pairs:
        writer.remove_arrays(f"{split}-")


def encode_lines(sentences: SentenceTokenizer, lines: list[bytes], split: str) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of many prepared lines end to end, and how many each has."""
    tokenizer, texts = sentences.tokenizer, [line.decode() for line in lines]
    together = _encode_together(tokenizer, texts)
    if together is not None:
        return together
    found: list[np.ndarray] = []
    for text in texts:
        try:
            found.append(tokenizer.encode(text))
        except UnknownCharacter as error:
            where = f"character {error.index + 1:,} of {visible(text[:60])!r} in the {split} part"
            raise UnknownCharacter(error.character, error.index, error.size, where) from None
    return np.concatenate(found).astype(np.int32), np.array([len(ids) for ids in found], np.int64)


def _encode_together(tokenizer: Tokenizer, texts: list[str]) -> tuple[np.ndarray, np.ndarray] | None:
    """The same, many times faster, for tokenisers that never join a newline to what stands around it.

    None where that does not hold: a newline has no number of its own, a line is so long that it might be cut
    elsewhere, or a line holds what reads as a newline.
    """
    if tokenizer.kind.startswith("chars") or max(map(len, texts)) > JOINED_LINE:
        return None
    newline = tokenizer.encode("\n")
    ids = np.concatenate(list(tokenizer.encode_stream([*(f"{text}\n" for text in texts)])))
    ends = np.flatnonzero(ids == newline[0])
    if len(newline) != 1 or len(ends) != len(texts) or ends[-1] != len(ids) - 1:
        return None
    lengths = np.diff(ends, prepend=-1) - 1
    return np.delete(ids, ends).astype(np.int32), lengths
