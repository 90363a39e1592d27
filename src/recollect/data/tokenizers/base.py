"""The tokenizer protocol and what all kinds share: ids, names and bytes of tokens, and reading tokenizer.json."""

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..files import DataError

UNKNOWN = "<unk>"
FORMAT = 1
LONGEST_WORD = 256  # characters; what is longer is no word, and reads as <unk>


class Streamer(Protocol):
    """An incremental decoder: ids in, whole characters out; all pieces joined are what `decode` gives."""

    def push(self, token: int) -> str: ...
    def finish(self) -> str: ...


class Tokenizer(Protocol):
    """Protocol of a tokenizer. Ids come as the smallest unsigned type that holds `size` values."""

    @property
    def kind(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def unknown(self) -> int | None:
        """The id of <unk>, if the vocabulary has one."""
        ...

    def encode(self, text: str) -> np.ndarray: ...
    def encode_stream(self, chunks: Iterable[str]) -> Iterator[np.ndarray]: ...
    def decode(self, ids: Iterable[int]) -> str: ...
    def streamer(self) -> Streamer: ...
    def token(self, id: int) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


class UnknownCharacter(DataError):
    """A character outside the vocabulary; `index` is its position in the text that was read."""

    def __init__(self, character: str, index: int, size: int, where: str | None = None) -> None:
        self.character, self.index, self.size = character, index, size
        name = f"'{visible(character)}' (U+{ord(character):04X})"
        super().__init__(
            f"expected one of the {size:,} characters of the vocabulary, found {name} at "
            f"{where or f'character {index:,}'}; remove it, or train with chars+bytes, bytes or bpe, which know all"
        )


def smallest(size: int) -> np.dtype[Any]:
    """The smallest little-endian unsigned type that holds `size` values."""
    return np.dtype("<u1" if size <= 1 << 8 else "<u2" if size <= 1 << 16 else "<u4")


def visible(text: str) -> str:
    """A printable name of a token: spaces and control characters made visible."""
    return "".join(c if c.isprintable() and c != " " else "␣" if c == " " else repr(c)[1:-1] for c in text)


def utf8(text: str, errors: str = "strict") -> bytes:
    try:
        return text.encode("utf-8", errors)
    except UnicodeEncodeError as error:
        raise _surrogate(text, error.start) from None


def code_points(text: str) -> np.ndarray:
    """The code points of a text, as an array."""
    try:
        return np.frombuffer(text.encode("utf-32-le"), np.dtype("<u4"))
    except UnicodeEncodeError as error:
        raise _surrogate(text, error.start) from None


def _surrogate(text: str, index: int) -> DataError:
    return DataError(
        f"expected text, found half a surrogate pair (U+{ord(text[index]):04X}) at character {index:,}; "
        "read the text as UTF-8"
    )


def checked(ids: Iterable[int], size: int) -> list[int]:
    """Token ids as an array, checked to lie inside a vocabulary of `size`."""
    numbers: list[int] = ids.tolist() if isinstance(ids, np.ndarray) else [int(i) for i in ids]
    for number in numbers:
        if not 0 <= number < size:
            raise DataError(f"expected token numbers from 0 to {size - 1:,}, found {number:,}; use the run's tokenizer")
    return numbers


class _ByteStreamer:
    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        (token,) = checked([token], len(self._pieces))
        return self._decoder.decode(self._pieces[token])

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class OfBytes:
    """Base of tokenizers with tokens made of bytes: a text is their bytes joined, decoded as UTF-8."""

    pieces: list[bytes]

    @property
    def size(self) -> int:
        return len(self.pieces)

    def decode(self, ids: Iterable[int]) -> str:
        pieces = self.pieces
        return b"".join([pieces[i] for i in checked(ids, len(pieces))]).decode("utf-8", "replace")

    def streamer(self) -> Streamer:
        return _ByteStreamer(self.pieces)

    def token(self, id: int) -> str:
        (id,) = checked([id], self.size)
        try:
            return visible(self.pieces[id].decode("utf-8"))
        except UnicodeDecodeError:
            return f"<0x{self.pieces[id].hex().upper()}>"


def field_of(data: Mapping[str, Any], name: str, kind: type) -> Any:
    """A value of tokenizer.json, checked to be of the given type."""
    value = data.get(name)
    if not isinstance(value, kind):
        raise DataError(f"expected {name!r} as {kind.__name__} in tokenizer.json, found {type(value).__name__}")
    return value


def strings_of(data: Mapping[str, Any], name: str) -> list[str]:
    """A list of non-empty strings in tokenizer.json."""
    values = field_of(data, name, list)
    for value in values:
        if not isinstance(value, str) or not value:
            raise DataError(f"expected strings in {name!r} of tokenizer.json, found {value!r}")
    return values


def refuse_iterator(texts: Iterable[str]) -> None:
    if isinstance(texts, Iterator):
        raise TypeError("texts are read more than once: give a list, or an object whose __iter__ begins anew")
