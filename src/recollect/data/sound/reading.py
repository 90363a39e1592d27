"""One recording: any file of a common format that libsndfile reads, as one channel of samples in ±1."""

import io
import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from ...core.files import FileError, open_regular
from ..byte_files import StrPath
from ..limits import SOUND_BYTES, SOUND_CHANNELS, SOUND_RATES, SOUND_SECONDS
from .resample import Resampler
from .settings import SoundError

BLOCK = 1 << 18  # samples of all channels that are decoded at a time
LOUDEST = 2.0**31  # of a float sample: some programs write whole numbers of 16 or 32 bits as floats
FORMATS = {  # how files begin that are handed to libsndfile
    b"RIFF": "WAV", b"RIFX": "WAV", b"RF64": "WAV", b"riff": "W64", b"fLaC": "FLAC", b"OggS": "Ogg", b"FORM": "AIFF",
    b".snd": "AU", b"caff": "CAF", b"NIST": "NIST", b"ID3": "MP3",
}  # fmt: skip
UNKNOWN = 0x7FFF_0000  # bytes from which on a WAV file's length is what programs write that do not know it yet


@dataclass(frozen=True)
class Sound:
    """A recording: `samples` (float32, one channel, mostly within ±1), `rate` of them a second."""

    samples: np.ndarray
    rate: int

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def read_sound(
    source: StrPath | bytes, rate: int | None = None, *, seconds: float = SOUND_SECONDS, name: str | None = None
) -> Sound:
    """A whole recording, of at most so many seconds, at `rate` samples a second (None: its own).

    `source` is a file, or its content. Several channels become their mean. A recording that is nothing but silence is
    refused: every sample has the same value.
    """
    opened = _Recording(source, seconds, name)
    with opened:
        blocks = list(opened.blocks(rate))
        opened.check_sound()
    return Sound(np.concatenate(blocks), opened.rate if rate is None else rate)


def read_blocks(
    source: StrPath | bytes, rate: int | None = None, *, seconds: float = SOUND_SECONDS, name: str | None = None
) -> Iterator[np.ndarray]:
    """The samples of a recording in blocks, so that a long one never lies in memory whole; else as `read_sound`."""
    with _Recording(source, seconds, name) as opened:
        yield from opened.blocks(rate)
        opened.check_sound()


def is_sound(path: StrPath) -> bool:
    """Whether a file begins as a recording does."""
    try:
        with open_regular(path) as file:
            return find_format(file.read(12)) is not None
    except (FileError, OSError):  # whoever reads it says what is wrong
        return False


def find_format(head: bytes) -> str | None:
    """The format of a recording that begins so; None where it is none."""
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0 and head[1] != 0xFF:
        return "MP3"  # without a tag before it
    return next((kind for begin, kind in FORMATS.items() if head.startswith(begin)), None)


