"""Hypothesis strategies that alter valid files: bytes, JSON, rows of JSON, tensors, text, pictures, films, IDX.

Each draws a `Change`: what stands in place of the file, and a few words that say what was altered.
"""

import functools
import gzip
import io
import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from faults.fuzzing.sounds import changed_sound

DEEP = "a value that stands for 100,000 lists in lists"
LONG = 10**5
COUNTS = {"steps", "tokens", "seconds", "flops", "eval_every", "eval_tokens", "eval_rows", "length"}  # of honest work
MOST_COUNT = 100
NAMES = ("lstm", "gru", "rnn", "transformer", "tcn", "ttt-linear", "mlp", "ngram", "mixture", "attend", "bytes", "bpe")
PATHS = ("../../../etc/passwd", "/dev/zero", "~nobody/x", "a\0b", "/proc/self/mem")
NUMBERS = (
    0, 1, -1, 2, 0.5, -0.5, 3.7, 255, 10**9, 10**12, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63), 10**400, 1e308, -1e308,
    5e-324, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = (
    "",
    "x",
    " ",
    "0",
    "-1",
    "nan",
    "x" * LONG,
    "\x00\x1b[31m\r\n",
    "\ud800",
    "\u202eabc",
    "é\u0301",
    *NAMES,
    *PATHS,
)
OTHERS = (None, True, False, [], {}, [[]], [None], ["a"], [1, 2], {"a": 1}, DEEP)


class Change(NamedTuple):
    """What a file became."""

    words: str
    content: bytes = b""
    kind: str = "file"  # or: missing, folder, fifo, loop, sparse

    def write(self, path: Path) -> None:
        """Put it in place of the file."""
        path.unlink(missing_ok=True)
        if self.kind == "file":
            path.write_bytes(self.content)
        elif self.kind == "folder":
            path.mkdir()
        elif self.kind == "fifo":
            os.mkfifo(path)
        elif self.kind == "loop":
            path.symlink_to(path.name)
        elif self.kind == "sparse":  # a terabyte that takes no room on the disk
            with path.open("wb") as file:
                file.truncate(1 << 40)


PLACES = [Change(kind, kind=kind) for kind in ("missing", "folder", "fifo", "loop", "sparse")]


def shorten(value: object) -> str:
    text = repr(value) if not isinstance(value, bytes) else repr(value[:40])
    return text if len(text) < 60 else f"{text[:56]} …"


# ------------------------------------------------------------------------------------------------ bytes


@st.composite
def changed_bytes(draw: st.DrawFn, good: bytes) -> Change:
    """Bytes flipped, cut, repeated or inserted, or others in their place."""
    at = draw(st.integers(0, max(0, len(good) - 1)))
    kind = draw(st.sampled_from(["flip", "cut", "insert", "repeat", "overwrite", "drop", "empty", "random", "zeros"]))
    if kind == "flip":
        value = good[at] ^ (1 << draw(st.integers(0, 7))) if good else 0
        return Change(f"bit of byte {at} flipped", good[:at] + bytes([value]) + good[at + 1 :])
    if kind == "cut":
        return Change(f"cut off at byte {at}", good[:at])
    if kind == "insert":
        part = draw(st.binary(min_size=1, max_size=20))
        return Change(f"{part!r} inserted at byte {at}", good[:at] + part + good[at:])
    if kind == "overwrite":
        part = draw(st.binary(min_size=1, max_size=20))
        return Change(f"{part!r} written over byte {at}", good[:at] + part + good[at + len(part) :])
    size = draw(st.integers(1, 200))
    if kind == "repeat":
        return Change(f"{size} bytes at {at} repeated", good[: at + size] + good[at:])
    if kind == "drop":
        return Change(f"{size} bytes at {at} dropped", good[:at] + good[at + size :])
    if kind == "random":
        return Change("random bytes", draw(st.binary(max_size=300)))
    return Change("empty") if kind == "empty" else Change("zeros in its place", bytes(len(good)))


