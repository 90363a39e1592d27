"""What is exported of a translator beside its step: the encoder, both vocabularies, pairs of validation."""

from typing import Any

import torch
from torch import Tensor

from ...core.exported import UNASKED, Exports, Inputs, Sample
from ..decoding import search_options
from ..pieces import describe_vocabulary, encode_example

EXAMPLE = "a man"
LONGEST = 7  # tokens of the sources that are drawn


class TranslationExports(Exports):
    def pipeline_tag(self, run: Any) -> str:
        return "translation"

    def source(self, run: Any) -> Inputs:
        vocabulary = run.artifacts[0].size

        def draw(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
            """Sources of unequal lengths, the last of them the longest."""
            longest = LONGEST + rows
            lengths = (longest - 2 * torch.arange(rows).flip(0)).clamp(min=1)
            return {"source": torch.randint(vocabulary, (rows, longest), generator=generator), "lengths": lengths}

        axes = {"source": {0: "batch", 1: "source"}, "lengths": {0: "batch"}}
        return Inputs(draw=draw, axes=axes, least={"source": 2})

    def settings(self, run: Any) -> dict[str, Any]:
        source, target = run.artifacts
        found = describe_vocabulary(target.tokenizer, EXAMPLE)
        text, tokens = encode_example(source, EXAMPLE)
        return found | {
            "begin": target.begin,
            "end": target.end,
            "source_end": source.end,
            "example": {"text": text, "tokens": tokens},
            "search": search_options(run.config.task),
        }

    def sample(self, run: Any, rows: int) -> Sample:
        pairs, task = run.task.pairs("valid"), run.task
        batch = task.batch(pairs, range(min(rows, len(pairs))))
        targets = batch.y.masked_fill(batch.y == task.data.target.pad, UNASKED)
        return Sample(steps=batch.x, targets=targets, source={"source": batch.source, "lengths": batch.lengths})
