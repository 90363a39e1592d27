"""Pictures with a caption each for the instruments: of validation, or a given file with the model's own caption."""

from typing import Any

import numpy as np
import torch

from ...core.inspection import Probe, Request
from ...core.task import LoadedRun
from ..decoding import probe_decoder, select_rows
from .images import to_floats
from .use import caption


def probe(run: LoadedRun[Any, Any], request: Request) -> Probe:
    if request.image is not None:
        found = next(caption(run, [request.image]))
        images, written = found.image[None], [np.array(found.found[0].tokens, np.int64)]
        about = "the given picture, and the model's own caption of it"
    else:
        part = run.task.part("valid")
        lengths = np.diff(part.offsets)[part.first[:-1]] + 1
        some = select_rows(lengths, request)
        images, written = part.images[some], [part.tokens_of(part.first[i]) for i in some]
        about = f"{len(some)} pictures of validation with a caption each"
    pictures = to_floats(torch.from_numpy(np.asarray(images)).to(run.device), run.model)
    return probe_decoder(run, run.artifacts.tokenizer, written, (pictures,), (), about)
