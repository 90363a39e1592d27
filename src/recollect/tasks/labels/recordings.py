"""Labelled recordings as frames: from a folder, from tables, from a known set, or generated."""

import hashlib
import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.limits import check_fits
from ...data.byte_files import StrPath, path_of
from ...data.errors import DataError
from ...data.file_lists import describe_skipped, list_files
from ...data.files import some_of
from ...data.sound import BandScaler, LogMel, Sound, SoundError, read_blocks
from ...data.sound.listing import Recording, find_recordings, is_recording, label_by_name, split_by_speaker
from ...data.sound.resample import resample
from ...data.sound.tones import ORDERS, tones
from .labelled import Artifacts, Labelled, Part, Sounds, assemble
from .settings import DataConfig
from .sound_tables import names_recordings, read_table
from .sources import SOUNDS, TONES
from .texts import has_low_hash, sort_labels

COUNTS = {"train": 2_400, "valid": 300, "test": 600}  # of generated recordings
SPLITS = ("train", "valid", "test")


def are_sounds(data: Sequence[StrPath], encoding: str | None = None) -> bool:
    """Whether data are recordings: a known set of them, folders, tables that name some, or generated ones."""
    if not data or list(map(str, data)) == [TONES]:
        return True
    if len(data) == 1 and str(data[0]) in SOUNDS:
        return True
    paths = [path_of(name) for name in data]
    if len(paths) == 1 and paths[0].is_dir():
        return bool(find_recordings(paths[0]))
    return all(is_recording(path) or names_recordings(path, encoding) for path in paths)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How a recording becomes frames: at the rate of `mel`, its first `longest` of them."""

    mel: LogMel
    longest: int

    def read(self, source: Any, name: str | None = None) -> np.ndarray:
        """The frames of a file, or of its content: T D. What is shorter than one frame is refused."""
        return self.frames(read_blocks(source, self.mel.rate, name=name), name or str(source))

    def convert(self, sound: Sound, name: str) -> np.ndarray:
        """The frames of a recording that was read, whatever its rate."""
        return self.frames(iter([resample(sound.samples, sound.rate, self.mel.rate)]), name)

    def frames(self, blocks: Iterator[np.ndarray], name: str) -> np.ndarray:
        """The frames of samples at the rate of `mel`, given block by block."""
        found, count, tail = [], 0, None
        for block in blocks:
            own, tail = self.mel.stream(block, tail)
            found.append(own.numpy())
            count += len(own)
            check_fits(2 * 4 * count * self.mel.bands, f"the frames of {name}", "cut it into parts")
            if count >= self.longest:
                break
        frames = np.concatenate(found)[: self.longest] if found else np.zeros(0)
        if not len(frames):
            raise SoundError(f"{name}: expected a recording of at least {self.mel.window:g} ms, found a shorter one")
        return frames


class _Gatherer:
    """Frames, lengths and labels of one split, appended row by row."""

    def __init__(self, bands: int) -> None:
        self.bands = bands
        self.values, self.lengths, self.labels = array("f"), array("i"), array("i")

    def add(self, frames: np.ndarray, label: int) -> None:
        check_fits(2 * 4 * len(self.values), "the frames of all recordings", "give fewer, or lower --set longest")
        self.values.frombytes(np.ascontiguousarray(frames, np.float32).tobytes())
        self.lengths.append(len(frames))
        self.labels.append(label)

    def part(self) -> Part:
        values = np.frombuffer(self.values, np.float32).reshape(-1, self.bands)
        return Part(values, np.array(self.lengths), np.array(self.labels))


def read_recordings(
    config: DataConfig, data_dir: StrPath | None, cache: StrPath | None, artifacts: Artifacts | None
) -> Labelled:
    """The recordings that settings name, by split; with `artifacts`, as that run reads them."""
    if artifacts is not None and artifacts.sound is None:
        raise DataError(f"expected {artifacts.kind}, as the run was trained on, found recordings in {_name(config)}")
    mel, longest = config.mel, config.longest
    if artifacts is not None and artifacts.sound is not None:
        mel, longest = artifacts.sound.mel, artifacts.longest
    reader = Reader(mel=mel, longest=longest)
    if not config.data or config.data == (TONES,):
        return _read_tones(config, reader, artifacts)
    skipped: list[tuple[Path, str]] = []
    listed, notes = list_recordings(config, data_dir, cache, skipped)
    classes = artifacts.classes if artifacts is not None else _classes(listed, _name(config))
    numbers = {label: number for number, label in enumerate(classes)}
    gathered = {split: _Gatherer(mel.bands) for split in SPLITS}
    digest = hashlib.sha256(_about(config, reader, classes).encode())
    unseen, cut = 0, 0
    for own in listed:
        if own.label not in numbers:
            if own.split != "train":
                raise DataError(
                    f"expected a label that training has ({some_of(classes, 6)}), found {own.label!r} of {own.name}; "
                    "remove it, or train with such a label"
                )
            unseen += 1
            continue
        try:
            frames = reader.read(own.path)
        except SoundError as error:
            skipped.append((own.path, str(error).removeprefix(f"{own.path}: ")))
            continue
        cut += len(frames) == longest
        digest.update(f"{own.split} {own.label} {_hash(own.path)} ".encode())
        gathered[own.split].add(frames, numbers[own.label])
    parts = {split: own.part() for split, own in gathered.items() if len(own.labels) or split == "valid"}
    for split in ("train", "valid"):
        if split not in parts or not len(parts[split].labels):
            why = f" ({skipped[0][0].name}: {skipped[0][1]})" if skipped else ""
            raise DataError(
                f"expected recordings for the {split} part, found none of {_name(config)}{why}; give more, or name "
                f"folders or tables for it"
            )
    notes = [*describe_skipped(skipped), *notes]
    if unseen:
        notes.append(f"{unseen:,} recordings of labels that training lacks were left out")
    if cut:
        notes.append(f"{cut:,} recordings reach {longest:,} frames, which is where they are cut (--set longest=N)")
    found = _assembled(config, reader, classes, parts, notes, digest.hexdigest(), artifacts)
    return replace(found, files=list_files([own.path for own in listed], skipped, encoding=None))


def list_recordings(
    config: DataConfig, data_dir: StrPath | None, cache: StrPath | None, skipped: list[tuple[Path, str]]
) -> tuple[list[Recording], list[str]]:
    """The recordings of settings with their splits, and how these were made."""
    found = list(_recordings(config.data, config, data_dir, cache, skipped))
    if not found:
        why = f", {skipped[0][0].name} is {skipped[0][1]}" if skipped else ""
        raise DataError(
            f"expected recordings with labels in {_name(config)}, found none{why}; put them in a folder for each "
            "label, or say what their names tell with --set pattern={label}_{speaker}_{take}"
        )
    notes = []
    if config.test_speaker is not None:
        notes.append(f"test: all recordings of the speaker {config.test_speaker}, none of which is trained on")
    if config.valid_speaker is not None:
        notes.append(f"validation: all recordings of the speaker {config.valid_speaker}, none of which is trained on")
    elif not config.valid and len(config.data) == 1 and config.data[0] in SOUNDS:
        notes.append(f"validation: {SOUNDS[config.data[0]].held}")
    found = split_by_speaker(found, config.test_speaker, config.valid_speaker, _name(config))
    for split, given in (("valid", config.valid), ("test", config.test)):
        if given:
            others = [own for own in found if own.split != split]
            given_ones = _recordings(given, config, data_dir, cache, skipped)
            found = [*others, *(own._replace(split=split) for own in given_ones)]
    if not any(own.split == "valid" for own in found):
        if not 0 < config.share < 1:
            raise DataError(
                f"expected a validation share between 0 and 1, found {config.share}; or name validation data"
            )
        notes.append(f"validation: the recordings whose name's hash is in the lowest {config.share:g} of all")
        found = [
            own._replace(split="valid") if own.split in ("", "train") and has_low_hash(own.name, config.share) else own
            for own in found
        ]
    return [own if own.split else own._replace(split="train") for own in found], notes


def _recordings(
    data: Sequence[str],
    config: DataConfig,
    data_dir: StrPath | None,
    cache: StrPath | None,
    skipped: list[tuple[Path, str]],
) -> Iterator[Recording]:
    """The recordings of a known set, of folders, of tables, and files named outright."""
    columns = {"file": config.text_column, "label": config.label_column, "speaker": config.speaker_column}
    for name in data:
        path = path_of(name)
        if name in SOUNDS:
            yield from SOUNDS[name].recordings(data_dir, cache)
        elif path.is_dir():
            tables = [own for own in sorted(path.iterdir()) if names_recordings(own, config.encoding)]
            if len(tables) == 1 and config.pattern is None:
                yield from read_table(tables[0], columns, config.header, skipped, config.encoding)
            else:
                yield from label_by_name(path, find_recordings(path), config.pattern, skipped)
        elif is_recording(path):
            yield from label_by_name(path.parent, [path], config.pattern, skipped)
        else:
            yield from read_table(path, columns, config.header, skipped, config.encoding)


def _read_tones(config: DataConfig, reader: Reader, artifacts: Artifacts | None) -> Labelled:
    classes = tuple(ORDERS)
    if artifacts is not None and artifacts.classes != classes:
        raise DataError(f"expected recordings of {some_of(artifacts.classes, 6)}, found tones; name the run's own data")
    parts, first = {}, 0
    for split, count in COUNTS.items():
        own = _Gatherer(reader.mel.bands)
        for number in range(first, first + count):
            samples, label = tones(number, reader.mel.rate)
            own.add(reader.frames(iter([samples]), f"tones {number}"), classes.index(label))
        parts[split], first = own.part(), first + count
    content = hashlib.sha256(f"{_about(config, reader, classes)} {COUNTS} {np.__version__}".encode()).hexdigest()
    return _assembled(config, reader, classes, parts, [], content, artifacts)


def _assembled(
    config: DataConfig,
    reader: Reader,
    classes: Sequence[str],
    parts: dict[str, Part],
    notes: list[str],
    content: str,
    artifacts: Artifacts | None,
) -> Labelled:
    if artifacts is None:
        sound = Sounds(mel=reader.mel, level=config.level)
        if config.scale_bands:
            values, lengths, _ = parts["train"]
            recordings = np.split(values, np.cumsum(lengths)[:-1])
            sound = replace(sound, scaler=BandScaler.fit(map(sound.prepare, recordings), reader.mel.bands))
        artifacts = Artifacts(classes=tuple(classes), longest=reader.longest, sound=sound)
    return assemble(_name(config), artifacts, parts, notes, content)


def _classes(listed: Sequence[Recording], name: str) -> tuple[str, ...]:
    labels = {own.label for own in listed if own.split == "train"}
    if len(labels) < 2:
        raise DataError(
            f"expected at least two labels to tell apart, found {some_of(sorted(labels), 1) or 'none'} in {name}; say "
            "what names tell with --set pattern={label}_{speaker}_{take}"
        )
    return sort_labels(labels)


def _about(config: DataConfig, reader: Reader, classes: Sequence[str]) -> str:
    return json.dumps(
        [reader.mel.to_json(), reader.longest, list(classes), config.scale_bands, config.level], sort_keys=True
    )


def _hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _name(config: DataConfig) -> str:
    if not config.data:
        return TONES
    return config.data[0] if config.data[0] in SOUNDS else path_of(config.data[0]).absolute().name
