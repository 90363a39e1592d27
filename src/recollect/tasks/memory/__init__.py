"""Tests of memory: generated sequences with questions about earlier steps."""

NAMES = ("copy", "adding", "recall", "parity", "gap", "order", "clouds", "agreement", "nested")