class _Recording:
    """A recording that is open: its head is read and found good."""

    def __init__(self, source: StrPath | bytes, seconds: float, name: str | None) -> None:
        self.name = name or ("the recording" if isinstance(source, bytes) else str(source))
        self.seconds = seconds
        self.low, self.high = math.inf, -math.inf  # of all samples so far
        self.file: Any = None
        self.raw: BinaryIO = io.BytesIO(source) if isinstance(source, bytes) else _open(source)
        try:
            self._check_head()
            self.file = self._decoded()
            self._check_format()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "_Recording":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        self.raw.close()

    @property
    def rate(self) -> int:
        return self.file.samplerate

    def _check_head(self) -> None:
        head = self.raw.read(12)
        if not head:
            raise SoundError(f"{self.name}: expected a recording, found an empty file")
        kind = find_format(head)
        if kind is None:
            raise SoundError(
                f"{self.name}: expected a recording (WAV, FLAC, Ogg, MP3, AIFF, AU, CAF), found something that begins "
                f"with {head[:4]!r}"
            )
        if kind == "WAV" and head[:4] != b"RF64":
            self._check_chunks("<" if head[:4] == b"RIFF" else ">")
        self.raw.seek(0)

    def _check_chunks(self, order: str) -> None:
        """Refuse a WAV file that ends before its samples do; libsndfile would read what is left of it."""
        size = self.raw.seek(0, os.SEEK_END)
        at = 12
        while at + 8 <= size:
            self.raw.seek(at)
            kind, length = struct.unpack(f"{order}4sI", self.raw.read(8))
            if kind == b"data":
                if length < UNKNOWN and at + 8 + length > size:
                    raise SoundError(
                        f"{self.name}: expected {length:,} bytes of samples, found {size - at - 8:,}, a file cut "
                        "short; get a new copy"
                    )
                return
            at += 8 + length + length % 2
        raise SoundError(f"{self.name}: expected a WAV file with samples, found one without, cut short or damaged")

    def _decoded(self) -> Any:
        import soundfile

        try:
            return soundfile.SoundFile(self.raw)
        except Exception as error:  # a decoder may raise anything on bytes that are not what they say
            raise self._damaged(error) from None

    def _check_format(self) -> None:
        least, most = SOUND_RATES
        if not least <= self.rate <= most:
            raise SoundError(
                f"{self.name}: expected {least:,} to {most:,} samples a second, found {self.rate:,}; convert it"
            )
        if self.file.channels > SOUND_CHANNELS:
            raise SoundError(f"{self.name}: expected at most {SOUND_CHANNELS} channels, found {self.file.channels:,}")
        if self.file.frames < 1:
            raise SoundError(f"{self.name}: expected a recording, found one without samples")
        self._check_length(self.file.frames)

    def _check_length(self, frames: int) -> None:
        if frames > self.seconds * self.rate:
            raise SoundError(
                f"{self.name}: expected a recording of at most {self.seconds:,.6g} s, found "
                f"{frames / self.rate:,.6g} s; cut it into parts"
            )

    def _damaged(self, error: Exception) -> SoundError:
        reason = " ".join(str(error).split()).rpartition(": ")[2] or type(error).__name__
        return SoundError(f"{self.name}: expected a whole recording, found a damaged one ({reason}); get a new copy")

    def blocks(self, rate: int | None) -> Iterator[np.ndarray]:
        """The samples, at `rate`."""
        resample = None if rate in (None, self.rate) else Resampler(self.rate, _check_rate(rate))
        for block in self._decode():
            yield block if resample is None else resample(block)
        if resample is not None:
            yield resample.finish()

    def _decode(self) -> Iterator[np.ndarray]:
        """The mean of all channels, at the recording's own rate."""
        each, read = max(1, BLOCK // self.file.channels), 0
        while True:
            try:
                block = self.file.read(each, dtype="float32", always_2d=True)
            except Exception as error:
                raise self._damaged(error) from None
            if not len(block):
                break
            read += len(block)
            self._check_length(read)
            mono = block[:, 0] if block.shape[1] == 1 else block.mean(axis=1, dtype=np.float32)
            low, high = float(mono.min()), float(mono.max())
            if not -LOUDEST <= low <= high <= LOUDEST:
                raise SoundError(
                    f"{self.name}: expected samples that are numbers up to 2^31, found one that is not, from "
                    f"{(read - len(block)) / self.rate:.2f} s on; convert it to 16 bits"
                )
            self.low, self.high = min(self.low, low), max(self.high, high)
            yield mono
        if read < self.file.frames and self.file.format != "MP3":  # whose length is an estimate
            raise SoundError(
                f"{self.name}: expected {self.file.frames:,} samples, found {read:,}, a file cut short; get a new copy"
            )

    def check_sound(self) -> None:
        """Refuse a recording in which nothing was to be heard, once it is read."""
        if not self.low < self.high:
            raise SoundError(f"{self.name}: expected sound, found silence: every sample is {self.low:g}")


def _check_rate(rate: int | None) -> int:
    least, most = SOUND_RATES
    if not isinstance(rate, int) or not least <= rate <= most:
        raise SoundError(f"expected a rate from {least:,} to {most:,} samples a second, found {rate!r}")
    return rate


def _open(path: StrPath) -> BinaryIO:
    try:
        file = open_regular(path)
    except FileError as error:
        raise SoundError(str(error).replace("a regular file", "a recording")) from None
    except OSError as error:
        raise SoundError(f"{path}: expected a recording, found {error.strerror or error}") from None
    size = os.fstat(file.fileno()).st_size
    if size > SOUND_BYTES:
        file.close()
        raise SoundError(f"{path}: expected a recording of at most {SOUND_BYTES:,} bytes, found {size:,}")
    return file
