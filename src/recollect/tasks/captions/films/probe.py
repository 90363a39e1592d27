"""Films with a caption each for the instruments: of validation, or a given file with the model's own caption."""

from typing import Any

import numpy as np

from ....core.inspection import Probe, Request
from ....core.task import LoadedRun
from ...decoding import probe_decoder, select_rows
from .frames import join_films, to_frames
from .use import describe_films


def probe(run: LoadedRun[Any, Any], request: Request) -> Probe:
    if request.image is not None:
        found = next(describe_films(run, [request.image]))
        films, written = [found.image], [np.array(found.found[0].tokens, np.int64)]
        about = "the given film, and the model's own caption of it"
    else:
        part = run.task.part("valid")
        lengths = np.diff(part.offsets)[part.first[:-1]] + 1
        some = select_rows(lengths, request)
        films, written = [part.film(i) for i in some], [part.tokens_of(part.first[i]) for i in some]
        about = f"{len(some)} films of validation with a caption each"
    frames, lengths = join_films(films, run.device)
    return probe_decoder(run, run.artifacts.tokenizer, written, (to_frames(frames, run.model), lengths), (), about)
