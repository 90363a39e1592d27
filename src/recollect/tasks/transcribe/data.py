"""Recordings with their texts, from generated tones, the known set fsdd or a folder, as samples ready to be read.

    read    any recording that the library soundfile reads, its channels mixed, at one rate
    keep    the samples in the cache folder, memory-mapped, made anew when a source changes
    split   by the authors' takes, the table's own parts, a speaker, or the content of the recording
    join    strings of several recordings, drawn from a seed, with silence before, between and after them
    scale   the mean and deviation of each band of the training frames

One recording is in memory at a time. What cannot be used is counted and named.
"""

from functools import partial
from itertools import pairwise
from typing import Any, TypedDict

import numpy as np

from ...core import typed
from ...data.byte_files import StrPath, path_of
from ...data.cache import Entry, EntryWriter, Loaded, Sources, cache_folder, hash_json, name_folder
from ...data.errors import DataError
from ...data.file_lists import list_files
from ...data.moses import Preparation
from ...data.sound import BandScaler
from ...data.tokenizers.chars_and_bytes import Chars
from ...data.tokenizers.sentences import SentenceTokenizer
from .parts import Part, Plan, Recordings, to_whole
from .settings import MOST_JOIN, TONES, DataConfig
from .sources import FSDD, SETS, SPLITS, Digits, Source, Tones, open_folder
from .transcribed import FORMAT, Artifacts, Transcribed

SCALED = 2_000  # training recordings, at most, of which the scale of the bands is taken
NAMED = 3  # of what was left out, so many are named
SEEDS = {"valid": 1, "test": 2}  # of the strings that are joined for measuring


def load(
    config: DataConfig | None = None,
    *,
    data_dir: StrPath | None = None,
    cache: StrPath | None = None,
    artifacts: Artifacts | None = None,
) -> Transcribed:
    """Read transcribed sound; `artifacts` are those of a run, used as they are."""
    config = DataConfig() if config is None else config
    if len(config.data) > 1:
        raise DataError(f"expected one folder or set of recordings, found {len(config.data)} names; name one")
    rate = config.sample_rate if artifacts is None else artifacts.mel.rate
    source = open_source(config, rate, data_dir)
    settings = {"format": FORMAT, "source": source.name, "work": source.describe()}
    folder = cache_folder(cache) / "sound" / name_folder(source.name, settings)
    entry = Entry(folder, "sound", Sources(source.paths), settings, "recordings")
    found = entry.load_or_make(_check, partial(_store, entry, source))
    return assemble(config, source, found, artifacts)


def open_source(config: DataConfig, rate: int, data_dir: StrPath | None) -> Source:
    name = str(config.data[0]) if config.data else TONES
    if name == TONES:
        if config.speaker is not None:
            raise DataError(f"speaker: expected it with recordings of several, found it with {TONES}; leave it out")
        return Tones(config.letters, config.takes, rate)
    if name == FSDD:
        return Digits(SETS[FSDD].recordings(data_dir), config.speaker, rate)
    return open_folder(path_of(name), config.held_out, config.whole, config.speaker, rate)


class _Split(TypedDict):
    """What the cache holds of a split beside its samples: a value for each recording in every list."""

    name: list[str]
    text: list[str]
    speaker: list[str]
    offsets: list[int]


class _Content(TypedDict):
    splits: dict[str, _Split]
    notes: list[str]


def _check(found: Loaded) -> Loaded:
    """The recordings in the cache, where each has its samples and text."""
    content = typed.read(found.content, _Content)
    for split, lists in content["splits"].items():
        offsets, samples = np.array(lists["offsets"]), found.arrays[split]
        counts = {len(lists["name"]), len(lists["text"]), len(lists["speaker"]), len(offsets) - 1}
        if counts != {len(offsets) - 1} or offsets[0] or offsets[-1] != len(samples) or (np.diff(offsets) < 1).any():
            raise DataError("expected a text and samples for each recording in the cache, found others")
    return found


def _store(entry: Entry, source: Source, writer: EntryWriter) -> None:
    """Read every recording, and write its samples to the cache."""
    left: dict[str, list[str]] = {}
    splits: dict[str, dict[str, list[Any]]] = {}
    hashes = {file["path"]: file["sha256"] for file in entry.sources.record()["files"]}
    for row in source.recordings(hashes, lambda reason, name: left.setdefault(reason, []).append(name)):
        if row.split not in splits:
            splits[row.split] = {"name": [], "text": [], "speaker": [], "offsets": [0]}
            writer.add_array(row.split, np.dtype("<i2"))
        own = splits[row.split]
        writer.arrays[row.split].append(to_whole(row.samples))
        for name in ("name", "text", "speaker"):
            own[name].append(getattr(row, name))
        own["offsets"].append(own["offsets"][-1] + len(row.samples))
    notes = [
        f"{len(names):,} {reason}: {', '.join(names[:NAMED])}{', …' if len(names) > NAMED else ''}"
        for reason, names in left.items()
    ]
    writer.content = {"splits": splits, "notes": notes}


