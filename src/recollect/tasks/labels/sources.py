"""Sources of labelled sequences: known sets, a folder of IDX files, or tables."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ...data.byte_files import StrPath, path_of
from ...data.errors import DataError
from ...data.files import files
from ...data.known import LabelSet, SoundSet, sets_of

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
SETS = sets_of(LabelSet)
SOUNDS = sets_of(SoundSet)
TONES = "tones"  # the name of the recordings that are generated
OPINIONS = "opinions"  # and of the sentences
NAMES = (*SETS, *SOUNDS, TONES, OPINIONS)


def find_images(
    data: Sequence[StrPath], data_dir: StrPath | None = None, cache: StrPath | None = None
) -> dict[str, list[Path]] | None:
    """The IDX files of images and labels by split, or None if `data` names none."""
    if len(data) != 1:
        return None
    known = SETS.get(str(data[0]))
    if known is not None and known.form == "idx":
        return known.find(data_dir, cache)
    folder = path_of(data[0])
    if not any((folder / f"{IDX[0]}{end}").is_file() for end in ("", ".gz")):
        return None
    found = []
    for name in IDX:
        places = [folder / f"{name}{end}" for end in ("", ".gz")]
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise DataError(f"expected {name} or {name}.gz in {folder}, found neither; put it there")
        found.append(path)
    return {"train": found[:2], "test": found[2:]}


def find_tables(
    data: Sequence[StrPath],
    valid: Sequence[StrPath],
    test: Sequence[StrPath],
    data_dir: StrPath | None,
    cache: StrPath | None,
    skip: Callable[[Path, str], None],
    encoding: str | None = None,
) -> tuple[str, dict[str, list[Path]]]:
    """The name of the data, and its tables by split; `skip` is called with each file in a folder that is none."""
    if len(data) == 1 and str(data[0]) in SETS:
        name = str(data[0])
        paths = SETS[name].find(data_dir, cache)
    else:
        try:
            paths = {"train": files(data, skip, encoding)}
        except DataError as error:
            if len(data) == 1 and not path_of(data[0]).exists():
                raise DataError(f"{error}; known sets are {', '.join(NAMES)}") from None
            raise
        name = paths["train"][0].name.removesuffix(".gz").removesuffix(".tsv").removesuffix(".csv")
    for split, given in (("valid", valid), ("test", test)):
        if given:
            # a known set may be measured on by its name: then its test part is what is meant
            only = str(given[0]) if len(given) == 1 else ""
            paths[split] = SETS[only].find(data_dir, cache)["test"] if only in SETS else files(given, skip, encoding)
    return name, paths
