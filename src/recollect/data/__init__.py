"""Text as data: reading it, cutting it into tokens, keeping the tokens, and the public sets known by name."""

from .byte_pairs import Bpe
from .chars_and_bytes import Bytes, Chars
from .corpus import Corpus, load
from .known import KNOWN, KnownSet
from .text import DataError, chunks, files
from .tokenizer import Streamer, Tokenizer
from .words import Words

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