# ------------------------------------------------------------------------------------------------ JSON


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to every value in a tree; of long lists to their first and last ones."""
    found = [path] if path else []
    branches = isinstance(value, dict | list)
    keys = list(value if isinstance(value, dict) else range(len(value))) if branches else []
    for key in keys if len(keys) <= 40 else [*keys[:4], *keys[-2:]]:
        found += places(value[key], (*path, key))
    return found


def near(value: Any) -> st.SearchStrategy[Any]:
    """Values that are almost right."""
    if isinstance(value, bool) or value is None:
        return st.sampled_from([True, False, 1, "true"])
    if isinstance(value, int | float):
        return st.sampled_from([value + 1, value - 1, -value, value * 2, value // 2, value * 1000, str(value), [value]])
    if isinstance(value, str):
        return st.sampled_from(
            [value + "x", value[:-1], value.upper(), value[:100] * 1000, [value], {value: value}, f"\n{value}"]
        )
    if isinstance(value, list):
        return st.sampled_from([[], value * 2, value[1:], value[::-1], [value], [*value, None], value[:1] * 5000])
    return st.sampled_from([{}, list(value), dict(list(value.items())[1:]), value | {"more": 1}, {"": value}])


@st.composite
def changed_tree(draw: st.DrawFn, good: Any) -> tuple[str, Any]:
    """A tree of JSON with values replaced, keys removed or keys added."""
    tree, words = json.loads(json.dumps(good)), []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        paths = places(tree)
        if not paths:
            return "another value", draw(st.sampled_from(OTHERS))
        path = draw(st.sampled_from(paths))
        *way, last = path
        inner = functools.reduce(lambda part, key: part[key], way, tree)
        where = ".".join(map(str, path))
        kind = draw(st.sampled_from(["other", "near", "near", "remove", "add", "swap"]))
        if kind == "remove":
            del inner[last]
            words.append(f"{where} removed")
            continue
        if kind == "add" and isinstance(inner, dict):
            key = draw(st.sampled_from(["more", "", "x" * LONG, "__class__", "\ud800", "data", "seed", "\x1b[31m"]))
            inner[key] = draw(st.sampled_from(OTHERS))
            words.append(f"{shorten(key)} added beside {where}")
            continue
        if kind == "near":
            value = draw(near(inner[last]))
        elif kind == "swap":  # with the value of another place
            other = draw(st.sampled_from(paths))
            value = functools.reduce(lambda part, key: part[key], other, tree)
        else:
            value = draw(st.sampled_from((*NUMBERS, *TEXTS, *OTHERS)))
        honest = COUNTS & set(path) and isinstance(value, int | float) and value > MOST_COUNT
        inner[last] = json.loads(json.dumps(MOST_COUNT if honest else value))
        words.append(f"{where} is {shorten(inner[last])}")
    return " and ".join(words), tree


def dump(tree: Any, **options: Any) -> bytes:
    text = json.dumps(tree, **options).replace(json.dumps(DEEP), "[" * 100_000 + "]" * 100_000)
    return text.encode()


@st.composite
def changed_json(draw: st.DrawFn, good: bytes) -> Change:
    """A JSON file with another tree, or other bytes."""
    if draw(st.integers(0, 7)) == 0:
        return draw(changed_bytes(good) | changed_text(good))
    words, tree = draw(changed_tree(json.loads(good)))
    return Change(words, dump(tree))


@st.composite
def changed_rows(draw: st.DrawFn, good: bytes) -> Change:
    """A file of JSON lines with another tree in a line, or other bytes."""
    lines = good.splitlines()
    if not lines or draw(st.integers(0, 7)) == 0:
        return draw(changed_bytes(good) | changed_text(good))
    at = draw(st.integers(0, len(lines) - 1))
    words, tree = draw(changed_tree(json.loads(lines[at])))
    return Change(f"line {at + 1}: {words}", b"\n".join([*lines[:at], dump(tree), *lines[at + 1 :], b""]))


# ------------------------------------------------------------------------------------------------ tensors


DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "u1"}
FILLS = (0, 1, -1, 0.5, 1e30, -1e30, 1e-40, 2**31, 2**62, float("nan"), float("inf"), float("-inf"))


def unpack(good: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The header of a safetensors file, and the bytes of each tensor."""
    size = int.from_bytes(good[:8], "little")
    head, body = json.loads(good[8 : 8 + size]), good[8 + size :]
    return head, {name: body[slice(*about["data_offsets"])] for name, about in head.items() if name != "__metadata__"}


