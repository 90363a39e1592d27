"""Labelled sequences as arrays: texts from a table, images from IDX files, or recordings.

A table is UTF-8, plain or gzip: one text a line, a tab, its label, in either order, with or without a header, or CSV
with commas or semicolons, whose texts may stand in quotes. Rows of
a text become one array of tokens end to end, so that millions of lines cost a few bytes a token. An image is a
sequence of its pixels, or of its rows, of numbers from 0 to 255; a recording one of its log-mel frames.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...data.file_lists import describe_skipped, list_files
from ...data.files import DataError, StrPath
from .images import read_images
from .labelled import Artifacts, Labelled
from .opinions import Opinions
from .recordings import are_sounds, read_recordings
from .settings import DataConfig
from .sources import OPINIONS, find_images, find_tables
from .tables import Table
from .texts import read_texts


def load(
    data: Sequence[StrPath] | StrPath = (),
    *,
    data_dir: StrPath | None = None,
    cache: StrPath | None = None,
    artifacts: Artifacts | None = None,
    **settings: Any,
) -> Labelled:
    """Read labelled sequences; `settings` are those of `DataConfig`."""
    given = [data] if isinstance(data, str | os.PathLike) else list(data)
    places = {name: tuple(str(place) for place in settings.pop(name, ())) for name in ("valid", "test")}
    config = DataConfig(data=tuple(str(place) for place in given), **places, **settings)
    return load_config(config, data_dir, cache, artifacts)


def load_config(
    config: DataConfig,
    data_dir: StrPath | None = None,
    cache: StrPath | None = None,
    artifacts: Artifacts | None = None,
) -> Labelled:
    """Read the labelled sequences that settings name.

    `data` is one or more tables, a folder of IDX files named as MNIST's are, recordings (see `recordings`), the name
    of a known set, or `opinions`, which are generated sentences; nothing stands for generated tones. Without validation
    files about `share` of the texts is the validation part: those whose hash is low, so that a text that comes twice is
    on one side. Columns are named as the header does, or numbered from 1; without a word about them the one with fewer
    different values holds the labels.
    `encoding` is that of files that are no UTF-8.
    `artifacts` are those of a run, used as they are.
    """
    data, valid, test = config.data, config.valid, config.test
    if are_sounds(data, config.encoding):
        return read_recordings(config, data_dir, cache, artifacts)
    if artifacts is not None and artifacts.sound is not None:
        raise DataError(f"expected recordings, as the run was trained on, found {data[0]}; name a folder of them")
    if (images := find_images(data, data_dir, cache)) is not None:
        if valid or test:
            raise DataError("expected images without files of their own for validation, found some; leave them out")
        found = read_images(Path(data[0]).name, images, config.step, config.permute, artifacts)
        every = [path for some in images.values() for path in some]
        return replace(found, files=list_files(every, encoding=None))
    if data == (OPINIONS,):
        return _read_opinions(config, artifacts)
    if artifacts is not None and artifacts.tokenizer is None:
        raise DataError(f"expected images, as the run was trained on, found {data[0]}; name a folder of IDX files")
    skipped: list[tuple[Path, str]] = []

    def skip(path: Path, reason: str) -> None:
        skipped.append((path, reason))

    encoding = config.encoding
    name, paths = find_tables(data, valid, test, data_dir, cache, skip, encoding)
    table = Table(paths["train"], config.label_column, config.text_column, config.header, artifacts, encoding)
    if "valid" not in paths and not 0 < config.share < 1:
        raise DataError(f"expected a validation share between 0 and 1, found {config.share}; or name validation files")
    found = read_texts(name, paths, table, config.tokenizer, config.vocab, config.share, config.longest, artifacts)
    every = [path for some in paths.values() for path in some]
    return replace(
        found, notes=[*describe_skipped(skipped), *found.notes], files=list_files(every, skipped, other=encoding)
    )


def _read_opinions(config: DataConfig, artifacts: Artifacts | None) -> Labelled:
    """Generated sentences, which have a test part of their own."""
    if config.valid or config.test:
        raise DataError("expected opinions without files of their own for validation, found some; leave them out")
    if artifacts is not None and artifacts.tokenizer is None:
        raise DataError("expected images, as the run was trained on, found opinions; name a folder of IDX files")
    made = Opinions()
    return read_texts(
        OPINIONS, made.places, made, config.tokenizer, config.vocab, config.share, config.longest, artifacts
    )
