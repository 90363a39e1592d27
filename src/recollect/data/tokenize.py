"""Tokenisers: text to numbers and back, in bounded memory, kept as JSON.

chars   one number a character; the vocabulary is the training text's own (tinyshakespeare: 65)
bytes   one number a byte of UTF-8: 256, and nothing is ever unknown
words   one number a word, `<eos>` for a newline, `<unk>` for the rest: WikiText-2's rule
bpe     byte-level byte-pair encoding: frequent strings get a number of their own, and nothing is ever unknown

All of them give, for a text that comes in chunks, the numbers of the whole text.
"""

import codecs
import difflib
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from ..core.files import write_aside
from .text import DataError, rechunk

UNKNOWN = "<unk>"
NEWLINE = "<eos>"
FORMAT = 1
Fallback = Literal["bytes"] | None

LONGEST_WORD = 256  # characters; what is longer is no word, and reads as <unk>
MOST_WORDS = 1_000_000  # distinct words counted at a time; beyond, the rarest are dropped
SPACELESS_SHARE = 0.1  # of the characters that are not blank: from here on a text counts as written without spaces
LONGEST_RUN = 1 << 14  # characters without a place to cut after which byte-pair encoding is cut all the same
BPE_SIZE = 4096  # vocabulary where none was asked for
BPE_HELD = 2_000_000  # characters of runs whose numbers are remembered
BPE_TEXT = 32_000_000  # bytes of text, evenly spread, from which merges are learnt
BPE_NOVEL = 3_000_000  # bytes of different words among them: the trainer holds about 90 bytes for each of these


class Streamer(Protocol):
    """Numbers in, text out, whole characters only; what was pushed and finished joins to what `decode` gives."""

    def push(self, token: int) -> str: ...
    def finish(self) -> str: ...