def assemble(config: DataConfig, source: Source, found: Loaded, artifacts: Artifacts | None) -> Transcribed:
    """The strings of every split, with the characters and the scale of the training part, or those of `artifacts`."""
    content, notes = found.content, list(found.content["notes"])
    every = {
        split: Recordings(
            found.arrays[split], np.array(lists["offsets"]), lists["text"], lists["speaker"], found.hashes[split]
        )
        for split, lists in content["splits"].items()
    }
    if config.whole and "valid" in every:
        every = dict.fromkeys(SPLITS, every["valid"])
    for split in ("train", "valid"):
        if split not in every:
            total = sum(map(len, every.values()))
            some = f"{total:,} recordings in all" if total else "; ".join(notes) or "no recording that can be read"
            raise DataError(
                f"expected recordings for the {split} part of {source.name}, found none ({some}); give more "
                "recordings, another share, or a column `split`"
            )
    if artifacts is None:
        artifacts = make_artifacts(config, every["train"])
    join = source.join if config.join is None else config.join
    between = "" if all(len(text) == 1 for part in every.values() for text in part.texts) else " "
    gap = round(config.gap * artifacts.mel.rate)
    parts: dict[str, Part] = {}
    for split, own in every.items():
        if join > 1:
            parts[split] = join_strings(config, own, split, join, gap, between)
        elif split == "train":
            parts[split] = leave_out(config, own, artifacts, notes)
        else:
            parts[split] = Part(own, own.each())
    about = [[split, own.sha256, own.texts, own.offsets.tolist()] for split, own in sorted(every.items())]
    strings = [join, config.count, list(config.longer), config.gap, config.longest] if join > 1 else [config.longest]
    return Transcribed(
        name=source.name,
        artifacts=artifacts,
        train=parts["train"],
        valid=parts["valid"],
        test=parts.get("test"),
        fingerprint=hash_json([about, strings, artifacts.to_json()]),
        notes=notes,
        files=list_files(source.paths, encoding=None),
        join=join,
    )


def make_artifacts(config: DataConfig, train: Recordings) -> Artifacts:
    """The characters of the training texts, and the scale of the bands of the training frames."""
    preparation = Preparation("text", lower=config.lower)
    characters = {letter for text in train.texts for letter in preparation.apply(text)}
    if not characters:
        raise DataError("expected texts with characters in training, found none")
    tokenizer = SentenceTokenizer(preparation, Chars(characters, unknown=True))
    mel = config.mel()
    some = np.unique(np.linspace(0, len(train) - 1, min(SCALED, len(train))).astype(int))
    scaler = BandScaler.fit((mel.frames(train.samples_of(n)).numpy() for n in some), mel.bands)
    return Artifacts(tokenizer, mel, scaler, config.stack)


def join_strings(config: DataConfig, own: Recordings, split: str, join: int, gap: int, between: str) -> Part:
    """Strings of 1 to `join` recordings: drawn all the time in training, else once; the test has longer ones too."""
    if split == "train" and not config.whole:
        return Part(own, None, between, sizes=(1, join), gap=gap)
    draw = np.random.default_rng([SEEDS.get(split, 0), join])
    sizes = 1 + np.arange(config.count) % join
    if split == "test":
        each = max(1, config.count // join)
        more = [np.full(each, min(times * join, MOST_JOIN)) for times in config.longer]
        sizes = np.concatenate([sizes, *more])
    return Part(own, own.draw(draw, sizes, gap), between, longer=sizes > join, sizes=(1, join), gap=gap)


def leave_out(config: DataConfig, own: Recordings, artifacts: Artifacts, notes: list[str]) -> Part:
    """The training recordings that are short enough, and long enough for their texts."""
    lengths, rate = own.lengths(), artifacts.mel.rate
    short = lengths <= config.longest * rate
    texts = [artifacts.tokenizer.prepared(text) for text in own.texts]
    needed = np.array([len(text) + sum(a == b for a, b in pairwise(text)) for text in texts])
    room = np.array([artifacts.count(int(length)) for length in lengths]) >= np.maximum(needed, 1)
    if long := int((~short).sum()):
        notes.append(f"train: {long:,} recordings of more than {config.longest:g} s are left out")
    if crowded := int((short & ~room).sum()):
        notes.append(f"train: {crowded:,} recordings with fewer steps than their texts have characters are left out")
    rows = np.flatnonzero(short & room)
    if not len(rows):
        raise DataError(
            f"expected training recordings of at most {config.longest:g} s with a step for each character, found none; "
            "set longest higher or stack lower"
        )
    plan = Plan(rows, np.arange(len(rows) + 1), np.zeros(2 * len(rows), np.int64), np.zeros(len(rows), np.int64))
    return Part(own, plan)
