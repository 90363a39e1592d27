"""Pairs of sentences for the instruments: of validation, or a given text with the model's own translation."""

from typing import Any

import numpy as np
import torch

from ...core.inspection import Probe, Request
from ...core.task import LoadedRun
from ...decode.translate import pad
from ..decoding import probe_decoder, select_rows
from .use import translate


def probe(run: LoadedRun[Any, Any], request: Request) -> Probe:
    source, target = run.artifacts
    if request.text is not None:
        ids, best = translate(run, request.text)
        rows, written = [ids], [np.array(best.tokens, np.int64)]
        about = "the given text, and the model's own translation of it"
    else:
        pairs = run.task.pairs("valid")
        some = select_rows(pairs.target_lengths + 1, request)
        rows, written = [pairs.source_of(i) for i in some], [pairs.target_of(i) for i in some]
        about = f"{len(some)} pairs of validation"
    tokens, lengths = pad([np.append(row, source.end) for row in rows], source.pad, torch.device(run.device))
    names = source.pieces(tokens[0, : int(lengths[0])].tolist())
    return probe_decoder(run, target, written, (tokens, lengths), names, about)
