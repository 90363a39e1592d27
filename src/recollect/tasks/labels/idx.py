"""The IDX file format of MNIST: a header with the shape, then an array of bytes."""

import math
import struct
from pathlib import Path

import numpy as np

from ...core.limits import check_fits
from ...data.byte_files import ByteFile
from ...data.errors import DataError

COPIES = 3  # of the images in memory while they become sequences
DEFLATE = 1032  # bytes that one packed byte becomes at most


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """Read an IDX file of bytes, packed or not: two zeros, type, number of dimensions, sizes, data."""
    size = 4 + 4 * dimensions
    wanted = bytes([0, 0, 8, dimensions])
    with ByteFile(path) as file:
        head = file.read(size)
        if head[:4] != wanted:
            raise DataError(
                f"expected an IDX file of bytes in {dimensions} dimensions (it begins with {wanted.hex(' ')}), "
                f"found {head[:4].hex(' ') or 'nothing'} in {path}; get a new copy"
            )
        if len(head) < size:
            raise DataError(
                f"expected {size} bytes at the head of an IDX file, found {len(head)} in {path}; get a new copy"
            )
        sizes = struct.unpack(f">{dimensions}I", head[4:])
        count = math.prod(sizes)  # plain integers: sizes from a file may be anything
        most = file.size * (DEFLATE if file.packed else 1)  # which the file can hold, whatever its head says
        check_fits(COPIES * min(count, most), f"the array of {path}", "give fewer or smaller images")
        data = bytearray()
        while len(data) <= count and (block := file.read()):
            data += block
    if len(data) != count or not count:
        shape = " × ".join(f"{size:,}" for size in sizes)
        found = f"{len(data):,}{' or more' if len(data) > count else ''}"
        raise DataError(f"expected {shape} = {count:,} bytes after the head, found {found} in {path}; get a new copy")
    return np.frombuffer(data, np.uint8).reshape(sizes)
