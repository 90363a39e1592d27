"""Text preparation before tokenising, and its inverse: lower case, and punctuation and words as Moses splits them.

Published scores on small sets are those of sentences in small letters, with punctuation normalised and tokenised by
the scripts of Moses, in this order. sacremoses is their port to Python.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from .files import DataError

CODE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")  # of a language: en, zh, pt_BR
SPACELESS = ("zh", "yue", "ja")  # languages whose words are not parted by blanks
_SIGNS = "\u3000-\u303f\ufe30-\ufe4f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65“”‘’…—"  # their punctuation
_BLANK_BESIDE = re.compile(rf"(?<=[{_SIGNS}])\s+|\s+(?=[{_SIGNS}])")


@dataclass(frozen=True)
class Preparation:
    """Normalisation of a sentence before it is tokenised; blanks around it are always removed."""

    language: str
    lower: bool = False
    moses: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.language, str) or not CODE.fullmatch(self.language):
            raise DataError(f"expected the code of a language such as en, found {self.language!r}")

    @property
    def plain(self) -> bool:
        """Whether a sentence is unchanged, except for the blanks around it."""
        return not (self.lower or self.moses)

    def apply(self, text: str) -> str:
        text = text.strip()
        if self.lower:
            text = text.lower()
        if self.moses:
            normalizer, tokenizer, _ = _tools(self.language)
            text = tokenizer.tokenize(normalizer.normalize(text), return_str=True, escape=False).strip()
        return text

    def undo(self, text: str) -> str:
        """The sentence detokenised for a reader; case and the kind of quotation marks are not restored."""
        if not self.moses:
            return text
        text = _tools(self.language)[2].detokenize(text.split(), unescape=False)
        return _BLANK_BESIDE.sub("", text) if self.language in SPACELESS else text

    def to_json(self) -> dict[str, Any]:
        return {"language": self.language, "lower": self.lower, "moses": self.moses}

    @classmethod
    def from_json(cls, data: Any) -> "Preparation":
        if not isinstance(data, Mapping):
            raise DataError(f"expected an object as preparation, found {type(data).__name__}")
        if set(data) != {"language", "lower", "moses"}:
            some = ", ".join(map(repr, list(data)[:5]))
            raise DataError(f"expected language, lower and moses in a preparation, found {some or 'nothing'}")
        for name in ("lower", "moses"):
            if not isinstance(data[name], bool):
                raise DataError(f"expected {name!r} as bool in a preparation, found {type(data[name]).__name__}")
        return cls(data["language"], data["lower"], data["moses"])


@cache
def _tools(language: str) -> tuple[Any, Any, Any]:
    """Normaliser, tokeniser and detokeniser; a language that sacremoses does not know is treated like English."""
    from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

    return MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language), MosesDetokenizer(lang=language)
