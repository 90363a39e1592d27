"""What the data of every task shares: files, tokenizers, the cache, and the public sets known by name."""
