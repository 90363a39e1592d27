"""Arrays for pages as bytes: a head in JSON, then each array, little-endian.

4 bytes   the length of the head
head      {"…": anything, "arrays": [{"name", "type", "shape", "at"}, …]}, padded with blanks
arrays    each from `at` bytes behind the head, a multiple of 8
"""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from starlette.responses import Response

from ..serve.refusals import to_json

TYPES = {"float16": "<f2", "float32": "<f4", "uint8": "|u1", "uint16": "<u2", "int32": "<i4"}
ALIGNED = 8


def pack(about: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """What `static/lib/arrays.js` reads again; each array has one of the dtypes of `TYPES`."""
    entries, parts, at = [], [], 0
    for name, array in arrays.items():
        content = np.ascontiguousarray(array)
        data = content.astype(TYPES[str(content.dtype)], copy=False).tobytes()
        entries.append({"name": name, "type": str(content.dtype), "shape": list(np.shape(array)), "at": at})
        padding = -len(data) % ALIGNED
        parts.append(data + bytes(padding))
        at += len(data) + padding
    head = to_json({**about, "arrays": entries}).encode()
    head += b" " * (-(len(head) + 4) % ALIGNED)
    return b"".join([struct.pack("<I", len(head)), head, *parts])


class Arrays(Response):
    """An answer of arrays."""

    media_type = "application/octet-stream"

    def __init__(self, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        super().__init__(pack(about, arrays))
