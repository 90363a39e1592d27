"""Byte-level byte-pair encoding: merges learnt from a sample of the text, long texts encoded in independent runs."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import Any

import numpy as np

from ..files import DataError, rechunk
from .base import FORMAT, LONGEST_WORD, OfBytes, code_points, field_of, refuse_iterator, smallest, strings_of, utf8
from .character_classes import GAP, LETTER, SOLID, STOP, classes

LONGEST_RUN = 1 << 14  # characters without a place to cut after which byte-pair encoding is cut all the same
BPE_SIZE = 4096  # vocabulary where none was asked for
BPE_HELD = 2_000_000  # characters of runs whose numbers are remembered
BPE_TEXT = 32_000_000  # bytes of text, evenly spread, from which merges are learnt
BPE_NOVEL = 3_000_000  # bytes of different words among them: the trainer holds about 90 bytes for each of these


class Bpe(OfBytes):
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
        refuse_iterator(texts)
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
        merges = field_of(data, "merges", list)
        for pair in merges:
            if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(p, str) for p in pair)):
                raise DataError(f"expected pairs of tokens as merges in tokenizer.json, found {pair!r}")
        return cls(strings_of(data, "vocabulary"), [(a, b) for a, b in merges])


def _byte_level() -> Any:
    from tokenizers import pre_tokenizers

    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


@cache
def _byte_of_letter() -> dict[str, int]:
    """The byte of each letter of byte-level BPE: printable bytes as themselves, the others from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(0x100 + n): b for n, b in enumerate(others)}


def spell_bytes(text: str) -> str:
    """A text in the letters of byte-level BPE."""
    letter_of = {byte: letter for letter, byte in _byte_of_letter().items()}
    return "".join(letter_of[byte] for byte in text.encode("utf-8", "replace"))


def _sample(texts: Iterable[str]) -> Iterator[list[str]]:
    """Runs of a text to learn merges from: all of a small text, evenly spaced runs of a large one.

    First a spread small enough for the trainer even if no word comes twice, then more as long as words repeat.
    """
    block = 1 << 16
    total = sum(len(utf8(text)) for text in texts)
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


def _runs(chunks: Iterable[str], longest: int) -> Iterator[list[str]]:
    """Split a text where no token can cross the boundary; a run without such a place is split after `longest`.

    The cuts depend on the text alone, not on the chunks in which it comes.
    """
    carry = ""  # begins at a cut
    for chunk in rechunk(chunks, 1 << 16):
        buffer = carry + chunk
        kinds = classes()[code_points(buffer)]
        left, right = kinds[:-1], kinds[1:]
        free = ((left & SOLID) & ((right & GAP) >> 1)) | (((left & LETTER) >> 2) & ((right & STOP) >> 3))
        cuts = np.concatenate([[0], np.flatnonzero(free) + 1, [len(buffer)]])
        far = np.flatnonzero(np.diff(cuts) > longest)
        forced = [np.arange(cuts[i] + longest, cuts[i + 1], longest) for i in far]
        places = np.sort(np.concatenate([cuts[:-1], *forced])).tolist()
        yield [buffer[start:stop] for start, stop in pairwise(places)]
        carry = buffer[places[-1] :]
    if carry:
        yield [carry]
