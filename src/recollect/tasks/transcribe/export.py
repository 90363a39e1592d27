"""What is exported of a transcriber beside its step: the encoder or CTC over whole recordings, its characters."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core.exported import UNASKED, Exports, Inputs, Sample, WholeCall
from ...models import ctc, seq2seq
from ..decoding import search_options
from .exported import WHOLE

LONGEST = 7  # steps of the sounds that are drawn


class ReadWhole(nn.Module):
    """Log-probabilities of each step of whole recordings, by CTC from both ends."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, frames: Tensor, lengths: Tensor) -> Tensor:
        return self.model(frames, lengths).values.log_softmax(dim=-1)


class TranscribeExports(Exports):
    def has_step(self, run: Any) -> bool:
        return not isinstance(run.model, ctc.BothWays)

    def pipeline_tag(self, run: Any) -> str:
        return "automatic-speech-recognition"

    def source(self, run: Any) -> Inputs | None:
        if not isinstance(run.model, seq2seq.Decoder):
            return None
        inputs = frames_of(run)
        return Inputs(draw=inputs.draw, axes=inputs.axes, least={"source": 2})

    def calls(self, run: Any) -> dict[str, WholeCall]:
        if not isinstance(run.model, ctc.BothWays):
            return {}
        return {WHOLE: WholeCall(module=ReadWhole(run.model), inputs=frames_of(run), outputs=["log_probabilities"])}

    def settings(self, run: Any) -> dict[str, Any]:
        artifacts = run.artifacts
        tokenizer = artifacts.tokenizer
        pieces = [tokenizer.tokenizer.decode([number]) for number in range(tokenizer.tokenizer.size)]
        found = {
            "pieces": pieces,
            "between": "",
            "banned": [tokenizer.pad, tokenizer.begin, *artifacts.banned],
            "mel": artifacts.mel.to_json(),
            "scaler": artifacts.scaler.to_json(),
            "stack": artifacts.stack,
            "search": search_options(run.config.task),
        }
        if isinstance(run.model, seq2seq.Decoder):
            return found | {"begin": tokenizer.begin, "end": tokenizer.end}
        return found | {"blank": artifacts.labels - 1}

    def sample(self, run: Any, rows: int) -> Sample:
        task = run.task
        part, plan, some = task.measured("valid", rows)
        batch = task.batch(part, plan, np.asarray(some))
        if isinstance(run.model, seq2seq.Decoder):
            targets = batch.y.masked_fill(batch.y == run.artifacts.tokenizer.pad, UNASKED)
            return Sample(steps=batch.x, targets=targets, source={"frames": batch.frames, "lengths": batch.lengths})
        if isinstance(run.model, ctc.BothWays):
            return Sample(calls={WHOLE: {"frames": batch.frames, "lengths": batch.lengths}})
        return Sample(steps=batch.frames)


def frames_of(run: Any) -> Inputs:
    """Steps of sound of unequal lengths, the last of them the longest."""
    width = run.artifacts.inputs

    def draw(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        longest = LONGEST + rows
        lengths = (longest - 2 * torch.arange(rows).flip(0)).clamp(min=1)
        return {"frames": torch.randn(rows, longest, width, generator=generator), "lengths": lengths}

    return Inputs(draw=draw, axes={"frames": {0: "batch", 1: "source"}, "lengths": {0: "batch"}}, least={"source": 2})
