"""Recordings in folders, with what their names or the folders they lie in say of them."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from ..files import some_of, walk

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64", ".oga", ".opus")
FIELD = re.compile(r"\{([a-z_]+)\}")


class Recording(NamedTuple):
    """A recording, and what is known of it; `name` is its path below the folder of its data."""

    path: Path
    name: str
    label: str
    speaker: str = ""
    take: str = ""
    split: str = ""


def is_recording(path: Path) -> bool:
    """Whether the name of a file says that it is a recording."""
    return path.suffix.lower() in SUFFIXES


def find_recordings(folder: Path) -> list[Path]:
    """The recordings in a folder and the folders inside, in the order of their names."""
    return [path for path in walk(folder) if is_recording(path)]


def label_by_name(
    folder: Path, paths: Sequence[Path], pattern: str | None, skipped: list[tuple[Path, str]]
) -> Iterator[Recording]:
    """Recordings with what their names say, by a pattern such as `{label}_{speaker}_{take}`.

    A pattern with / is that of a path in the folder, one without that of a file's name. Without a pattern the label is
    the name of the folder that a recording lies in. Names that are not of the pattern go to `skipped`.
    """
    pattern = "{label}/{name}" if pattern is None else pattern
    expression = compile_pattern(pattern)
    parts = pattern.count("/") + 1
    for path in paths:
        name = path.relative_to(folder).with_suffix("").as_posix()
        found = expression.fullmatch("/".join(name.split("/")[-parts:]))
        if found is None:
            skipped.append((path, f"not named as {pattern}"))
            continue
        known = {field: value for field, value in found.groupdict().items() if field in ("label", "speaker", "take")}
        yield Recording(path, path.relative_to(folder).as_posix(), **known)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The expression of a pattern of names; one without `{label}` is refused."""
    plain = re.sub(f"({'|'.join(map(re.escape, SUFFIXES))})$", "", pattern)
    pieces = FIELD.split(plain)  # text, field, text, field, … text
    fields = pieces[1::2]
    if "label" not in fields or len(set(fields)) < len(fields):
        raise DataError(
            f"pattern: expected a name such as {{label}}_{{speaker}}_{{take}} with {{label}} in it and no field twice, "
            f"found {pattern!r}"
        )
    return re.compile(
        "".join(f"(?P<{piece}>[^/]+?)" if number % 2 else re.escape(piece) for number, piece in enumerate(pieces))
    )


def split_by_speaker(
    recordings: Sequence[Recording], test: str | None, valid: str | None, place: object
) -> list[Recording]:
    """Recordings in which one speaker is the test part alone, and one the validation part."""
    if test is None and valid is None:
        return list(recordings)
    speakers = sorted({own.speaker for own in recordings} - {""})
    for name, given in (("test_speaker", test), ("valid_speaker", valid)):
        if given is not None and given not in speakers:
            there = some_of(speakers, 12) if speakers else "none: name them with --set pattern or --set speaker_column"
            raise DataError(f"{name}: expected a speaker of {place} ({there}), found {given!r}")
    if test == valid:
        raise DataError(f"expected one speaker for the test and another for validation, found {test!r} for both")

    def part(own: Recording) -> str:
        if own.speaker == test:
            return "test"
        if own.speaker == valid:
            return "valid"
        # the other speakers' recordings are no longer of the test, nor of validation where that has its own speaker
        return "valid" if own.split == "valid" and valid is None else "train" if test or own.split != "test" else "test"

    return [own._replace(split=part(own)) for own in recordings]