class Tokenizer(Protocol):
    """What every kind offers. Numbers come as the smallest unsigned type that holds `size` values."""

    @property
    def kind(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def unknown(self) -> int | None:
        """The number that stands for whatever the vocabulary lacks, if there is one."""
        ...

    def encode(self, text: str) -> np.ndarray: ...
    def encode_stream(self, chunks: Iterable[str]) -> Iterator[np.ndarray]: ...
    def decode(self, ids: Iterable[int]) -> str: ...
    def streamer(self) -> Streamer: ...
    def token(self, id: int) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


class UnknownCharacter(DataError):
    """A character outside the vocabulary; `index` is where it stands in the text that was being read."""

    def __init__(self, character: str, index: int, size: int, where: str | None = None) -> None:
        self.character, self.index, self.size = character, index, size
        name = f"'{visible(character)}' (U+{ord(character):04X})"
        super().__init__(
            f"expected one of the {size:,} characters of the vocabulary, found {name} at "
            f"{where or f'character {index:,}'}; remove it, or train with chars+bytes, bytes or bpe, which know all"
        )


# ---------------------------------------------------------------------------------------------- common parts


def smallest(size: int) -> np.dtype[Any]:
    """The smallest little-endian unsigned type that holds `size` values."""
    return np.dtype("<u1" if size <= 1 << 8 else "<u2" if size <= 1 << 16 else "<u4")


def visible(text: str) -> str:
    """A name for a token that can be printed and put in a figure: spaces and controls made visible."""
    return "".join(c if c.isprintable() and c != " " else "␣" if c == " " else repr(c)[1:-1] for c in text)


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _surrogate(text, error.start) from None


def _codes(text: str) -> np.ndarray:
    """The code points of a text, as numbers."""
    try:
        return np.frombuffer(text.encode("utf-32-le"), np.dtype("<u4"))
    except UnicodeEncodeError as error:
        raise _surrogate(text, error.start) from None


def _surrogate(text: str, index: int) -> DataError:
    return DataError(
        f"expected text, found half a surrogate pair (U+{ord(text[index]):04X}) at character {index:,}; "
        "read the text as UTF-8"
    )


def _checked(ids: Iterable[int], size: int) -> list[int]:
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
        (token,) = _checked([token], len(self._pieces))
        return self._decoder.decode(self._pieces[token])

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class _OfBytes:
    """Kinds whose every token is a string of bytes: text is those bytes joined, then read as UTF-8."""

    pieces: list[bytes]

    @property
    def size(self) -> int:
        return len(self.pieces)

    def decode(self, ids: Iterable[int]) -> str:
        pieces = self.pieces
        return b"".join([pieces[i] for i in _checked(ids, len(pieces))]).decode("utf-8", "replace")

    def streamer(self) -> Streamer:
        return _ByteStreamer(self.pieces)

    def token(self, id: int) -> str:
        (id,) = _checked([id], self.size)
        try:
            return visible(self.pieces[id].decode("utf-8"))
        except UnicodeDecodeError:
            return f"<0x{self.pieces[id].hex().upper()}>"


# ------------------------------------------------------------------------------------------------------ chars


class Chars(_OfBytes):
    """One number a character, in the order of their code points.

    `<unk>` and the 256 bytes are there only when asked for, after the characters, so that adding one moves no other.
    """

    kind = "chars"

    def __init__(self, characters: Iterable[str], *, unknown: bool = False, fallback: Fallback = None) -> None:
        self.characters = "".join(sorted(set(characters)))
        if not self.characters:
            raise DataError("expected at least one character for a vocabulary, found none; give it text")
        if fallback not in (None, "bytes"):
            raise DataError(f"expected the fallback bytes or none, found {fallback!r}")
        if unknown and fallback:
            raise DataError("expected <unk> or bytes for the characters a vocabulary lacks, found both; choose one")
        known = len(self.characters)
        self.fallback: Fallback = fallback
        self.unknown = known if unknown else None
        self.pieces = [_utf8(c) for c in self.characters]
        if unknown:
            self.pieces.append("\ufffd".encode())
        if fallback:
            self.pieces += [bytes([b]) for b in range(256)]
        codes = _codes(self.characters)
        self._lacking = known  # marks what is not in the vocabulary; it is also the number of <unk>
        self._table = np.full(int(codes[-1]) + 2, known, np.dtype("<u4"))
        self._table[codes] = np.arange(known)

    @classmethod
    def train(cls, texts: Iterable[str], vocab: int | None = None, *, fallback: Fallback = None) -> "Chars":
        """The vocabulary of a text; with `vocab`, its most frequent characters and what stands for the others."""
        counts = _count_characters(texts)
        present = np.flatnonzero(counts)
        extra = 256 if fallback else 1
        if vocab is None or len(present) + (256 if fallback else 0) <= vocab:
            return cls(map(chr, present), fallback=fallback)
        if vocab <= extra:
            raise DataError(f"expected a vocabulary of more than {extra} for chars, found {vocab}; ask for more")
        # stable: among characters of one frequency the lower code point stays
        kept = present[np.argsort(-counts[present], kind="stable")[: vocab - extra]]
        return cls(map(chr, kept), unknown=not fallback, fallback=fallback)

    def with_unknown(self) -> "Chars":
        return Chars(self.characters, unknown=True)

    def lacking(self, texts: Iterable[str]) -> dict[str, int]:
        """The characters of a text that are not in the vocabulary, and how often they come."""
        counts = _count_characters(texts)
        counts[_codes(self.characters)] = 0
        return {chr(code): int(counts[code]) for code in np.flatnonzero(counts)}

    def encode(self, text: str) -> np.ndarray:
        return self._encode(text, 0)

    def encode_stream(self, chunks: Iterable[str]) -> Iterator[np.ndarray]:
        at = 0
        for chunk in chunks:
            if chunk:
                yield self._encode(chunk, at)
            at += len(chunk)

    def _encode(self, text: str, at: int) -> np.ndarray:
        codes = _codes(text)
        ids = self._table[np.minimum(codes, len(self._table) - 1)]
        if self.unknown is None:
            lacking = ids == self._lacking
            if lacking.any():
                if self.fallback is None:
                    index = int(lacking.argmax())
                    raise UnknownCharacter(text[index], at + index, self.size)
                ids = self._spell(codes, ids, lacking)
        return ids.astype(smallest(self.size))

    def _spell(self, codes: np.ndarray, ids: np.ndarray, lacking: np.ndarray) -> np.ndarray:
        """Put the bytes of each lacking character in its place."""
        spelt = codes[lacking].tobytes().decode("utf-32-le").encode("utf-8")
        lengths = 1 + sum((codes >= bound).astype(np.intp) for bound in (0x80, 0x800, 0x10000))
        times = np.where(lacking, lengths, 1)
        ids = np.repeat(ids, times)
        ids[np.repeat(lacking, times)] = np.frombuffer(spelt, np.uint8) + np.uint32(len(self.characters))
        return ids

    def token(self, id: int) -> str:
        if id == self.unknown:
            return UNKNOWN
        if id >= len(self.characters):
            return f"<0x{id - len(self.characters):02X}>" if id < self.size else super().token(id)
        return super().token(id)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "kind": self.kind,
            "characters": self.characters,
            "unknown": self.unknown is not None,
            "fallback": self.fallback,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Chars":
        return cls(
            _field(data, "characters", str),
            unknown=_field(data, "unknown", bool),
            fallback=data.get("fallback"),
        )


def _count_characters(texts: Iterable[str]) -> np.ndarray:
    counts = np.zeros(0x110000, np.int64)
    for text in texts:
        some = np.bincount(_codes(text))
        counts[: len(some)] += some
    return counts


# ------------------------------------------------------------------------------------------------------ bytes


class Bytes(_OfBytes):
    """One number a byte of UTF-8."""

    kind = "bytes"
    unknown = None

    def __init__(self) -> None:
        self.pieces = [bytes([b]) for b in range(256)]

    @classmethod
    def train(cls, texts: Iterable[str], vocab: int | None = None) -> "Bytes":
        if vocab not in (None, 256):
            raise DataError(f"expected a vocabulary of 256 for bytes, found {vocab}; leave it out")
        return cls()

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(_utf8(text), np.uint8).copy()

    def encode_stream(self, chunks: Iterable[str]) -> Iterator[np.ndarray]:
        return (self.encode(chunk) for chunk in chunks if chunk)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "kind": self.kind}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Bytes":
        return cls()


