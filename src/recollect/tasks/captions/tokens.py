"""Captions as tokens: a vocabulary from the training part, and the tokens of every part with their pictures."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...data.cache import Loaded, hash_json
from ...data.file_lists import list_files
from ...data.files import DataError
from ...data.moses import Preparation
from ...data.tokenizers.sentences import SentenceTokenizer
from ...data.tokenizers.words import Words
from .captioned import Artifacts, Captioned, Part
from .scenes import SPLITS
from .sources import PictureSource

MANY = 5_000  # training captions from which on rare words are left out


def assemble(
    source: PictureSource, found: Loaded, pixels: int, least: int | None, longest: int, artifacts: Artifacts | None
) -> Captioned:
    """Captioned pictures with a vocabulary of the training captions, or that of `artifacts`."""
    splits: dict[str, dict[str, Any]] = {
        split: rows | {"images": found.arrays[split], "sha256": found.hashes[split], "count": len(rows["name"])}
        for split, rows in found.content["splits"].items()
    }
    notes: list[str] = list(found.content["notes"])
    if source.whole:
        splits = {split: splits["valid"] for split in SPLITS if "valid" in splits}
    for split in ("train", "valid"):
        if split not in splits:
            total = sum(part["count"] for part in splits.values())
            some = f"{total:,} pictures in all" if total else "; ".join(notes) or "no picture that can be read"
            raise DataError(
                f"expected pictures for the {split} part of {source.name}, found none ({some}); give more pictures, "
                "another share, or lists of each part"
            )
    if artifacts is None:
        tokenizer = SentenceTokenizer(Preparation("captions", lower=True), words_of(splits["train"]["captions"], least))
    else:
        tokenizer = artifacts.tokenizer
    parts = {
        name: _part(split, tokenizer, longest if name == "train" else None, notes) for name, split in splits.items()
    }
    for name, part in parts.items():
        if tokenizer.unknown is not None and (share := float((part.tokens == tokenizer.unknown).mean())):
            notes.append(f"{name}: {100 * share:.3g} % of the words are unknown")
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


def _part(split: dict[str, Any], tokenizer: SentenceTokenizer, longest: int | None, notes: list[str]) -> Part:
    """The captions of a split as tokens; with `longest`, without those that are longer."""
    tokens, named, first, texts, rows, long = [], [], [0], [], [], 0
    total = 0
    for row, captions in enumerate(split["captions"]):
        some: list[str] = []
        for number, caption in enumerate(captions):
            ids = tokenizer.encode(caption)
            if longest is not None and len(ids) > longest:
                long += 1
                continue
            tokens.append(ids)
            some.append(caption)
            if split["named"][row] is not None:
                named.append(split["named"][row][number])
        if not some:
            continue
        total += len(some)
        rows.append(row)
        texts.append(some)
        first.append(total)
    if long:
        notes.append(f"train: {long:,} captions of more than {longest} words are left out")
    if not rows:
        raise DataError(f"expected captions of at most {longest} words in training, found none; allow longer ones")
    every = len(rows) == split["count"]
    images = split["images"] if every else split["images"][rows]
    scenic = bool(named)
    return Part(
        images=images,
        names=[split["name"][row] for row in rows],
        captions=texts,
        tokens=np.concatenate(tokens).astype(np.int32),
        offsets=np.cumsum([0, *map(len, tokens)]),
        first=np.array(first),
        boxes=np.array([split["boxes"][row] for row in rows]) if scenic else None,
        named=np.concatenate([np.array(some, np.int8) for some in named]) if scenic else None,
        held_out=np.array([split["held_out"][row] for row in rows], bool) if scenic else None,
    )
