"""Captions of pictures and of films."""

NAMES = ("captions", "films")
