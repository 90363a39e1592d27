"""Captions as tokens: a vocabulary from the training part, and the tokens of every part with their pictures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...data.cache import Loaded, hash_json
from ...data.file_lists import list_files
from ...data.files import DataError
from ...data.moses import Preparation
from ...data.tokenizers.sentences import SentenceTokenizer
from ...data.tokenizers.words import Words
from .captioned import Artifacts, Captioned, CaptionedRows, Part
from .scenes import SPLITS
from .sources import PictureSource

MANY = 5_000  # training captions from which on rare words are left out


def assemble(
    source: PictureSource, found: Loaded, pixels: int, least: int | None, longest: int, artifacts: Artifacts | None
) -> Captioned:
    """Captioned pictures with a vocabulary of the training captions, or that of `artifacts`."""
    notes: list[str] = list(found.content["notes"])
    splits = used_splits(found, "images", source, "picture", notes)
    tokenizer = tokenizer_of(splits["train"]["captions"], least) if artifacts is None else artifacts.tokenizer
    parts = {
        name: _part(split, tokenizer, longest if name == "train" else None, notes) for name, split in splits.items()
    }
    notes += note_unknown(parts, tokenizer)
    about = [[name, split["sha256"], split["name"], split["captions"]] for name, split in sorted(splits.items())]
    return Captioned(
        name=source.name,
        tokenizer=tokenizer,
        pixels=pixels,
        train=parts["train"],
        valid=parts["valid"],
        test=parts.get("test"),
        fingerprint=hash_json([pixels, about, tokenizer.to_json()]),
        notes=notes,
        mirrored=source.mirrored,
        files=list_files(source.paths, encoding=None),
    )


class Source(Protocol):
    """Where captioned things come from."""

    name: str
    whole: bool  # whether every split is the whole source


def used_splits(
    found: Loaded, pixels: str, source: Source, noun: str, notes: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """What the cache holds of each split, its arrays under the name `pixels`; training and validation are there."""
    splits: dict[str, dict[str, Any]] = {
        split: lists | {pixels: found.arrays[split], "sha256": found.hashes[split], "count": len(lists["name"])}
        for split, lists in found.content["splits"].items()
    }
    if source.whole:
        splits = {split: splits["valid"] for split in SPLITS if "valid" in splits}
    for split in ("train", "valid"):
        if split not in splits:
            total = sum(part["count"] for part in splits.values())
            some = f"{total:,} {noun}s in all" if total else "; ".join(notes) or f"no {noun} that can be read"
            raise DataError(
                f"expected {noun}s for the {split} part of {source.name}, found none ({some}); give more {noun}s or "
                "another share"
            )
    return splits


def tokenizer_of(captions: Iterable[Sequence[str]], least: int | None = None) -> SentenceTokenizer:
    """The vocabulary of training captions; see `words_of`."""
    return SentenceTokenizer(Preparation("captions", lower=True), words_of(captions, least))


def note_unknown(parts: Mapping[str, CaptionedRows], tokenizer: SentenceTokenizer) -> Iterator[str]:
    """A line for each part with unknown words."""
    for name, part in parts.items():
        if tokenizer.unknown is not None and (share := float((part.tokens == tokenizer.unknown).mean())):
            yield f"{name}: {100 * share:.3g} % of the words are unknown"


def words_of(captions: Iterable[Sequence[str]], least: int | None = None) -> Words:
    """A tokenizer of the words that occur at least `least` times, the most frequent first."""
    lines = [f"{caption}\n" for some in captions for caption in some]
    least = (5 if len(lines) >= MANY else 1) if least is None else least
    every = Words.train(lines)
    counts = np.zeros(every.size, np.int64)
    for line in lines:
        np.add.at(counts, every.encode(line[:-1]), 1)
    often = int(np.count_nonzero(counts[2:] >= least))
    if not often:
        raise DataError(f"expected words that occur at least {least} times in training, found none; lower least")
    return Words(every.words[: 2 + often], spaceless=every.spaceless)


class Encoded(NamedTuple):
    """The captions of a split as tokens, and which of its rows and captions those are."""

    rows: list[int]
    kept: list[list[int]]  # of each row, the captions that are used, by their number there
    texts: list[list[str]]
    tokens: np.ndarray  # int32, end to end
    offsets: np.ndarray
    first: np.ndarray


def encode_captions(
    rows: Sequence[Sequence[str]], tokenizer: SentenceTokenizer, longest: int | None, notes: list[str]
) -> Encoded:
    """The captions of a split as tokens; with `longest`, without those that are longer."""
    tokens, first, texts, used, kept, long, total = [], [0], [], [], [], 0, 0
    for row, captions in enumerate(rows):
        encoded = [tokenizer.encode(caption) for caption in captions]
        own = [number for number, ids in enumerate(encoded) if longest is None or len(ids) <= longest]
        long += len(captions) - len(own)
        if not own:
            continue
        tokens += [encoded[number] for number in own]
        total += len(own)
        used.append(row)
        kept.append(own)
        texts.append([captions[number] for number in own])
        first.append(total)
    if long:
        notes.append(f"train: {long:,} captions of more than {longest} words are left out")
    if not used:
        raise DataError(f"expected captions of at most {longest} words in training, found none; allow longer ones")
    ends = np.cumsum([0, *map(len, tokens)])
    return Encoded(used, kept, texts, np.concatenate(tokens).astype(np.int32), ends, np.array(first))


def _part(split: dict[str, Any], tokenizer: SentenceTokenizer, longest: int | None, notes: list[str]) -> Part:
    """The pictures of a split with their captions as tokens; with `longest`, without those that are longer."""
    found = encode_captions(split["captions"], tokenizer, longest, notes)
    images = split["images"] if len(found.rows) == split["count"] else split["images"][found.rows]
    named = [
        split["named"][row][number]
        for row, own in zip(found.rows, found.kept, strict=True)
        if split["named"][row] is not None
        for number in own
    ]
    scenic = bool(named)
    return Part(
        images=images,
        names=[split["name"][row] for row in found.rows],
        captions=found.texts,
        tokens=found.tokens,
        offsets=found.offsets,
        first=found.first,
        boxes=np.array([split["boxes"][row] for row in found.rows]) if scenic else None,
        named=np.concatenate([np.array(some, np.int8) for some in named]) if scenic else None,
        held_out=np.array([split["held_out"][row] for row in found.rows], bool) if scenic else None,
    )
