"""Decoding: text generation by an engine, beam search, and the same steps captured as CUDA graphs."""
