"""Where recordings come from: generated tones, the known set fsdd, or a folder with a table of transcripts."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...data.errors import DataError
from ...data.known import SoundSet, sets_of
from ...data.sound import listing, read_sound
from .settings import JOIN, TONES
from .tables import Said, find_table, missing_table, read_table

FSDD = "fsdd"
SETS = sets_of(SoundSet)
SPLITS = ("train", "valid", "test")
LOWEST, HIGHEST = 300.0, 2_500.0  # Hz of the tones

Skip = Callable[[str, str], None]


class Recording(NamedTuple):
    name: str
    text: str
    speaker: str
    split: str
    samples: np.ndarray  # float32


class Source(ABC):
    """Recordings of all splits, each read once."""

    name: str
    join: int = 1  # recordings of a string, where the settings name none
    paths: list[Path]

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What decides the recordings, beside the content of the files."""

    @abstractmethod
    def recordings(self, hashes: Mapping[str, str], skip: Skip) -> Iterator[Recording]:
        """`hashes` are the sha256 of the files; `skip` is called with a reason and the name of what cannot be used."""


@dataclass(frozen=True)
class Tones(Source):
    """Each letter is a tone of its own, which sounds longer or shorter, louder or softer, a little off, and hisses."""

    letters: int
    takes: int
    rate: int
    name = TONES
    join = JOIN

    @property
    def paths(self) -> list[Path]:  # type: ignore[override]
        return []

    def describe(self) -> dict[str, Any]:
        return vars(self)

    def recordings(self, hashes: Mapping[str, str], skip: Skip) -> Iterator[Recording]:
        top = min(HIGHEST, 0.4 * self.rate)
        tones = np.geomspace(LOWEST, top, self.letters)
        for number, hertz in enumerate(tones):
            letter = chr(ord("a") + number)
            for take in range(self.takes):
                draw = np.random.default_rng([number, take])
                count = int(self.rate * draw.uniform(0.12, 0.3))
                at = np.arange(count) / self.rate
                pitch = hertz * (1 + draw.uniform(-0.02, 0.02))
                wave = np.sin(2 * np.pi * pitch * at + draw.uniform(0, 2 * np.pi))
                wave += draw.uniform(0, 0.3) * np.sin(np.pi * pitch * at)
                fade = np.minimum(1, np.minimum(at, at[::-1]) / 0.02)
                sound = draw.uniform(0.1, 0.6) * fade * wave + 0.01 * draw.standard_normal(count)
                split = ("test", "valid", *["train"] * 8)[take % 10]
                yield Recording(f"{letter}{take}", letter, "", split, sound.astype(np.float32))


@dataclass(frozen=True, eq=False)
class Digits(Source):
    """The known set fsdd, whose takes say which part a recording is of; a speaker may be held for the test alone."""

    found: list[listing.Recording]
    speaker: str | None
    rate: int
    name = FSDD
    join = JOIN

    @property
    def paths(self) -> list[Path]:  # type: ignore[override]
        return [own.path for own in self.found]

    def describe(self) -> dict[str, Any]:
        return {"speaker": self.speaker, "rate": self.rate}

    def recordings(self, hashes: Mapping[str, str], skip: Skip) -> Iterator[Recording]:
        for own in listing.split_by_speaker(self.found, self.speaker, None, FSDD):
            try:
                sound = read_sound(own.path, self.rate)
            except DataError as error:
                skip("recordings that cannot be read", str(error))
                continue
            yield Recording(own.name, own.label, own.speaker, own.split, sound.samples)


@dataclass(frozen=True, eq=False)
class Folder(Source):
    """Recordings with a table of transcripts."""

    place: Path
    table: Path
    said: list[Said]
    skipped: list[tuple[str, str]]
    share: float
    whole: bool
    speaker: str | None
    rate: int

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.place.name

    @property
    def paths(self) -> list[Path]:  # type: ignore[override]
        return [self.table, *dict.fromkeys(row.path for row in self.said)]

    def describe(self) -> dict[str, Any]:
        return {"share": self.share, "whole": self.whole, "speaker": self.speaker, "rate": self.rate}

    def recordings(self, hashes: Mapping[str, str], skip: Skip) -> Iterator[Recording]:
        for reason, name in self.skipped:
            skip(reason, name)
        speakers = sorted({row.speaker for row in self.said})
        if self.speaker is not None and self.speaker not in speakers:
            found = ", ".join(filter(None, speakers)) or "a table that names none"
            raise DataError(f"speaker: expected one of the table's ({found}), found {self.speaker!r}")
        for row in self.said:
            name = str(row.path.relative_to(self.table.parent))
            try:
                sound = read_sound(row.path, self.rate)
            except DataError as error:
                skip("recordings that cannot be read", str(error))
                continue
            split = self._split(row, hashes[str(row.path.absolute())])
            yield Recording(name, row.text, row.speaker, split, sound.samples)

    def _split(self, row: Said, digest: str) -> str:
        """As the table says; else by the content of the recording, so that a copy is in the same part."""
        if self.whole:
            return "valid"
        if self.speaker is not None and row.speaker == self.speaker:
            return "test"
        own = {"dev": "valid", "validation": "valid", "val": "valid"}.get(row.split.lower(), row.split.lower())
        if self.speaker is None and own in SPLITS:
            return own
        place = int(hashlib.sha256(digest.encode()).hexdigest()[:8], 16) / 16**8
        if place < self.share:
            return "valid"
        return "test" if place < 2 * self.share and self.speaker is None else "train"


def open_folder(place: Path, share: float, whole: bool, speaker: str | None, rate: int) -> Folder:
    """A folder of recordings with its table, or the table itself."""
    if not place.exists():
        raise DataError(
            f"expected a folder of recordings, found nothing at {place}; name a folder, a table of transcripts, "
            f"{TONES} or a known set ({', '.join(SETS)})"
        )
    table = find_table(place)
    if table is None:
        raise missing_table(place)
    skipped: list[tuple[str, str]] = []
    said = list(read_table(table, lambda reason, name: skipped.append((reason, name))))
    if not said:
        few = "; ".join(f"{reason}: {name}" for reason, name in skipped[:3]) or "no row"
        raise DataError(f"{table}: expected names of recordings and their texts, found none that can be used ({few})")
    return Folder(place, table, said, skipped, share, whole, speaker, rate)
