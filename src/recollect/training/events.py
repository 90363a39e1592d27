"""The log of a run as an event file of TensorBoard, for those who live there. Nothing of TensorBoard is needed for it.

An event file is a row of TFRecords: the length of the content (8 bytes), a masked CRC-32C of that, the content, a
masked CRC-32C of it. The content is an `Event` in the encoding of protocol buffers, whose fields are written here by
hand: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7; of a summary value = 1; of a value
tag = 1 and simple_value = 2; of a session log status = 1, where 1 means that whatever later steps stand there is void.
"""

import os
import struct
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..core.settings import known

LOGS = ("tensorboard",)
TAGS = {  # columns of metrics.jsonl
    "loss": "train/loss", "lr": "train/learning_rate", "norm": "train/gradient_norm",
    "tokens_per_second": "train/tokens_per_second", "memory": "train/bytes_of_memory", "tokens": "train/tokens",
    "seconds": "train/seconds",
}  # fmt: skip


class EventFile:
    """An event file in a run folder, begun with the first row that is logged."""

    def __init__(self, folder: Path, metric: str) -> None:
        self.folder, self.metric = folder, metric
        self.path: Path | None = None

    def write(self, row: Mapping[str, Any]) -> None:
        """A row of metrics.jsonl."""
        step = int(row["step"])
        content = b""
        if self.path is None:
            moment = time.time()
            self.path = self.folder / f"events.out.tfevents.{int(moment):010d}.recollect.{os.getpid()}"
            content = record(event(moment, 0, version=b"brain.Event:2")) + record(event(moment, step, begins=True))
        values = {TAGS[name]: float(value) for name, value in row.items() if name in TAGS and value is not None}
        if "valid" in row:
            values = {f"valid/{self.metric}": float(row["valid"])}
        with self.path.open("ab") as file:
            file.write(content + record(event(time.time(), step, values=values)))


def check_log(name: str | None) -> str | None:
    """The name of a log that can be written beside metrics.jsonl."""
    return None if name is None else known("log", name, LOGS)


def event(
    moment: float, step: int, *, version: bytes = b"", values: Mapping[str, float] | None = None, begins: bool = False
) -> bytes:
    """An Event."""
    found = b"\x09" + struct.pack("<d", moment) + (b"\x10" + varint(step) if step else b"")
    if version:
        found += b"\x1a" + sized(version)
    if values:
        each = (
            b"\x0a" + sized(tag.encode()) + b"\x15" + struct.pack("<f", clamp(value)) for tag, value in values.items()
        )
        found += b"\x2a" + sized(b"".join(b"\x0a" + sized(value) for value in each))
    return found + (b"\x3a" + sized(b"\x08\x01") if begins else b"")


def clamp(value: float) -> float:
    """What four bytes can hold; numbers beyond that become infinite."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def record(content: bytes) -> bytes:
    """A TFRecord."""
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", masked(length)) + content + struct.pack("<I", masked(content))


def sized(content: bytes) -> bytes:
    return varint(len(content)) + content


def varint(value: int) -> bytes:
    """A whole number, seven bits a byte."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def masked(content: bytes) -> int:
    """The masked checksum of a record."""
    found = crc32c(content)
    return ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(content: bytes) -> int:
    """CRC-32C (Castagnoli)."""
    found = 0xFFFFFFFF
    for byte in content:
        found = _table()[(found ^ byte) & 255] ^ found >> 8
    return found ^ 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    found = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        found.append(value)
    return tuple(found)
