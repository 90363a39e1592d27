"""Readers that no command has: called in place of the command line, by their name."""

import os
import sys
from pathlib import Path

import numpy as np


def read_arpa(path: str) -> None:
    """An n-gram model from an ARPA file, and what it says of a text."""
    import torch

    from recollect.models.ngram import Ngram, arpa

    words = arpa.read_words(path)
    model = Ngram.from_arpa(path, words)
    tokens = torch.arange(4).remainder(len(words))[None]
    assert not model.nll(tokens, tokens)[0].isnan().any()


def open_export(folder: str) -> None:
    """Two steps of an exported folder."""
    from recollect.runtime.session import Step

    step = Step.open(Path(folder))
    found = step.initial_state(rows=2)
    for _ in range(2):
        _, found = step(np.zeros(2, step.x.dtype), found)


def read_layer(path: str) -> None:
    """A layer from outside, registered as RECOLLECT_LAYERS does it and built."""
    from recollect import layers
    from recollect.layers import outside

    os.environ[outside.VARIABLE] = path
    outside.register(layers.add)
    layers.build("own", dim=8)


def end(how: str, folder: str) -> None:
    """A reader that ends as none should."""
    if how == "traceback":
        raise KeyError(how)
    if how == "abort":
        os.abort()
    if how == "changed":
        (Path(folder) / "more").touch()
    if how == "memory":
        raise ValueError("out of memory")
    if how == "several lines":
        raise ValueError("one\nrecollect: two")
    while how == "hang":
        pass


def call(name: str, *words: str) -> None:
    """Run one of them; errors of the user's are one line, as on the command line."""
    readers = {"read_arpa": read_arpa, "open_export": open_export, "read_layer": read_layer, "end": end}
    try:
        readers[name](*words)
    except (ValueError, OSError) as error:
        sys.exit(f"recollect: {error}")