# ------------------------------------------------------------------------------------------------------ words

# Scripts written without spaces between words: a character of theirs is a word. Hangul has spaces.
_SPACELESS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x312F),  # radicals, CJK punctuation with the wide space, kana, bopomofo
    (0x3190, 0x4DBF),  # annotations, kana extensions, enclosed, Han extension A
    (0x4E00, 0x9FFF),  # Han
    (0xF900, 0xFAFF),  # Han, compatibility
    (0xFE30, 0xFE4F),  # vertical punctuation
    (0xFF00, 0xFF9F),  # wide and narrow forms
    (0x1AFF0, 0x1B16F),  # kana supplements
    (0x20000, 0x3FFFF),  # Han extensions
)
_S = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in _SPACELESS)
_BLANK = r"[^\S\n\u3000]"
# A newline; a character of such a script; a word; and a blank, where leaving it out could not be undone.
_TOKEN = re.compile(rf"\n|[{_S}]|[^\s{_S}]+|(?<=[{_S}]){_BLANK}+(?=[\S\u3000])|(?<=\S){_BLANK}+(?=[{_S}])")
_LAST = re.compile(rf"(?:\n|[{_S}]|[^\s{_S}]+)(?={_BLANK}*\Z)")
_BLANKS = re.compile(rf"{_BLANK}{{2,}}")


