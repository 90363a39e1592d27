"""Ours beside its peers: one process, interleaved, warmed up, fresh random inputs, ratios rather than times."""
