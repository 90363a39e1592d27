"""One language of a pair: how its sentences become numbers, and numbers sentences."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import write_aside
from . import tokenizers
from .files import DataError, StrPath
from .moses import Preparation
from .tokenizers.base import Tokenizer, visible

FORMAT = 1
SPECIALS = ("<pad>", "<begin>", "<end>")
_BYTES = re.compile(r"<0x[0-9A-F]+>")


@dataclass(frozen=True, eq=False)
class Side:
    """One language of a pair: how its sentences become numbers, and numbers sentences.

    The tokeniser's numbers stay as they are; three more follow them: `pad`, `begin` and `end`.
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
        """The sentence as it is tokenised; what BLEU on tokenised text compares with."""
        return self.preparation.apply(text)

    def encode(self, text: str) -> np.ndarray:
        """The numbers of a sentence, without `begin` and `end`."""
        return self.tokenizer.encode(self.prepared(text)).astype(np.int32)

    def decode(self, ids: Iterable[int]) -> str:
        """The sentence that stands before the first `end`, as a reader would write it."""
        return self.preparation.undo(self.decode_prepared(ids))

    def decode_prepared(self, ids: Iterable[int]) -> str:
        """The same, still prepared: what is compared in BLEU on tokenised text."""
        kept: list[int] = []
        for number in _integers(ids):
            if number == self.end:
                break
            if number not in (self.pad, self.begin):
                kept.append(number)
        return self.tokenizer.decode(kept)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """A readable name for each number. A character that several tokens make up stands at the last of them."""
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
    def from_json(cls, data: Any) -> "Side":
        if not isinstance(data, Mapping):
            raise DataError(f"expected an object for each side of a pair, found {type(data).__name__}")
        if set(data) != {"preparation", "tokenizer"}:
            some = ", ".join(map(repr, list(data)[:5]))
            raise DataError(f"expected preparation and tokenizer for each side of a pair, found {some or 'nothing'}")
        return cls(Preparation.from_json(data["preparation"]), tokenizers.from_json(data["tokenizer"]))


def _integers(ids: Iterable[int]) -> list[int]:
    return ids.tolist() if isinstance(ids, np.ndarray) else [int(number) for number in ids]


def sides_to_json(source: Side, target: Side) -> dict[str, Any]:
    """Both sides of a pair; a tokeniser that they share is there once."""
    joint = source.tokenizer is target.tokenizer
    second = target.to_json() | ({"tokenizer": None} if joint else {})
    return {"format": FORMAT, "joint": joint, "source": source.to_json(), "target": second}


def sides_from_json(data: Any) -> tuple[Side, Side]:
    if not isinstance(data, Mapping):
        raise DataError(f"expected an object with both sides of a pair, found {type(data).__name__}")
    if data.get("format") != FORMAT:
        raise DataError(f"expected format {FORMAT} of a pair's sides, found {data.get('format')!r}; upgrade recollect")
    joint, second = data.get("joint"), data.get("target")
    if not isinstance(joint, bool):
        raise DataError(f"expected 'joint' as bool in a pair's sides, found {type(joint).__name__}")
    source = Side.from_json(data.get("source"))
    if not joint:
        return source, Side.from_json(second)
    if (
        not isinstance(second, Mapping)
        or set(second) != {"preparation", "tokenizer"}
        or second["tokenizer"] is not None
    ):
        raise DataError(
            "expected a preparation and no tokenizer of its own for the target of joint sides, found others"
        )
    return source, Side(Preparation.from_json(second["preparation"]), source.tokenizer)


def save_sides(path: StrPath, source: Side, target: Side) -> None:
    write_aside(path, json.dumps(sides_to_json(source, target), ensure_ascii=False).encode())


def load_sides(path: StrPath) -> tuple[Side, Side]:
    try:
        data = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"expected the tokenizers of a pair at {path}, found {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected JSON in {path}, found something else ({error}); copy it anew") from None
    try:
        return sides_from_json(data)
    except DataError as error:
        raise DataError(f"{error} ({path})") from None
