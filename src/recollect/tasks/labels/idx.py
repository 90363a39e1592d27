"""The IDX file format of MNIST: a header with the shape, then an array of bytes."""

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np

from ...data.files import DataError


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """Read an IDX file of bytes, packed or not: two zeros, type, number of dimensions, sizes, data."""
    try:
        raw = path.read_bytes()
        data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"expected an IDX file, found {error}: {path}; get a new copy") from None
    head = 4 + 4 * dimensions
    wanted = bytes([0, 0, 8, dimensions])
    if data[:4] != wanted:
        raise DataError(
            f"expected an IDX file of bytes in {dimensions} dimensions (it begins with {wanted.hex(' ')}), "
            f"found {data[:4].hex(' ') or 'nothing'} in {path}; get a new copy"
        )
    if len(data) < head:
        raise DataError(
            f"expected {head} bytes at the head of an IDX file, found {len(data)} in {path}; get a new copy"
        )
    sizes = struct.unpack(f">{dimensions}I", data[4:head])
    count = 1
    for size in sizes:  # plain integers: sizes from a file may be anything
        count *= size
    if len(data) - head != count or not count:
        shape = " × ".join(f"{size:,}" for size in sizes)
        raise DataError(
            f"expected {shape} = {count:,} bytes after the head, found {len(data) - head:,} in {path}; get a new copy"
        )
    return np.frombuffer(data, np.uint8, offset=head).reshape(sizes)
