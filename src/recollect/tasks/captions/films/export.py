"""What is exported of a captioner of films beside its step: CNN and memory, the vocabulary, films of validation."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....core.exported import UNASKED, Exports, Inputs, Sample
from ...decoding import search_options
from ...pieces import describe_vocabulary
from .frames import to_frames

LONGEST = 4  # frames of the films that are drawn


class FilmsExports(Exports):
    def pipeline_tag(self, run: Any) -> str:
        return "video-text-to-text"

    def source(self, run: Any) -> Inputs:
        pixels = run.artifacts.pixels

        def draw(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
            """Films of unequal lengths, the last of them the longest."""
            longest = LONGEST + rows
            lengths = (longest - 2 * torch.arange(rows).flip(0)).clamp(min=1)
            return {
                "frames": torch.rand(rows, longest, 3, pixels, pixels, generator=generator),
                "lengths": lengths,
            }

        axes = {"frames": {0: "batch", 1: "source"}, "lengths": {0: "batch"}}
        return Inputs(draw=draw, axes=axes, least={"source": 2})

    def settings(self, run: Any) -> dict[str, Any]:
        tokenizer, artifacts = run.artifacts.tokenizer, run.artifacts
        found = describe_vocabulary(tokenizer.tokenizer, "a")
        del found["example"]
        unknown = [] if tokenizer.unknown is None else [tokenizer.unknown]
        banned = [tokenizer.pad, tokenizer.begin, *unknown]
        found |= {"pixels": artifacts.pixels, "frames": artifacts.frames}
        found |= {"begin": tokenizer.begin, "end": tokenizer.end, "banned": banned}
        return found | {"search": search_options(run.config.task)}

    def sample(self, run: Any, rows: int) -> Sample:
        task, part = run.task, run.task.part("valid")
        chosen = np.arange(min(rows, len(part)))
        x, y, _ = task.written(part, part.first[chosen])
        frames, lengths = task.frames(part, chosen)
        source = {"frames": to_frames(frames, run.model), "lengths": lengths}
        return Sample(steps=x, targets=y.masked_fill(y == task.data.tokenizer.pad, UNASKED), source=source)
