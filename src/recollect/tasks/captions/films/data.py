"""Films with captions, from a folder or rendered, as arrays ready to train on.

    read      a GIF, an animated PNG or WebP, or a folder of pictures in natural order; frames as pictures are read
    caption   lines `name TAB caption`, as those of pictures
    split     by a hash of the film, or of its first frame
    keep      the frames of all films end to end in the cache folder, memory-mapped, made anew when a source changes

One film is in memory at a time. What cannot be used is counted and named.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypedDict

import numpy as np

from ....core import typed
from ....data.byte_files import StrPath, path_of
from ....data.cache import Entry, EntryWriter, Loaded, Sources, cache_folder, hash_json, name_folder
from ....data.errors import DataError
from ....data.file_lists import list_files
from ..captioned import FORMAT
from ..tokens import encode_captions, note_unknown, tokenizer_of, used_splits
from . import scenes
from .filmed import Artifacts, Filmed, Part
from .settings import COUNT, EVENTS, FRAMES, LONGEST, SHARE
from .sources import MOVING, FilmFolder, FilmSource, Moving

PIXELS = 64  # of a folder's films
LISTS = ("name", "captions", "length", "events", "held_out")  # of a split, beside its frames


def load(
    data: Sequence[StrPath] = (),
    *,
    pixels: int | None = None,
    frames: int = FRAMES,
    least: int | None = None,
    longest: int = LONGEST,
    share: float = SHARE,
    count: int = COUNT,
    events: int = EVENTS,
    whole: bool = False,
    varied: bool = False,
    seed: int = 0,
    cache: StrPath | None = None,
    artifacts: Artifacts | None = None,
) -> Filmed:
    """Read films with captions.

    `data` is a folder with films and a file of captions (one of `sources.CAPTIONS`), or `moving` (also where it is
    empty) for `count` rendered films of up to `events` events, a twelfth of that for validation and a sixth for the
    test (with `varied` at any speed, on any ground). Of a folder `share` of the films are for validation and as many
    for the test; with `whole` each part is all of it. Frames are squashed to `pixels` × `pixels`, and of a film at most
    `frames` are read. `least`, `longest` and `artifacts` are as for pictures.
    """
    if len(data) > 1:
        raise DataError(f"expected one folder or set of films, found {len(data)} names; name one")
    name = str(data[0]) if data else MOVING
    size = artifacts.pixels if artifacts is not None else pixels or (scenes.PIXELS if name == MOVING else PIXELS)
    most = artifacts.frames if artifacts is not None else frames
    if not 0 < share < 0.5:
        raise DataError(f"expected a share between 0 and 0.5 for each of validation and test, found {share}")
    source: FilmSource
    if name == MOVING:
        source = Moving(count, seed, size, events, varied)
    else:
        source = FilmFolder(path_of(name), size, most, share, whole)
    settings = {"format": FORMAT, "pixels": size, "work": source.describe()}
    folder = cache_folder(cache) / "films" / name_folder(source.name, settings)
    entry = Entry(folder, "films", Sources(source.paths), settings, "films")
    found = entry.load_or_make(partial(_check_films, size), partial(_store, entry, source, size))
    return _assemble(source, found, size, most, least, longest, artifacts)


class _SplitContent(TypedDict):
    """What the cache holds of a split beside its frames: a value for each film in every list."""

    name: list[str]
    captions: list[list[str]]
    length: list[int]
    events: list[int | None]
    held_out: list[bool | None]


class _Content(TypedDict):
    splits: dict[str, _SplitContent]
    notes: list[str]


def _check_films(pixels: int, found: Loaded) -> Loaded:
    """The films in the cache, where each has its frames and captions."""
    content = typed.read(found.content, _Content)
    for split, lists in content["splits"].items():
        shape = (sum(lists["length"]), pixels, pixels, 3)
        if found.arrays[split].shape != shape or len({len(lists[name]) for name in LISTS}) != 1:
            raise DataError(f"expected {shape[0]:,} frames and captions of all films in the cache, found others")
        if min(lists["length"]) < 1:
            raise DataError("expected films of at least one frame in the cache, found one of none")
    return found


def _store(entry: Entry, source: FilmSource, pixels: int, writer: EntryWriter) -> None:
    """Read every film, and write it to the cache."""
    notes: list[str] = []
    splits: dict[str, dict[str, list[Any]]] = {}
    hashes = {file["path"]: file["sha256"] for file in entry.sources.record()["files"]}
    for row in source.rows(hashes, notes):
        if row.split not in splits:
            splits[row.split] = {name: [] for name in LISTS}
            writer.add_array(row.split, np.dtype("u1"), (pixels, pixels, 3))
        writer.arrays[row.split].append(row.frames)
        about = row._asdict() | {"length": len(row.frames)}
        for name, values in splits[row.split].items():
            values.append(about[name])
    writer.content = {"splits": splits, "notes": notes}


def _assemble(
    source: FilmSource,
    found: Loaded,
    pixels: int,
    frames: int,
    least: int | None,
    longest: int,
    artifacts: Artifacts | None,
) -> Filmed:
    """Captioned films with a vocabulary of the training captions, or that of `artifacts`."""
    notes: list[str] = list(found.content["notes"])
    splits = used_splits(found, "frames", source, "film", notes)
    tokenizer = tokenizer_of(splits["train"]["captions"], least) if artifacts is None else artifacts.tokenizer
    parts: dict[str, Part] = {}
    for name, split in splits.items():
        captions = encode_captions(split["captions"], tokenizer, longest if name == "train" else None, notes)
        lengths = np.array(split["length"])
        rendered = split["events"][0] is not None
        parts[name] = Part(
            names=[split["name"][row] for row in captions.rows],
            captions=captions.texts,
            tokens=captions.tokens,
            offsets=captions.offsets,
            first=captions.first,
            held_out=np.array(split["held_out"], bool)[captions.rows] if rendered else None,
            frames=split["frames"],
            starts=(lengths.cumsum() - lengths)[captions.rows],
            lengths=lengths[captions.rows],
            events=np.array(split["events"])[captions.rows] if rendered else None,
        )
    notes += note_unknown(parts, tokenizer)
    about = [
        [name, split["sha256"], split["name"], split["captions"], split["length"]]
        for name, split in sorted(splits.items())
    ]
    return Filmed(
        name=source.name,
        tokenizer=tokenizer,
        pixels=pixels,
        frames=frames,
        train=parts["train"],
        valid=parts["valid"],
        test=parts.get("test"),
        fingerprint=hash_json([pixels, about, tokenizer.to_json()]),
        notes=notes,
        files=list_files(source.paths, encoding=None),
    )
