"""What is exported of a test of memory beside its step: its sizes, and rows of validation."""

from typing import Any

import torch

from ...core.exported import UNASKED, Exports, Sample


class MemoryExports(Exports):
    def settings(self, run: Any) -> dict[str, Any]:
        test = run.artifacts
        return {"inputs": test.inputs, "outputs": test.outputs, "steps": test.steps, "tokens": test.tokens}

    def sample(self, run: Any, rows: int) -> Sample:
        batch = next(run.task.batches("valid", 0))
        x, at, y = batch.x[:rows], batch.at[:rows], batch.y[:rows]
        if not run.artifacts.tokens:  # numbers are not answered by tokens
            return Sample(steps=x.float())
        return Sample(steps=x, targets=torch.full_like(x, UNASKED).scatter(1, at, y))
