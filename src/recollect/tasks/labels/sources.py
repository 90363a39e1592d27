"""Where labelled rows lie: the known sets, a folder of IDX files, or tables of the user's own."""

from collections.abc import Sequence
from pathlib import Path

from ...data import known
from ...data.files import DataError, StrPath, files
from ...data.known import KnownFile, KnownSet

MNIST = {
    "train-images-idx3-ubyte": (
        "0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        47_040_016,
    ),
    "train-labels-idx1-ubyte": (
        "1787548bbe0bff1ec2ecdc0ef292b02df999e2d1a6002d27500982c652b17203",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        60_008,
    ),
    "t10k-images-idx3-ubyte": (
        "1a1a05eab793c14bb050b398624a11b0ffd1a2953baed553b1b9bd079e2a20be",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        7_840_016,
    ),
    "t10k-labels-idx1-ubyte": (
        "b91679a0acfe4ba0e50a2437a903084cba1f5f92592b016a25a7dfd00455798b",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        10_008,
    ),
}

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_SST2 = "https://raw.githubusercontent.com/clairett/pytorch-sentiment-classification/master/data/SST2/"


def _file(path: str, address: str, sha256: str, text_sha256: str, size: int) -> KnownFile:
    return KnownFile(path=path, address=address, sha256=sha256, text_sha256=text_sha256, size=size)


def _idx(name: str) -> KnownFile:
    return _file(f"mnist/{name}.gz", f"{_MNIST}{name}.gz", *MNIST[name])


SETS: dict[str, KnownSet] = {
    "mnist": KnownSet(
        name="mnist",
        about="70,000 handwritten digits of 28 × 28 pixels, ten labels; 60,000 / 10,000",
        licence="not stated",
        splits={
            "train": tuple(_idx(name) for name in list(MNIST)[:2]),
            "test": tuple(_idx(name) for name in list(MNIST)[2:]),
        },
    ),
    "sst2": KnownSet(
        name="sst2",
        about="sentences of film reviews, good (1) or bad (0), as lower-case words; 6,920 / 872",
        licence="not stated",
        splits={
            "train": (
                _file(
                    "sst2/train.tsv.gz",
                    _SST2 + "train.tsv",
                    "a8bb76d586d14567aa086e896db7e9d0425a8bd39de6648e21cca95ee21ffca1",
                    "ec192f833a64da08f475488a77b0d0b47db47acd0f458bd18433fc793b569920",
                    720_259,
                ),
            ),
            # its dev part is all that is public beside train: held as the test part, so that it is used once
            "test": (
                _file(
                    "sst2/dev.tsv.gz",
                    _SST2 + "dev.tsv",
                    "576a7aae83b8e7f3790f381d41c9ab38d9cd3fe5e1ad2afd0d313f20f14bf2e6",
                    "eddea6b39e601dd4e7a672b53cc40fdf6019fa80522f351206c24340ca5d9359",
                    92_057,
                ),
            ),
        },
    ),
}


def find_images(
    data: Sequence[StrPath], data_dir: StrPath | None = None, cache: StrPath | None = None
) -> dict[str, list[Path]] | None:
    """The IDX files by split, images and labels each, if that is what `data` names."""
    if len(data) != 1:
        return None
    if str(data[0]) == "mnist":
        return known.find_files(SETS["mnist"].splits, data_dir, cache)
    folder, names = Path(data[0]).expanduser(), list(MNIST)
    if not any((folder / f"{names[0]}{end}").is_file() for end in ("", ".gz")):
        return None
    found = []
    for name in names:
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
) -> tuple[str, dict[str, list[Path]]]:
    """A name, and the files by split."""
    if len(data) == 1 and str(data[0]) in SETS:
        name = str(data[0])
        paths = known.find_files(SETS[name].splits, data_dir, cache)
    else:
        try:
            paths = {"train": files(data)}
        except DataError as error:
            if len(data) == 1 and not Path(data[0]).expanduser().exists():
                raise DataError(f"{error}; known sets are {', '.join(SETS)}") from None
            raise
        name = paths["train"][0].name.removesuffix(".gz").removesuffix(".tsv")
    for split, given in (("valid", valid), ("test", test)):
        if given:
            # a known set may be measured on by its name: then its test part is what is meant
            only = str(given[0]) if len(given) == 1 else ""
            paths[split] = (
                known.find_files(SETS[only].splits, data_dir, cache)["test"] if only in SETS else files(given)
            )
    return name, paths