def pack(head: dict[str, Any], parts: dict[str, bytes]) -> bytes:
    """A safetensors file whose offsets fit its parts."""
    body, written = b"", {}
    for name, about in head.items():
        if name in parts:
            about = about | {"data_offsets": [len(body), len(body) + len(parts[name])]}
            body += parts[name]
        written[name] = about
    text = json.dumps(written).encode()
    return struct.pack("<Q", len(text)) + text + body


def fitted(part: bytes, size: int) -> bytes:
    """Bytes repeated or cut to a size."""
    return (part * (size // max(1, len(part)) + 1))[:size] if part else bytes(size)


@st.composite
def changed_shape(draw: st.DrawFn, shape: list[int]) -> list[int]:
    """Another shape, such as that of a model with another width."""
    axis = draw(st.integers(0, max(0, len(shape) - 1)))
    size = shape[axis] if shape else 1
    other = draw(st.sampled_from([size + 1, max(0, size - 1), 0, 1, size * 2, size * 1000]))
    options = [
        [*shape[:axis], other, *shape[axis + 1 :]], [*shape[:axis], *shape[axis + 1 :]], [1, *shape], [*shape, 1],
        shape[::-1], [int(np.prod(shape))], [], [0], [*shape, 0],
    ]  # fmt: skip
    return draw(st.sampled_from(options))


@st.composite
def changed_tensors(draw: st.DrawFn, good: bytes) -> Change:
    """A safetensors file with other names, shapes, dtypes, values or notes, which is otherwise well-formed."""
    head, parts = unpack(good)
    kind = draw(
        st.sampled_from(["shape", "dtype", "fill", "noise", "name", "remove", "add", "note", "header", "bytes"])
    )
    if kind == "bytes" or not parts:
        return draw(changed_bytes(good))
    if kind == "header":
        words, head = draw(changed_tree(head))
        text = dump(head)
        return Change(f"header: {words}", struct.pack("<Q", len(text)) + text + b"".join(parts.values()))
    if kind == "note":
        return draw(changed_note(head, parts))
    name = draw(st.sampled_from(sorted(parts)))
    about, part = dict(head[name]), parts[name]
    words = ""
    if kind == "shape":
        about["shape"] = draw(changed_shape(about["shape"]))
        words = f"{name} of shape {about['shape']}"
    elif kind == "dtype":
        about["dtype"] = draw(st.sampled_from(sorted(DTYPES)))
        words = f"{name} of {about['dtype']}"
    elif kind == "remove":
        head.pop(name)
        parts.pop(name)
        return Change(f"{name} removed", pack(head, parts))
    elif kind in ("name", "add"):
        new = draw(
            st.sampled_from([f"{name}.x", f"x.{name}", "", "x" * 10_000, name.replace("0", "7"), name[:-1], "\x1b[31m"])
        )
        rest = {own: head[own] for own in head if own != name or kind == "add"}
        return Change(f"{name} as {shorten(new)} ({kind})", pack(rest | {new: about}, parts | {new: part}))
    dtype = np.dtype(DTYPES.get(about["dtype"], "u1"))
    count = int(np.prod(about["shape"], dtype=np.int64))
    part = fitted(part, min(count * dtype.itemsize, 1 << 26))
    if kind == "fill":
        value = draw(st.sampled_from(FILLS))
        with np.errstate(all="ignore"):
            values = np.frombuffer(part, dtype).copy()
            at = draw(st.sampled_from([slice(None), slice(0, 1), slice(-1, None)]))
            values[at] = np.array(value).astype(dtype)
        part, words = values.tobytes(), f"{name} filled with {value} at {at.start}:{at.stop}"
    elif kind == "noise":
        values = np.random.default_rng(draw(st.integers(0, 9))).integers(0, 256, len(part), dtype=np.uint8)
        part, words = values.tobytes(), f"{name} of random bytes"
    return Change(words, pack(head | {name: about}, parts | {name: part}))


@st.composite
def changed_note(draw: st.DrawFn, head: dict[str, Any], parts: dict[str, bytes]) -> Change:
    """A safetensors file whose note says something else."""
    notes = head.get("__metadata__", {})
    if not notes or draw(st.integers(0, 4)) == 0:
        other = draw(
            st.sampled_from([{}, {"recollect": ""}, {"recollect": "[" * LONG}, {"recollect": "7"}, {"x": "{}"}])
        )
        return Change(f"note {shorten(other)}", pack(head | {"__metadata__": other}, parts))
    key = draw(st.sampled_from(sorted(notes)))
    try:
        words, tree = draw(changed_tree(json.loads(notes[key])))
        text = dump(tree).decode()
    except json.JSONDecodeError:  # a plain text
        text = draw(st.sampled_from([notes[key] + "x", *TEXTS]))
        words = shorten(text)
    return Change(f"note: {words}", pack(head | {"__metadata__": notes | {key: text}}, parts))


# ------------------------------------------------------------------------------------------------ text


CELLS = (
    "", " ", "nan", "inf", "-inf", "1e999", "-1e308", "1e-400", "1_000", "0x10", "٣", "१२", "1,5", "--1", "1e",
    "∞", "1e9", "9999-12-31", "0000-00-00", "2024-02-30 25:61:61", "2024-01-01T00:00:00+99:99", "-1", "0", '"',
    '"a\tb"', "\x00", "'", "#", "\ufeff", "\u2028", "<b>", "=1+1", "2147483648", "9223372036854775808", "NULL",
    "9" * 5000, "é\u0301" * 99, "x" * LONG,
)  # fmt: skip
MARKS = (
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\x00",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\r",
    b"\r\n",
    b"\n\n\n",
    b"\x1a",
    b"\x0c",
    b"\t\t",
)


@st.composite
def changed_text(draw: st.DrawFn, good: bytes) -> Change:
    """Text with other cells, lines, ends of lines or encodings."""
    lines = good.split(b"\n")
    at = draw(st.integers(0, len(lines) - 1))
    kind = draw(st.sampled_from(["cell", "cell", "cell", "mark", "line", "order", "encode", "repeat", "drop", "join"]))
    if kind == "cell":
        for separator in draw(st.permutations([b"\t", b",", b" "])):
            cells = lines[at].split(separator)
            if len(cells) > 1:
                break
        place, value = draw(st.integers(0, len(cells) - 1)), draw(st.sampled_from(CELLS))
        cells[place] = value.encode()
        lines[at] = separator.join(cells)
        return Change(f"line {at + 1}, cell {place + 1} is {shorten(value)}", b"\n".join(lines))
    if kind == "mark":
        mark = draw(st.sampled_from(MARKS))
        place = draw(st.integers(0, len(good)))
        return Change(f"{mark!r} at {place}", good[:place] + mark + good[place:])
    if kind == "line":
        line = draw(
            st.sampled_from([b"", b"x" * 10**6, b"\t" * 1000, b"," * 1000, b"a," * 10**4, b'"', b"\xff\xff", b" "])
        )
        return Change(f"line {at + 1} is {line[:10]!r} …", b"\n".join([*lines[:at], line, *lines[at + 1 :]]))
    if kind == "order":
        return Change("lines in reverse", b"\n".join(lines[::-1]))
    if kind == "encode":
        name = draw(st.sampled_from(["utf-16", "utf-32", "utf-7", "utf-8-sig", "cp500"]))
        return Change(f"in {name}", good.decode("utf-8", "replace").encode(name, "replace"))
    if kind == "repeat":
        count = draw(st.sampled_from([2, 100]))
        return Change(f"line {at + 1} {count} times", b"\n".join([*lines[:at], *[lines[at]] * count, *lines[at + 1 :]]))
    if kind == "drop":
        return Change(f"{at} lines alone", b"\n".join(lines[:at]))
    return Change("without ends of lines", good.replace(b"\n", draw(st.sampled_from([b"", b"\r", b" ", b"\t"]))))


# ------------------------------------------------------------------------------------------------ gzip, pictures, IDX


@functools.cache
def bomb() -> bytes:
    """Four gigabytes of zeros in four megabytes of gzip."""
    return gzip.compress(bytes(1 << 26)) * 64


@st.composite
def changed_gzip(draw: st.DrawFn, good: bytes) -> Change:
    """A gzip file with another content, other bytes, or a bomb."""
    kind = draw(st.sampled_from(["content", "content", "bytes", "bomb", "twice", "plain"]))
    if kind == "bytes":
        return draw(changed_bytes(good))
    if kind == "bomb":
        return Change("a bomb", bomb())
    content = gzip.decompress(good)
    if kind == "content":
        change = draw(changed_text(content) | changed_bytes(content))
        return Change(f"content: {change.words}", gzip.compress(change.content))
    return Change(f"{kind}", gzip.compress(good) if kind == "twice" else content)


def chunk(name: bytes, content: bytes) -> bytes:
    """A chunk of a PNG file with its checksum."""
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


@st.composite
def changed_picture(draw: st.DrawFn, good: bytes) -> Change:
    """A picture with other bytes, of another size, mode or format, or one that claims to be huge."""
    kind = draw(st.sampled_from(["bytes", "bytes", "huge", "format", "size"]))
    if kind == "huge":
        size = draw(st.sampled_from([(50_000, 50_000), (2**31 - 1, 1), (1, 60_000), (0, 0), (20_000, 8_000)]))
        head = struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0)
        body = chunk(b"IDAT", zlib.compress(bytes(10**6))) + chunk(b"IEND", b"")
        return Change(f"claims {size}", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + body)
    if kind == "bytes":
        return draw(changed_bytes(good))
    image, file = Image.open(io.BytesIO(good)).convert("RGB"), io.BytesIO()
    if kind == "size":
        size = draw(st.sampled_from([(1, 1), (1, 500), (3000, 1), (2, 2)]))
        image.resize(size).save(file, "PNG")
        return Change(f"of {size}", file.getvalue())
    mode, form = draw(st.sampled_from([
        ("L", "PNG"), ("P", "GIF"), ("1", "PNG"), ("RGBA", "PNG"), ("CMYK", "JPEG"), ("I;16", "PNG"), ("F", "TIFF"),
        ("RGB", "BMP"), ("RGB", "WEBP"), ("RGB", "PPM"), ("LAB", "TIFF"), ("RGB", "PDF"), ("RGB", "ICO"),
    ]))  # fmt: skip
    image = image.convert("L").convert("I").convert(mode) if mode == "I;16" else to_mode(image, mode)
    image.save(file, form)
    return Change(f"{mode} as {form}", file.getvalue())


def to_mode(image: Image.Image, mode: str) -> Image.Image:
    return Image.new("LAB", image.size) if mode == "LAB" else image.convert(mode)


def blocks_of_gif(good: bytes) -> list[bytes]:
    """A GIF in pieces: what stands before the first block, each extension or image, and the end."""
    at = 13 + (3 << (good[10] & 7) + 1 if good[10] & 128 else 0)
    found = [good[:at]]
    while good[at] != 0x3B:
        start = at
        if good[at] == 0x21:
            at += 2
        else:
            at += 11 + (3 << (good[at + 9] & 7) + 1 if good[at + 9] & 128 else 0)
        while good[at]:
            at += 1 + good[at]
        at += 1
        found.append(good[start:at])
    return [*found, good[at:]]


@st.composite
def changed_gif(draw: st.DrawFn, good: bytes) -> Change:
    """A GIF with other bytes, with blocks missing, repeated or in another order, or with other numbers in them.

    Those are sizes, places, times, disposal, transparency and bits of a code.
    """
    kind = draw(st.sampled_from(["bytes", "blocks", "many", "numbers", "numbers"]))
    if kind == "bytes":
        return draw(changed_bytes(good))
    head, *blocks, end = blocks_of_gif(good)
    if kind == "blocks":
        chosen = draw(st.lists(st.integers(0, len(blocks) - 1), max_size=12))
        tail = draw(st.sampled_from([b"", b"\x3b", b"\x3b\x3b", good[:40]]))
        return Change(f"blocks {chosen}, {len(tail)} bytes after", head + b"".join(blocks[i] for i in chosen) + tail)
    if kind == "many":
        count = draw(st.sampled_from([300, 3_000, 12_000]))
        return Change(f"{count} times its blocks", head + b"".join(blocks) * (count // max(1, len(blocks))) + end)
    pieces = [bytearray(piece) for piece in (head, *blocks, end)]
    number = draw(st.integers(0, len(blocks)))
    piece = pieces[number]
    places = range(6, 13) if number == 0 else range(2, len(piece)) if piece[0] == 0x21 else range(1, 12)
    said = []
    for place in draw(st.lists(st.sampled_from(list(places)), min_size=1, max_size=4)):
        piece[min(place, len(piece) - 1)] = value = draw(
            st.sampled_from([0, 1, 2, 3, 7, 8, 12, 16, 127, 128, 254, 255])
        )
        said.append(f"byte {place} is {value}")
    return Change(f"block {number}: {', '.join(said)}", b"".join(map(bytes, pieces)))


@st.composite
def changed_idx(draw: st.DrawFn, good: bytes) -> Change:
    """An IDX file with another header or other bytes."""
    if draw(st.booleans()):
        return draw(changed_bytes(good))
    kind, axes = draw(st.sampled_from([8, 9, 11, 12, 13, 14, 0, 255])), draw(st.integers(0, 6))
    sizes = draw(st.lists(st.sampled_from([0, 1, 3, 4, 48, 2**16, 2**31, 2**32 - 1]), min_size=axes, max_size=axes))
    head = bytes([0, 0, kind, axes]) + struct.pack(f">{axes}I", *sizes)
    return Change(f"type {kind}, sizes {sizes}", head + good[4 + 4 * good[3] :])


# ------------------------------------------------------------------------------------------------ all files


def changed_file(path: Path) -> st.SearchStrategy[Change]:
    """Changes of a file as its name and its content suggest."""
    good, name = path.read_bytes(), path.name
    if name.endswith(".json"):
        return changed_json(good)
    if name.endswith(".jsonl"):
        return changed_rows(good)
    if name.endswith(".safetensors"):
        return changed_tensors(good)
    if name.endswith((".png", ".jpg")):
        return changed_picture(good)
    if name.endswith(".wav"):
        return changed_sound(good).map(lambda found: Change(*found)) | changed_bytes(good)
    if name.endswith(".gif"):
        return changed_gif(good)
    if good[:2] == b"\x1f\x8b":
        return changed_gzip(good)
    if "ubyte" in name:
        return changed_idx(good)
    return changed_bytes(good) if name.endswith((".bin", ".onnx")) else changed_text(good) | changed_bytes(good)


@st.composite
def changes(draw: st.DrawFn, folder: Path, names: tuple[str, ...]) -> tuple[str, Change]:
    """A file of a folder, and what it becomes."""
    name = draw(st.sampled_from(names))
    if draw(st.integers(0, 19)) == 19:
        return name, draw(st.sampled_from(PLACES))
    return name, draw(changed_file(folder / name))
