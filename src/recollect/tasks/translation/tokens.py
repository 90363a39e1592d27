"""From pairs of lines to tokens that are kept in the cache, memory-mapped, a few thousand lines at a time."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...data import shards, tokenizers
from ...data.files import DataError, Text
from ...data.sentences import Side
from ...data.tokenizers.base import Tokenizer, UnknownCharacter, visible
from ...data.tokenizers.chars_and_bytes import Chars
from .cache import Kept, arrays_of, keep, recall, settle, sweep
from .counts import Count, notes_of, too_few
from .lines import Scratch, SharedSources, read
from .plan import SIDES, SPLITS, Work

JOINED_LINE = 1 << 13  # characters of a line up to which it may be encoded together with others


def make(folder: Path, sources: shards.Sources, settings: dict[str, Any], work: Work) -> Kept:
    """Read, split, prepare, tokenise, and keep."""
    for part in work.parts.values():
        part.check()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        with tempfile.TemporaryDirectory(prefix=".scratch.", dir=folder) as scratch:
            place = Path(scratch)
            counts = {split: Count() for split in SPLITS}
            lines = {split: Scratch(place, split) for split in SPLITS}
            read(work, lines, counts)
            if not counts["train"].pairs:
                raise too_few(work, "train", counts)
            sides = work.existing or _train_sides(work, lines["train"])
            keys = SharedSources()
            splits: dict[str, dict[str, Any]] = {}
            for split in reversed(SPLITS):  # training last: by then it is known which sources to look for in it
                if counts[split].pairs:
                    splits[split] = _encode(place, split, lines[split], sides, work, counts[split], keys)
            for split in SPLITS:
                if not counts[split].pairs:
                    if split != "test" or "test" in work.parts:
                        raise too_few(work, split, counts)
                    splits.pop(split, None)
            for split in ("valid", "test"):
                counts[split].shared = keys.shared(split)
            origin = sources.record()
            sources.settle()  # after the hashes, so that they are those of what was read
            settle(folder, place, splits)
    except OSError as error:
        raise DataError(
            f"expected to write token files to {folder}, found: {error.strerror or error}; make room there, "
            "or name another place with RECOLLECT_CACHE"
        ) from None
    keep(folder, settings, origin, sides, splits, notes_of(work, counts))
    kept = recall(folder, sources, settings)
    if kept is None:
        raise DataError(f"expected the pairs just written in {folder}, found others; run one at a time")
    return kept


class _Lines:
    """Prepared lines, as texts to take a vocabulary from."""

    def __init__(self, paths: Sequence[Path], newlines: bool) -> None:
        self._text, self._newlines = Text(tuple(paths)), newlines

    def __iter__(self) -> Iterator[str]:
        return iter(self._text) if self._newlines else (chunk.replace("\n", "") for chunk in self._text)


def _train_sides(work: Work, lines: Scratch) -> tuple[Side, Side]:
    """Both sides, their vocabularies taken from the training part."""
    kind, vocab, joint = work.tokenizer

    def made(paths: Sequence[Path]) -> Tokenizer:
        # a newline parts words, but among characters it would be one of them, and no sentence has it
        found = tokenizers.train(kind, _Lines(paths, newlines=not kind.startswith("chars")), vocab)
        # whoever translates gives sentences that nobody has seen
        if isinstance(found, Chars) and found.unknown is None and found.fallback is None:
            return found.with_unknown()
        return found

    first, second = work.preparations
    if joint:
        both = made(lines.prepared)
        return Side(first, both), Side(second, both)
    return Side(first, made(lines.prepared[:1])), Side(second, made(lines.prepared[1:]))


def _encode(
    place: Path, split: str, lines: Scratch, sides: tuple[Side, Side], work: Work, count: Count, keys: SharedSources
) -> dict[str, Any]:
    """Write the tokens and the texts of a split; a training pair that is too long is left out."""
    with arrays_of(place, split) as arrays:
        count.pairs = 0
        for batch in lines.batches():
            raw_source, raw_target, *prepared = (list(some) for some in zip(*batch, strict=True))
            found = [encode_lines(side, some, split) for side, some in zip(sides, prepared, strict=True)]
            both = np.stack([lengths for _, lengths in found])
            fits = both.max(axis=0) <= work.longest
            count.long += int(np.count_nonzero(~fits))
            good = both.min(axis=0) > 0
            count.empty += int(np.count_nonzero(~good))
            if split == "train":
                good &= fits
            count.pairs += int(np.count_nonzero(good))
            for index, (side, (ids, lengths)) in enumerate(zip(sides, found, strict=True)):
                ids = ids[np.repeat(good, lengths)]
                arrays[SIDES[index]].append(ids)
                arrays[f"{SIDES[index]}_offsets"].append_ends(lengths[good])
                count.tokens[index] += len(ids)
                if side.unknown is not None:
                    count.unknown[index] += int(np.count_nonzero(ids == side.unknown))
            for name, raw in zip(SIDES, (raw_source, raw_target), strict=True):
                kept = [line for line, stays in zip(raw, good.tolist(), strict=True) if stays]
                arrays[f"{name}_text"].append(np.frombuffer(b"".join(kept), np.uint8))
                arrays[f"{name}_text_offsets"].append_ends(np.array([len(line) for line in kept], np.int64))
                if name == "source" and len(work.carved) < 2:
                    keys.note(split, kept)
    return {name: array.record() for name, array in arrays.items()}


def encode_lines(side: Side, lines: list[bytes], split: str) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of many prepared lines end to end, and how many each has."""
    tokenizer, texts = side.tokenizer, [line.decode() for line in lines]
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
