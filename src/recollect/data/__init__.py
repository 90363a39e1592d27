"""What the data of every task share: files, tokenizers, the cache, and the public sets known by name."""

TOKENIZERS = ("chars", "chars+bytes", "bytes", "words", "bpe")
