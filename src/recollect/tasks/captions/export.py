"""What is exported of a captioner beside its step: the CNN, the vocabulary, pictures of validation."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.exported import UNASKED, Exports, Inputs, Sample
from ..decoding import search_options
from ..pieces import describe_vocabulary
from .images import to_floats


class CaptionsExports(Exports):
    def pipeline_tag(self, run: Any) -> str:
        return "image-to-text"

    def source(self, run: Any) -> Inputs:
        pixels = run.artifacts.pixels

        def draw(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
            return {"images": torch.rand(rows, 3, pixels, pixels, generator=generator)}

        return Inputs(draw=draw, axes={"images": {0: "batch"}})

    def settings(self, run: Any) -> dict[str, Any]:
        tokenizer, pixels = run.artifacts.tokenizer, run.artifacts.pixels
        found = describe_vocabulary(tokenizer.tokenizer, "a")
        del found["example"]
        unknown = [] if tokenizer.unknown is None else [tokenizer.unknown]
        banned = [tokenizer.pad, tokenizer.begin, *unknown]
        found |= {"pixels": pixels, "begin": tokenizer.begin, "end": tokenizer.end, "banned": banned}
        return found | {"search": search_options(run.config.task)}

    def sample(self, run: Any, rows: int) -> Sample:
        task, part = run.task, run.task.part("valid")
        chosen = np.arange(min(rows, len(part)))
        x, y, _ = task.written(part, part.first[chosen])
        images = to_floats(task.images(part, chosen), run.model)
        return Sample(steps=x, targets=y.masked_fill(y == task.data.tokenizer.pad, UNASKED), source={"images": images})
