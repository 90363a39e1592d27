"""Tokenizers: text to token ids and back, in bounded memory, stored as JSON.

chars   one number a character; the vocabulary is the training text's own (tinyshakespeare: 65)
bytes   one number a byte: 256, and nothing is ever unknown, in files that are no text either
words   one number a word, `<eos>` for a newline, `<unk>` for the rest: WikiText-2's rule
bpe     byte-level byte-pair encoding: frequent strings get a number of their own, and nothing is ever unknown

All of them give, for a text that comes in chunks, the numbers of the whole text.
"""

import difflib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from ...core.files import write_aside
from .. import TOKENIZERS
from ..cache import hash_json
from ..files import DataError, load_json
from .base import FORMAT, Tokenizer
from .byte_pairs import Bpe
from .chars_and_bytes import Bytes, Chars
from .words import Words

KINDS = {"chars": Chars, "bytes": Bytes, "words": Words, "bpe": Bpe}


def train(kind: str, texts: Iterable[str], vocab: int | None = None) -> Tokenizer:
    """Train a tokenizer of one of the `TOKENIZERS` on `texts`, which must be iterable more than once."""
    if kind == "chars+bytes":
        return Chars.train(texts, vocab, fallback="bytes")
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, TOKENIZERS, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise DataError(f"expected a tokenizer among {', '.join(TOKENIZERS)}, found {kind!r}{meant}")
    return KINDS[kind].train(texts, vocab)


def train_open(kind: str, texts: Iterable[str], vocab: int | None = None) -> Tokenizer:
    """Train a tokenizer that encodes any text: characters that it lacks are <unk> or bytes."""
    made = train(kind, texts, vocab)
    return made.with_unknown() if isinstance(made, Chars) and made.closed else made


def from_json(data: Any) -> Tokenizer:
    """The tokenizer that `to_json` described."""
    if not isinstance(data, Mapping):
        raise DataError(f"expected an object in tokenizer.json, found {type(data).__name__}")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise DataError(f"expected a kind among {', '.join(KINDS)} in tokenizer.json, found {kind!r}")
    if data.get("format") != FORMAT:
        raise DataError(f"expected format {FORMAT} in tokenizer.json, found {data.get('format')!r}; upgrade recollect")
    return KINDS[kind].from_json(data)


def save(tokenizer: Tokenizer, path: str | os.PathLike[str]) -> None:
    write_aside(path, json.dumps(tokenizer.to_json(), ensure_ascii=False).encode())


def load(path: str | os.PathLike[str]) -> Tokenizer:
    return load_json(path, "a tokenizer", from_json)


def fingerprint(tokenizer: Tokenizer) -> str:
    """sha256 of a tokenizer's description: equal for tokenizers that encode every text alike."""
    return hash_json(tokenizer.to_json())
