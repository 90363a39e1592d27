"""Text as data: reading it, cutting it into tokens, keeping the tokens, and the public sets known by name."""

from .corpus import Corpus, load
from .known import KNOWN, KnownSet
from .text import DataError, chunks, files
from .tokenize import Bpe, Bytes, Chars, Streamer, Tokenizer, Words

__all__ = [
    "KNOWN",
    "Bpe",
    "Bytes",
    "Chars",
    "Corpus",
    "DataError",
    "KnownSet",
    "Streamer",
    "Tokenizer",
    "Words",
    "chunks",
    "files",
    "load",
]
