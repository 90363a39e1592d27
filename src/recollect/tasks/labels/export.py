"""What is exported of a classifier beside its step: the answer for whole texts or pictures."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core.exported import Exports, Inputs, Sample, WholeCall
from ..pieces import encode_example

EXAMPLE = "a good film"
LONGEST = 7  # tokens of the texts that are drawn


class ReadRows(nn.Module):
    """Log-probabilities of the labels after the last step of each row. What stands after it changes nothing.

    Rows are the tokens of texts (B T), or the scaled frames of recordings (B T D).
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        y, _ = self.model(rows)
        last = (lengths - 1)[:, None, None].expand(-1, 1, y.shape[2])
        return y.gather(1, last)[:, 0].log_softmax(dim=-1)


class ReadPictures(nn.Module):
    """Log-probabilities of the labels of whole pictures, B rows columns, from 0 to 255."""

    places: Tensor

    def __init__(self, model: Any, artifacts: Any) -> None:
        super().__init__()
        self.model, self.width = model, artifacts.inputs
        numbers = np.arange(np.prod(artifacts.shape)).reshape(1, *artifacts.shape)
        self.register_buffer("places", torch.from_numpy(artifacts.lay_out(numbers).reshape(-1)), persistent=False)

    def forward(self, pictures: Tensor) -> Tensor:
        x = pictures.flatten(1)[:, self.places].unflatten(1, (-1, self.width)) / 255
        return self.model(x)[0][:, -1].log_softmax(dim=-1)


def draw_lengths(rows: int) -> tuple[int, Tensor]:
    """The longest of so many rows, and unequal lengths, of which the last is the longest."""
    longest = LONGEST + rows
    return longest, (longest - 2 * torch.arange(rows).flip(0)).clamp(min=1)


class LabelsExports(Exports):
    def pipeline_tag(self, run: Any) -> str:
        return {"texts": "text-classification", "images": "image-classification"}.get(
            run.artifacts.kind, "audio-classification"
        )

    def calls(self, run: Any) -> dict[str, WholeCall]:
        artifacts = run.artifacts
        if artifacts.kind == "images":
            shape = artifacts.shape

            def pictures(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
                return {"pictures": 255 * torch.rand(rows, *shape, generator=generator)}

            inputs = Inputs(draw=pictures, axes={"pictures": {0: "batch"}})
            return {"classify": WholeCall(module=ReadPictures(run.model, artifacts), inputs=inputs, outputs=["labels"])}

        def texts(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
            """Texts of unequal lengths, the last of them the longest."""
            longest, lengths = draw_lengths(rows)
            tokens = torch.randint(artifacts.inputs, (rows, longest), generator=generator)
            return {"tokens": tokens, "lengths": lengths}

        def recordings(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
            longest, lengths = draw_lengths(rows)
            return {"frames": torch.randn(rows, longest, artifacts.inputs, generator=generator), "lengths": lengths}

        texts_read = artifacts.kind == "texts"
        axes = {"tokens" if texts_read else "frames": {0: "batch", 1: "time"}, "lengths": {0: "batch"}}
        inputs = Inputs(draw=texts if texts_read else recordings, axes=axes, least={"time": 2})
        module = ReadRows(run.model)
        return {"classify": WholeCall(module=module, inputs=inputs, outputs=["labels"], last_step=True)}

    def settings(self, run: Any) -> dict[str, Any]:
        artifacts = run.artifacts
        found: dict[str, Any] = {"classes": list(artifacts.classes)}
        if artifacts.sound is not None:
            return found | {"longest": artifacts.longest, "sound": artifacts.sound.to_json()}
        if artifacts.tokenizer is None:
            return found | {"shape": list(artifacts.shape), "step": artifacts.step, "permute": artifacts.permute}
        text, tokens = encode_example(artifacts.tokenizer, EXAMPLE)
        return found | {"longest": artifacts.longest, "example": {"text": text, "tokens": tokens}}

    def sample(self, run: Any, rows: int) -> Sample:
        found = run.task.rows("valid")
        batch = found.take(np.arange(min(rows, len(found))))
        if batch.lengths is None:
            images = run.data.valid.values[: len(batch.x)]
            raw = torch.empty(len(batch.x), *run.artifacts.shape)
            steps = torch.from_numpy(images).flatten(1).float()
            raw.view(len(raw), -1)[:, ReadPictures(run.model, run.artifacts).places] = steps
            return Sample(steps=batch.x, calls={"classify": {"pictures": raw}})
        name = "tokens" if run.artifacts.kind == "texts" else "frames"
        return Sample(steps=batch.x, calls={"classify": {name: batch.x, "lengths": batch.lengths}})
