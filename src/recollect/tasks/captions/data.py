"""Pictures with captions, from a folder, the known set flickr8k or rendered scenes, as arrays ready to train on.

    read      any file that Pillow opens, as RGB on white, upright, its first frame, squashed to a square
    caption   lines `name TAB caption` or `name#i TAB caption`; letters made small, punctuation left out
    split     by the lists of the authors, or by a hash of the picture: no picture is in two parts
    keep      the pixels in the cache folder, memory-mapped, made anew when a source changes

One picture is in memory at a time. What cannot be used is counted and named.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypedDict

import numpy as np

from ...core import typed
from ...data.byte_files import StrPath, path_of
from ...data.cache import Entry, EntryWriter, Loaded, Sources, cache_folder, name_folder
from ...data.errors import DataError
from . import scenes
from .captioned import FORMAT, Artifacts, Captioned
from .settings import COUNT, LONGEST, SHARE
from .sources import SETS, SHAPES, KnownPictures, PictureSource, Scenes, open_folder
from .tokens import assemble

PIXELS = 96
LISTS = ("name", "captions", "boxes", "named", "held_out")  # of a split, beside its pixels


def load(
    data: Sequence[StrPath] = (),
    *,
    pixels: int | None = None,
    least: int | None = None,
    longest: int = LONGEST,
    share: float = SHARE,
    count: int = COUNT,
    whole: bool = False,
    varied: bool = False,
    ordered: bool = False,
    seed: int = 0,
    data_dir: StrPath | None = None,
    cache: StrPath | None = None,
    artifacts: Artifacts | None = None,
) -> Captioned:
    """Read pictures with captions.

    `data` is a folder with pictures and a file of captions (one of `sources.CAPTIONS`), the name of a known
    set, or `shapes` (also where it is empty) for `count` rendered scenes and a twelfth of that for each other part
    (with `varied` on grounds and in colours as others draw them, with `ordered` described once). A
    folder is split by Flickr's lists where they lie in it, else `share` of its pictures are for validation and as many
    for the test; with `whole` each part is all of it. Pictures are squashed to `pixels` × `pixels`. Words seen fewer
    than `least` times in training are unknown (default: 1, and 5 where captions are many); training leaves out captions
    of more than `longest` words. `artifacts` are those of a run, used as they are.
    """
    if len(data) > 1:
        raise DataError(f"expected one folder or set of pictures, found {len(data)} names; name one")
    name = str(data[0]) if data else SHAPES
    own = pixels or (scenes.PIXELS if name == SHAPES else PIXELS)
    size = artifacts.pixels if artifacts is not None else own
    if not 0 < share < 0.5:
        raise DataError(f"expected a share between 0 and 0.5 for each of validation and test, found {share}")
    source: PictureSource
    if name == SHAPES:
        source = Scenes(count, seed, size, varied, ordered)
    elif name in SETS:
        source = KnownPictures(name, size, SETS[name].find(data_dir, cache))
    else:
        source = open_folder(path_of(name), size, share, whole)
    settings = {"format": FORMAT, "pixels": size, "work": source.describe()}
    folder = cache_folder(cache) / "pictures" / name_folder(source.name, settings)
    entry = Entry(folder, "pictures", Sources(source.paths), settings, "pictures")
    found = entry.load_or_make(partial(_check_pictures, size), partial(_store, entry, source, size))
    return assemble(source, found, size, least, longest, artifacts)


class _SplitContent(TypedDict):
    """What the cache holds of a split beside its pixels: a value for each picture in every list."""

    name: list[str]
    captions: list[list[str]]
    boxes: list[list[tuple[int, int, int, int]] | None]
    named: list[list[list[int]] | None]
    held_out: list[bool | None]


class _Content(TypedDict):
    splits: dict[str, _SplitContent]
    notes: list[str]


def _check_pictures(pixels: int, found: Loaded) -> Loaded:
    """The pictures in the cache, where each has its pixels and captions."""
    content = typed.read(found.content, _Content)
    for split, lists in content["splits"].items():
        shape = (len(lists["name"]), pixels, pixels, 3)
        if found.arrays[split].shape != shape or {len(lists[name]) for name in LISTS} != {shape[0]}:
            raise DataError(f"expected pixels and captions of {shape[0]:,} pictures in the cache, found others")
    return found


def _store(entry: Entry, source: PictureSource, pixels: int, writer: EntryWriter) -> None:
    """Read every picture, and write it to the cache."""
    notes: list[str] = []
    splits: dict[str, dict[str, list[Any]]] = {}
    hashes = {file["path"]: file["sha256"] for file in entry.sources.record()["files"]}
    for row in source.rows(hashes, notes):
        if row.split not in splits:
            splits[row.split] = {name: [] for name in LISTS}
            writer.add_array(row.split, np.dtype("u1"), (pixels, pixels, 3))
        writer.arrays[row.split].append(row.image[None])
        for name, values in splits[row.split].items():
            values.append(getattr(row, name))
    writer.content = {"splits": splits, "notes": notes}
