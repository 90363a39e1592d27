"""From pairs of lines to tokens that are kept in the cache, memory-mapped, a few thousand lines at a time."""

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..core.files import sync_folder
from . import shards, tokenize
from .chars_and_bytes import Chars
from .fingerprints import sha256_of
from .moses import Preparation
from .pair_sources import Part
from .pairs import Pairs
from .sides import Side, sides_from_json, sides_to_json
from .text import DataError, Text
from .tokenizer import Tokenizer, UnknownCharacter, visible

SIDES = ("source", "target")
SPLITS = ("train", "valid", "test")
LINES = 4096  # taken together at a time, if they are no more than
BLOCK = 1 << 23  # bytes
JOINED_LINE = 1 << 13  # characters of a line up to which it may be encoded together with others


@dataclass(frozen=True)
class Work:
    """What has to be known to make tokens."""

    parts: dict[str, Part]
    carved: tuple[str, ...]  # the splits that are taken out of the training part
    share: float
    preparations: tuple[Preparation, Preparation]
    tokenizer: tuple[str, int | None, bool]  # kind, vocabulary, joint
    longest: int
    existing: tuple[Side, Side] | None


@dataclass
class _Count:
    """What became of the lines of a split."""

    empty: int = 0
    torn: int = 0  # without the tabs that they should have
    long: int = 0
    pairs: int = 0
    shared: int = 0  # pairs whose source occurs in training too
    unknown: list[int] = field(default_factory=lambda: [0, 0])  # by side
    tokens: list[int] = field(default_factory=lambda: [0, 0])


@dataclass(frozen=True)
class Kept:
    sides: tuple[Side, Side]
    splits: dict[str, Pairs]
    fingerprint: str
    notes: list[str]


class _Scratch:
    """The lines of one split on their way to tokens, as they are and as prepared, in files that go afterwards."""

    def __init__(self, folder: Path, split: str) -> None:
        self.raw = [folder / f"{split}.{side}.raw" for side in SIDES]
        self.prepared = [folder / f"{split}.{side}.prepared" for side in SIDES]
        self._files: list[IO[bytes]] = []

    def __enter__(self) -> "_Scratch":
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


def make(folder: Path, sources: shards.Sources, settings: dict[str, Any], work: Work) -> Kept:
    """Read, split, prepare, tokenise, and keep."""
    for part in work.parts.values():
        part.check()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        with tempfile.TemporaryDirectory(prefix=".scratch.", dir=folder) as scratch:
            place = Path(scratch)
            counts = {split: _Count() for split in SPLITS}
            lines = {split: _Scratch(place, split) for split in SPLITS}
            _read(work, lines, counts)
            if not counts["train"].pairs:
                raise _too_few(work, "train", counts)
            sides = work.existing or _train(work, lines["train"])
            keys = _Keys()
            splits: dict[str, dict[str, Any]] = {}
            for split in reversed(SPLITS):  # training last: by then it is known which sources to look for in it
                if counts[split].pairs:
                    splits[split] = _encode(place, split, lines[split], sides, work, counts[split], keys)
            for split in SPLITS:
                if not counts[split].pairs:
                    if split != "test" or "test" in work.parts:
                        raise _too_few(work, split, counts)
                    splits.pop(split, None)
            for split in ("valid", "test"):
                counts[split].shared = keys.shared(split)
            origin = sources.record()
            sources.settle()  # after the hashes, so that they are those of what was read
            _settle(folder, place, splits)
    except OSError as error:
        raise DataError(
            f"expected to write token files to {folder}, found: {error.strerror or error}; make room there, "
            "or name another place with RECOLLECT_CACHE"
        ) from None
    shards.write_record(
        folder / "parallel.json",
        {
            "format": shards.FORMAT,
            "settings": settings,
            "sources": origin,
            "sides": sides_to_json(*sides),
            "splits": {split: splits[split] for split in SPLITS if split in splits},
            "notes": _notes(work, counts),
            "fingerprint": _fingerprint(sides_to_json(*sides), splits),
        },
    )
    _forget(folder, splits)
    kept = recall(folder, sources, settings)
    if kept is None:
        raise DataError(f"expected the pairs just written in {folder}, found others; run one at a time")
    return kept


def _read(work: Work, lines: dict[str, _Scratch], counts: dict[str, _Count]) -> None:
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


class _Lines:
    """Prepared lines, as texts to take a vocabulary from."""

    def __init__(self, paths: Sequence[Path], newlines: bool) -> None:
        self._text, self._newlines = Text(tuple(paths)), newlines

    def __iter__(self) -> Iterator[str]:
        return iter(self._text) if self._newlines else (chunk.replace("\n", "") for chunk in self._text)


