"""Data code shared by all tasks: text files, tokenizers, known public sets, and the cache of encoded data."""

TOKENIZERS = ("chars", "chars+bytes", "bytes", "words", "bpe")