class Words:
    """One number a word. Words stand between blanks, a newline is `<eos>`, any other word is `<unk>`.

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
        _refuse_iterator(texts)
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
        _utf8(text)
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
        return "".join([streamer.push(i) for i in _checked(ids, self.size)])

    def streamer(self) -> Streamer:
        return _WordStreamer(self)

    def token(self, id: int) -> str:
        (id,) = _checked([id], self.size)
        return visible(self.words[id])

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "kind": self.kind, "spaceless": self.spaceless, "words": self.words}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Words":
        return cls(_strings(data, "words"), spaceless=_field(data, "spaceless", bool))


class _WordStreamer:
    def __init__(self, words: Words) -> None:
        self._words = words
        self._tight = True  # whether the next word follows without a space

    def push(self, token: int) -> str:
        (token,) = _checked([token], self._words.size)
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
    """The words of the joined chunks. What is carried on is the last word, cut where it is no word any more."""
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
    return bool(_classes()[ord(character)] & _ALONE)


def _spaceless_share(texts: Iterable[str]) -> float:
    """The share of characters, blanks aside, that belong to scripts without spaces."""
    solid = alone = 0
    for text in texts:
        kinds = _classes()[_codes(text)]
        solid += int(np.count_nonzero(kinds & _SOLID))
        alone += int(np.count_nonzero(kinds & _ALONE))
    return alone / max(solid, 1)


# -------------------------------------------------------------------------------------------------------- bpe


class Bpe(_OfBytes):
    """Byte-level byte-pair encoding, by the `tokenizers` package: any text, any script, without loss.

    It looks at a text in pieces that a fixed pattern gives (words with the space before them, numbers, punctuation),
    so a text can be cut wherever that pattern always cuts. A run of 16,384 characters without such a place is cut
    there all the same, counted from where the run began, whatever chunks the text came in.
    """

    kind = "bpe"
    unknown = None

    def __init__(self, vocabulary: Sequence[str], merges: Sequence[tuple[str, str]]) -> None:
        """`vocabulary`: the tokens in byte-level spelling, in the order of their numbers; `merges`: in rank order."""
        from tokenizers import Tokenizer as Engine
        from tokenizers import models

        spelling = _byte_of_letter()
        try:
            self.pieces = [bytes([spelling[letter] for letter in token]) for token in vocabulary]
        except KeyError as error:
            raise DataError(f"expected byte-level tokens in a bpe vocabulary, found {error.args[0]!r}") from None
        numbers = {token: number for number, token in enumerate(vocabulary)}
        if len(numbers) < len(vocabulary) or not numbers.keys() >= spelling.keys():
            raise DataError("expected different tokens and all 256 bytes in a bpe vocabulary, found others")
        wrong = next((pair for pair in merges if not numbers.keys() >= {*pair, "".join(pair)}), None)
        if wrong is not None:
            raise DataError(f"expected merges of tokens in the bpe vocabulary, found {wrong}")
        self._vocabulary = list(vocabulary)
        self._merges = list(merges)
        self._engine = Engine(models.BPE(vocab=numbers, merges=self._merges))
        self._engine.pre_tokenizer = _byte_level()
        self._seen: dict[str, list[int]] = {}
        self._held = 0  # characters in it

    @classmethod
    def train(cls, texts: Iterable[str], vocab: int | None = None) -> "Bpe":
        """Learn merges from a text, or from an even sample where it is large. `texts` is read several times."""
        from tokenizers import Tokenizer as Engine
        from tokenizers import models, trainers

        vocab = BPE_SIZE if vocab is None else vocab
        if vocab < 256:
            raise DataError(f"expected a vocabulary of 256 or more for bpe, found {vocab}; ask for more")
        _refuse_iterator(texts)
        engine = Engine(models.BPE())
        engine.pre_tokenizer = _byte_level()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab,
            min_frequency=2,
            show_progress=False,
            initial_alphabet=sorted(_byte_of_letter()),
        )
        engine.train_from_iterator(_sample(texts), trainer)
        model = json.loads(engine.to_str())["model"]
        merges = [(first, second) for first, second in model["merges"]]
        return cls(sorted(model["vocab"], key=model["vocab"].__getitem__), merges)

    def encode(self, text: str) -> np.ndarray:
        found = list(self.encode_stream([text]))
        return np.concatenate(found) if found else np.zeros(0, smallest(self.size))

    def encode_stream(self, chunks: Iterable[str]) -> Iterator[np.ndarray]:
        for runs in _runs(chunks, LONGEST_RUN):
            if runs:
                yield self._numbers(runs)

    def _numbers(self, runs: list[str]) -> np.ndarray:
        # Most runs are words that came before: looking them up is several times faster than asking the engine.
        new = list(dict.fromkeys(run for run in runs if run not in self._seen))
        found = self._engine.encode_batch_fast(new, add_special_tokens=False)
        self._seen.update(zip(new, (encoding.ids for encoding in found), strict=True))
        self._held += sum(map(len, new))
        ids = np.fromiter(chain.from_iterable(map(self._seen.__getitem__, runs)), smallest(self.size))
        if self._held > BPE_HELD:
            self._seen, self._held = {}, 0
        return ids

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "kind": self.kind,
            "vocabulary": self._vocabulary,
            "merges": [list(pair) for pair in self._merges],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Bpe":
        merges = _field(data, "merges", list)
        for pair in merges:
            if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(p, str) for p in pair)):
                raise DataError(f"expected pairs of tokens as merges in tokenizer.json, found {pair!r}")
        return cls(_strings(data, "vocabulary"), [(a, b) for a, b in merges])


def _byte_level() -> Any:
    from tokenizers import pre_tokenizers

    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


@cache
def _byte_of_letter() -> dict[str, int]:
    """Byte-level spelling: printable bytes stand for themselves, the others for the letters from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(0x100 + n): b for n, b in enumerate(others)}