def _train(work: Work, lines: _Scratch) -> tuple[Side, Side]:
    """Both sides, their vocabularies taken from the training part."""
    kind, vocab, joint = work.tokenizer

    def made(paths: Sequence[Path]) -> Tokenizer:
        # a newline parts words, but among characters it would be one of them, and no sentence has it
        found = tokenize.train(kind, _Lines(paths, newlines=not kind.startswith("chars")), vocab)
        # whoever translates gives sentences that nobody has seen
        if isinstance(found, Chars) and found.unknown is None and found.fallback is None:
            return found.with_unknown()
        return found

    first, second = work.preparations
    if joint:
        both = made(lines.prepared)
        return Side(first, both), Side(second, both)
    return Side(first, made(lines.prepared[:1])), Side(second, made(lines.prepared[1:]))


class _Keys:
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


def _encode(
    place: Path, split: str, lines: _Scratch, sides: tuple[Side, Side], work: Work, count: _Count, keys: _Keys
) -> dict[str, Any]:
    """Write the tokens and the texts of a split; a training pair that is too long is left out."""
    with contextlib.ExitStack() as stack:
        arrays = {
            name: stack.enter_context(_Array(place, f"{split}-{name.replace('_', '-')}", dtype))
            for name, dtype in _ARRAYS.items()
        }
        for name in arrays:
            if name.endswith("_offsets"):
                arrays[name].append(np.zeros(1))
        count.pairs = 0
        for batch in lines.batches():
            raw_source, raw_target, *prepared = (list(some) for some in zip(*batch, strict=True))
            found = [_encode_lines(side, some, split) for side, some in zip(sides, prepared, strict=True)]
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


def _encode_lines(side: Side, lines: list[bytes], split: str) -> tuple[np.ndarray, np.ndarray]:
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


def _too_few(work: Work, split: str, counts: dict[str, _Count]) -> DataError:
    paths = " and ".join(str(path) for path in work.parts.get(split, work.parts["train"]).paths) or "the numbers"
    total = sum(counts[part].pairs for part in ("train", *work.carved))
    if total and (split in work.carved or split == "train"):
        return DataError(
            f"expected source sentences enough to take {100 * work.share:g} % for {' and '.join(work.carved)} each, "
            f"found {total:,} pairs in {paths}, and none for {split}; give more, another share, or files for each part"
        )
    return DataError(
        f"expected pairs for the {split} part, found none that can be used in {paths} (both sides filled, at most "
        f"{work.longest:,} tokens each); look at the files, or allow longer ones"
    )


def _notes(work: Work, counts: dict[str, _Count]) -> list[str]:
    notes: list[str] = []
    if work.carved:
        notes.append(
            f"{' and '.join(work.carved)}: {100 * work.share:g} % of the source sentences"
            + (" each" * (len(work.carved) > 1))
            + ", chosen by their hash; no source sentence is in two parts"
        )
    for split, count in counts.items():
        left_out = {
            "with an empty side": count.empty,
            "without the tab between source and target": count.torn,
            f"longer than {work.longest:,} tokens": count.long if split == "train" else 0,
        }
        some = ", ".join(f"{number:,} {what}" for what, number in left_out.items() if number)
        if some:
            notes.append(f"{split}: {count.pairs:,} pairs; left out: {some}")
        if count.long and split != "train":
            notes.append(f"{split}: {count.long:,} pairs are longer than {work.longest:,} tokens and are kept")
        if count.shared:
            notes.append(f"{split}: {count.shared:,} of {count.pairs:,} source sentences occur in train too")
        shares = [
            f"{100 * unknown / tokens:.3g} % of the {side}"
            for side, unknown, tokens in zip(SIDES, count.unknown, count.tokens, strict=True)
            if unknown
        ]
        if shares:
            notes.append(f"{split}: tokens that are <unk>: {', '.join(shares)}")
    if "test" in work.carved and not counts["test"].pairs:
        notes.append("test: no source sentence fell into it; there is no test part")
    return notes


# ------------------------------------------------------------------------------------------------------ the cache

_TOKENS, _BYTE, _PLACE = np.dtype("<i4"), np.dtype("u1"), np.dtype("<i8")
_ARRAYS = {
    "source": _TOKENS,
    "source_offsets": _PLACE,
    "target": _TOKENS,
    "target_offsets": _PLACE,
    "source_text": _BYTE,
    "source_text_offsets": _PLACE,
    "target_text": _BYTE,
    "target_text_offsets": _PLACE,
}


