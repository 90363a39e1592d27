"""Tokenizers of sentences: text preparation, a tokenizer, and the special tokens pad, begin and end."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.files import write_aside
from .. import tokenizers
from ..files import DataError, StrPath, load_json
from ..moses import Preparation
from .base import Tokenizer, visible

FORMAT = 1
SPECIALS = ("<pad>", "<begin>", "<end>")
_BYTES = re.compile(r"<0x[0-9A-F]+>")


@dataclass(frozen=True, eq=False)
class SentenceTokenizer:
    """A tokenizer of the sentences of one language, with its text preparation and the special tokens.

    The special tokens `pad`, `begin` and `end` are numbered after the tokens of `tokenizer`.
    """

    preparation: Preparation
    tokenizer: Tokenizer

    @property
    def size(self) -> int:
        return self.tokenizer.size + len(SPECIALS)

    @property
    def pad(self) -> int:
        return self.tokenizer.size

    @property
    def begin(self) -> int:
        return self.tokenizer.size + 1

    @property
    def end(self) -> int:
        return self.tokenizer.size + 2

    @property
    def unknown(self) -> int | None:
        return self.tokenizer.unknown

    def prepared(self, text: str) -> str:
        """The sentence as it is tokenised; BLEU on tokenised text is computed on this form."""
        return self.preparation.apply(text)

    def encode(self, text: str) -> np.ndarray:
        """The token ids of a sentence, without `begin` and `end`."""
        return self.tokenizer.encode(self.prepared(text)).astype(np.int32)

    def decode(self, ids: Iterable[int]) -> str:
        """The sentence up to the first `end`, with the preparation undone."""
        return self.preparation.undo(self.decode_prepared(ids))

    def decode_prepared(self, ids: Iterable[int]) -> str:
        """The sentence up to the first `end`, still prepared."""
        words: list[int] = []
        for number in _integers(ids):
            if number == self.end:
                break
            if number not in (self.pad, self.begin):
                words.append(number)
        return self.tokenizer.decode(words)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """A readable name for each token. A character that is made of several tokens stands at the last of them."""
        found: list[str] = []
        streamer = self.tokenizer.streamer()
        for number in _integers(ids):
            if self.pad <= number < self.size:
                found.append(SPECIALS[number - self.pad])
                continue
            text, name = streamer.push(number), self.tokenizer.token(number)
            found.append(visible(text) if text and _BYTES.fullmatch(name) else name)
        return found

    def to_json(self) -> dict[str, Any]:
        return {"preparation": self.preparation.to_json(), "tokenizer": self.tokenizer.to_json()}

    @classmethod
    def from_json(cls, data: Any) -> "SentenceTokenizer":
        if not isinstance(data, Mapping):
            raise DataError(f"expected an object for each side of a pair, found {type(data).__name__}")
        if set(data) != {"preparation", "tokenizer"}:
            some = ", ".join(map(repr, list(data)[:5]))
            raise DataError(f"expected preparation and tokenizer for each side of a pair, found {some or 'nothing'}")
        return cls(Preparation.from_json(data["preparation"]), tokenizers.from_json(data["tokenizer"]))


TokenizerPair = tuple[SentenceTokenizer, SentenceTokenizer]  # of source and target


def _integers(ids: Iterable[int]) -> list[int]:
    return ids.tolist() if isinstance(ids, np.ndarray) else [int(number) for number in ids]


def pair_to_json(source: SentenceTokenizer, target: SentenceTokenizer) -> dict[str, Any]:
    """The tokenizers of source and target as JSON; a shared tokenizer is stored once."""
    joint = source.tokenizer is target.tokenizer
    second = target.to_json() | ({"tokenizer": None} if joint else {})
    return {"format": FORMAT, "joint": joint, "source": source.to_json(), "target": second}


def pair_from_json(data: Any) -> TokenizerPair:
    if not isinstance(data, Mapping):
        raise DataError(f"expected an object with both sides of a pair, found {type(data).__name__}")
    if data.get("format") != FORMAT:
        raise DataError(f"expected format {FORMAT} of a pair's sides, found {data.get('format')!r}; upgrade recollect")
    joint, second = data.get("joint"), data.get("target")
    if not isinstance(joint, bool):
        raise DataError(f"expected 'joint' as bool in a pair's sides, found {type(joint).__name__}")
    source = SentenceTokenizer.from_json(data.get("source"))
    if not joint:
        return source, SentenceTokenizer.from_json(second)
    if (
        not isinstance(second, Mapping)
        or set(second) != {"preparation", "tokenizer"}
        or second["tokenizer"] is not None
    ):
        raise DataError(
            "expected a preparation and no tokenizer of its own for the target of joint sides, found others"
        )
    return source, SentenceTokenizer(Preparation.from_json(second["preparation"]), source.tokenizer)


def save_pair(path: StrPath, source: SentenceTokenizer, target: SentenceTokenizer) -> None:
    write_aside(path, json.dumps(pair_to_json(source, target), ensure_ascii=False).encode())


def load_pair(path: StrPath) -> TokenizerPair:
    return load_json(path, "the tokenizers of a pair", pair_from_json)
