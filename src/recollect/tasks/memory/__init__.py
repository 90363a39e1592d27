"""Tests of memory: generated sequences that ask, late, for what was said early."""

NAMES = ("copy", "adding", "recall", "parity", "gap")