def _sample(texts: Iterable[str]) -> Iterator[list[str]]:
    """Runs of a text to learn merges from: all of a small one, an even spread of a large one.

    First a spread small enough for the trainer even if no word comes twice, then more as long as words repeat.
    """
    block = 1 << 16
    total = sum(len(_utf8(text)) for text in texts)
    first, step = max(-(-total // BPE_NOVEL), 1), max(-(-total // BPE_TEXT), 1)
    seen: set[str] = set()
    novel = 0
    for more in (False, True):
        for number, text in enumerate(rechunk(texts, block)):
            if more == (number % first == 0) or (more and number % step):
                continue
            for runs in _runs([text], LONGEST_WORD):
                fresh = set(runs) - seen
                novel += sum(len(run.encode()) for run in fresh)
                if more and novel > BPE_NOVEL:
                    return
                seen |= fresh
                yield runs


# Where the byte-level pattern always cuts, whatever stands around: before a blank that follows something solid, and
# between a letter or digit and a full stop or the like. Only characters about which all versions of Unicode agree.
_SOLID, _GAP, _LETTER, _STOP, _ALONE = 1, 2, 4, 8, 16


@cache
def _classes() -> np.ndarray:
    """For each code point, which of those classes it belongs to."""
    table = np.full(0x110000, _SOLID, np.uint8)
    for first, last in ((0x09, 0x0D), (0x1C, 0x20), (0x2000, 0x200A), (0x2028, 0x2029)):
        table[first : last + 1] = 0
    table[[0x85, 0xA0, 0x1680, 0x202F, 0x205F, 0x3000]] = 0
    table[_codes(" \n\t\r")] |= _GAP
    for first, last in ("09", "AZ", "az", "ぁゖ", "ァヺ", "一龥"):
        table[ord(first) : ord(last) + 1] |= _LETTER
    table[_codes(".,;:!?，。、；：？！")] |= _STOP
    for first, last in _SPACELESS:
        table[first : last + 1] |= _ALONE
    return table


def _runs(chunks: Iterable[str], longest: int) -> Iterator[list[str]]:
    """Cut a text wherever byte-level tokens never straddle the cut, and a run without such a place after `longest`.

    The cuts depend on the text alone, not on the chunks in which it comes.
    """
    carry = ""  # begins at a cut
    for chunk in rechunk(chunks, 1 << 16):
        buffer = carry + chunk
        kinds = _classes()[_codes(buffer)]
        left, right = kinds[:-1], kinds[1:]
        free = ((left & _SOLID) & ((right & _GAP) >> 1)) | (((left & _LETTER) >> 2) & ((right & _STOP) >> 3))
        cuts = np.concatenate([[0], np.flatnonzero(free) + 1, [len(buffer)]])
        far = np.flatnonzero(np.diff(cuts) > longest)
        forced = [np.arange(cuts[i] + longest, cuts[i + 1], longest) for i in far]
        places = np.sort(np.concatenate([cuts[:-1], *forced])).tolist()
        yield [buffer[start:stop] for start, stop in pairwise(places)]
        carry = buffer[places[-1] :]
    if carry:
        yield [carry]


# ----------------------------------------------------------------------------------------------- all of them

KINDS = {"chars": Chars, "bytes": Bytes, "words": Words, "bpe": Bpe}
CHOICES = ("chars", "chars+bytes", "bytes", "words", "bpe")


def train(kind: str, texts: Iterable[str], vocab: int | None = None) -> Tokenizer:
    """A tokeniser of one of the CHOICES, its vocabulary taken from `texts` (a list, or what can be read again)."""
    if kind == "chars+bytes":
        return Chars.train(texts, vocab, fallback="bytes")
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, CHOICES, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise DataError(f"expected a tokenizer among {', '.join(CHOICES)}, found {kind!r}{meant}")
    return KINDS[kind].train(texts, vocab)


def from_json(data: Any) -> Tokenizer:
    """The tokeniser that `to_json` described."""
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
    try:
        data = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"expected a tokenizer at {path}, found {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected JSON in {path}, found something else ({error}); copy it anew") from None
    try:
        return from_json(data)
    except DataError as error:
        raise DataError(f"{error} ({path})") from None


def fingerprint(tokenizer: Tokenizer) -> str:
    """The same for tokenisers that give the same numbers for the same text."""
    return hashlib.sha256(json.dumps(tokenizer.to_json(), sort_keys=True).encode()).hexdigest()


def _field(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind):
        raise DataError(f"expected {name!r} as {kind.__name__} in tokenizer.json, found {type(value).__name__}")
    return value


def _strings(data: Mapping[str, Any], name: str) -> list[str]:
    values = _field(data, name, list)
    for value in values:
        if not isinstance(value, str) or not value:
            raise DataError(f"expected strings in {name!r} of tokenizer.json, found {value!r}")
    return values


def _refuse_iterator(texts: Iterable[str]) -> None:
    if isinstance(texts, Iterator):
        raise TypeError("texts are read more than once: give a list, or an object whose __iter__ begins anew")
