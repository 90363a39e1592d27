"""Word tokenizer: split at blanks, or at every character in scripts without spaces between words."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..files import DataError, rechunk
from .base import (
    FORMAT,
    LONGEST_WORD,
    UNKNOWN,
    Streamer,
    checked,
    code_points,
    field_of,
    refuse_iterator,
    smallest,
    strings_of,
    utf8,
    visible,
)
from .character_classes import ALONE, SOLID, SPACELESS, classes

NEWLINE = "<eos>"
MOST_WORDS = 1_000_000  # distinct words counted at a time; beyond, the rarest are dropped
SPACELESS_SHARE = 0.1  # of the characters that are not blank: from here on a text counts as written without spaces

_S = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in SPACELESS)
_BLANK = r"[^\S\n\u3000]"
# A newline; a character of such a script; a word; and a blank, where leaving it out could not be undone.
_TOKEN = re.compile(rf"\n|[{_S}]|[^\s{_S}]+|(?<=[{_S}]){_BLANK}+(?=[\S\u3000])|(?<=\S){_BLANK}+(?=[{_S}])")
_LAST = re.compile(rf"(?:\n|[{_S}]|[^\s{_S}]+)(?={_BLANK}*\Z)")
_BLANKS = re.compile(rf"{_BLANK}{{2,}}")


class Words:
    """A word tokenizer: words are split at blanks, a newline is `<eos>`, a word outside the vocabulary `<unk>`.

    Where a text is written without spaces (`spaceless`: Chinese, Japanese, Thai), each character of such a script is
    a word of its own, and a blank next to one is a word too, so that `decode` gives back the text. Elsewhere runs of
    blanks become one space, as in WikiText-2's rule. The words `<unk>` and `<eos>` in a text are those tokens.
    """

    kind = "words"
    unknown = 0

    def __init__(self, words: Sequence[str], *, spaceless: bool = False) -> None:
        """`words` in the order of their numbers; the first two are `<unk>` and `<eos>`."""
        if list(words[:2]) != [UNKNOWN, NEWLINE]:
            raise DataError(f"expected {UNKNOWN} and {NEWLINE} as the first words, found {list(words[:2])}")
        self.words = list(words)
        self.spaceless = spaceless
        self._index = {word: number for number, word in enumerate(self.words)}
        if len(self._index) < len(self.words):
            raise DataError(f"expected {len(words):,} different words, found {len(self._index):,}")
        if max(map(len, self.words)) > LONGEST_WORD:
            raise DataError(f"expected words of at most {LONGEST_WORD} characters, found longer ones")
        self._index["\n"] = 1
        self._space = self._index.get(" ", 0)

    @property
    def size(self) -> int:
        return len(self.words)

    @classmethod
    def train(cls, texts: Iterable[str], vocab: int | None = None, *, spaceless: bool | None = None) -> "Words":
        """The words of a text by frequency, at most `vocab` in all. `texts` is read twice: not a bare iterator."""
        if vocab is not None and vocab < 3:
            raise DataError(f"expected a vocabulary of 3 or more for words, found {vocab}; ask for more")
        refuse_iterator(texts)
        if spaceless is None:
            spaceless = _spaceless_share(texts) >= SPACELESS_SHARE
        counts: Counter[str] = Counter()
        floor = 0
        for words in _split_stream(texts, spaceless):
            if max(map(len, words), default=0) > LONGEST_WORD:
                words = [word for word in words if len(word) <= LONGEST_WORD]
            counts.update(words)
            while len(counts) > MOST_WORDS:
                floor += 1
                counts = Counter({word: count for word, count in counts.items() if count > floor})
        blanks = sum(counts.pop(word) for word in [w for w in counts if w.isspace() and w not in ("\n", "\u3000")])
        if blanks:
            counts[" "] = blanks
        for special in (UNKNOWN, NEWLINE, "\n"):
            counts.pop(special, None)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls([UNKNOWN, NEWLINE, *ranked[: None if vocab is None else vocab - 2]], spaceless=spaceless)

    def encode(self, text: str) -> np.ndarray:
        utf8(text)
        return self._numbers(_split(text, self.spaceless))

    def encode_stream(self, chunks: Iterable[str]) -> Iterator[np.ndarray]:
        for words in _split_stream(chunks, self.spaceless):
            if words:
                yield self._numbers(words)

    def _numbers(self, words: list[str]) -> np.ndarray:
        index, space = self._index, self._space
        if self.spaceless:  # any blank but the wide one is the word " "
            numbers = [
                index[word] if word in index else space if word.isspace() and word != "\u3000" else 0 for word in words
            ]
        else:
            numbers = [index.get(word, 0) for word in words]
        return np.array(numbers, smallest(self.size))

    def decode(self, ids: Iterable[int]) -> str:
        streamer = self.streamer()
        return "".join([streamer.push(i) for i in checked(ids, self.size)])

    def streamer(self) -> Streamer:
        return _WordStreamer(self)

    def token(self, id: int) -> str:
        (id,) = checked([id], self.size)
        return visible(self.words[id])

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "kind": self.kind, "spaceless": self.spaceless, "words": self.words}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Words":
        return cls(strings_of(data, "words"), spaceless=field_of(data, "spaceless", bool))


class _WordStreamer:
    def __init__(self, words: Words) -> None:
        self._words = words
        self._tight = True  # whether the next word follows without a space

    def push(self, token: int) -> str:
        (token,) = checked([token], self._words.size)
        word = "\n" if token == 1 else self._words.words[token]
        alone = word in ("\n", " ") or (self._words.spaceless and len(word) == 1 and _is_spaceless(word))
        text = word if alone or self._tight else " " + word
        self._tight = alone
        return text

    def finish(self) -> str:
        return ""


def _split(text: str, spaceless: bool) -> list[str]:
    if spaceless:
        return _TOKEN.findall(text)
    return text.replace("\n", f" {NEWLINE} ").split()


def _split_stream(chunks: Iterable[str], spaceless: bool) -> Iterator[list[str]]:
    """The words of the joined chunks; the last word of a chunk is carried over, up to the longest word."""
    carry = ""
    for chunk in rechunk(chunks, 1 << 18):
        buffer = carry + chunk
        if spaceless:
            ready, carry = _before_last(_BLANKS.sub(" ", buffer))
        elif buffer[-1].isspace():
            ready, carry = _split(buffer, False), ""
        else:
            carry = buffer.rsplit(None, 1)[-1]
            ready, carry = _split(buffer[: len(buffer) - len(carry)], False), carry[: LONGEST_WORD + 1]
        yield ready
    yield _split(carry, spaceless)


def _before_last(buffer: str) -> tuple[list[str], str]:
    """The tokens before the last one (blanks depend on what follows them), and the text from there on."""
    size = 2 * LONGEST_WORD
    while True:
        window = buffer[-size:]
        last = _LAST.search(window)
        if last is None:
            return [], ""  # blanks only, and nothing before them
        if last.start() > 0 or size >= len(buffer):
            break
        size *= 2
    start = len(buffer) - len(window) + last.start()
    blank = buffer[len(buffer) - len(window) + last.end() :]
    return _TOKEN.findall(buffer[: start + 1])[:-1], last.group()[: LONGEST_WORD + 1] + blank


def _is_spaceless(character: str) -> bool:
    return bool(classes()[ord(character)] & ALONE)


def _spaceless_share(texts: Iterable[str]) -> float:
    """The share of characters, blanks aside, that belong to scripts without spaces."""
    solid = alone = 0
    for text in texts:
        kinds = classes()[code_points(text)]
        solid += int(np.count_nonzero(kinds & SOLID))
        alone += int(np.count_nonzero(kinds & ALONE))
    return alone / max(solid, 1)