class _Array:
    """An array written piece by piece, and hashed meanwhile."""

    def __init__(self, place: Path, name: str, dtype: np.dtype[Any]) -> None:
        self.path, self.name, self.dtype = place / name, name, dtype
        self.count = 0
        self._last = 0
        self._digest = hashlib.sha256()

    def __enter__(self) -> "_Array":
        self._file = self.path.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def append(self, values: np.ndarray) -> None:
        data = np.ascontiguousarray(values, self.dtype).tobytes()
        self._digest.update(data)
        self._file.write(data)
        self.count += len(values)

    def append_ends(self, lengths: np.ndarray) -> None:
        """Where rows of these lengths end that follow those before."""
        if len(lengths):
            ends = self._last + np.cumsum(lengths)
            self._last = int(ends[-1])
            self.append(ends)

    def record(self) -> dict[str, Any]:
        sha256 = self._digest.hexdigest()
        return {
            "file": f"{self.name}-{sha256[:16]}.bin",
            "count": self.count,
            "sha256": sha256,
            "edges": _edges(self.path),
        }


def _settle(folder: Path, place: Path, splits: dict[str, dict[str, Any]]) -> None:
    """Rename what was written into place; only the record that is written last makes it count."""
    for split, arrays in splits.items():
        for name, array in arrays.items():
            os.replace(place / f"{split}-{name.replace('_', '-')}", folder / array["file"])
    sync_folder(folder)


def recall(folder: Path, sources: shards.Sources, settings: dict[str, Any]) -> Kept | None:
    """The pairs kept in the cache, if they are whole and the sources are what they were."""
    record = shards.read_record(folder / "parallel.json")
    if record is None or record.get("settings") != settings:
        return None
    same, hashed = sources.match(record.get("sources"))
    if not same:
        return None
    try:
        kept = Kept(
            sides_from_json(record["sides"]),
            {split: _open(folder, arrays) for split, arrays in record["splits"].items()},
            str(record["fingerprint"]),
            [str(note) for note in record["notes"]],
        )
        right = _fingerprint(record["sides"], record["splits"])
    except (OSError, KeyError, TypeError, AttributeError, ValueError):
        return None
    if kept.fingerprint != right or not {"train", "valid"} <= kept.splits.keys() <= set(SPLITS):
        return None
    if hashed:  # so that the next time the stamps suffice
        shards.write_record(folder / "parallel.json", record | {"sources": sources.record()})
    return kept


def _open(folder: Path, arrays: Mapping[str, Mapping[str, Any]]) -> Pairs:
    """The arrays of a split, mapped; ValueError if they are not what the record says, or do not fit together."""
    found: dict[str, np.ndarray] = {}
    for name, dtype in _ARRAYS.items():
        path, count = folder / arrays[name]["file"], arrays[name]["count"]
        if path.parent != folder or path.stat().st_size != count * dtype.itemsize:
            raise ValueError(name)
        if _edges(path) != arrays[name]["edges"]:
            raise ValueError(name)
        found[name] = np.asarray(np.memmap(path, dtype, mode="r", shape=(count,)))  # still mapped, faster to slice
    rows = {len(found[name]) for name in found if name.endswith("_offsets")}
    fit = all(found[f"{name}_offsets"][-1] == len(found[name]) for name in found if not name.endswith("_offsets"))
    if len(rows) != 1 or not fit:
        raise ValueError("offsets")
    return Pairs(**found)


def _fingerprint(sides: Any, splits: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    texts = {split: [arrays[name]["sha256"] for name in _ARRAYS if "_text" in name] for split, arrays in splits.items()}
    return sha256_of({"texts": texts, "sides": sides})


def _edges(path: Path) -> str:
    """A hash of a file's first and last megabyte: enough to know a foreign file, cheap for any size."""
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(shards.EDGE))
        file.seek(max(path.stat().st_size - shards.EDGE, 0))
        digest.update(file.read(shards.EDGE))
    return digest.hexdigest()


def _sweep(folder: Path) -> None:
    """Remove what crashes left."""
    for scratch in folder.glob(".scratch.*"):
        with contextlib.suppress(OSError):
            if time.time() - scratch.stat().st_mtime > shards.STALE:
                shutil.rmtree(scratch, ignore_errors=True)


def _forget(folder: Path, splits: dict[str, dict[str, Any]]) -> None:
    """Remove the arrays of sources that have changed since."""
    current = {array["file"] for arrays in splits.values() for array in arrays.values()}
    for path in folder.glob("*.bin"):
        if path.name not in current:
            with contextlib.suppress(OSError):  # another process has it mapped (Windows), or took it away
                path.unlink(missing_ok=True)
