"""What is exported of a language model beside its step: the vocabulary, and windows of validation."""

from typing import Any

import numpy as np
import torch

from ...core.exported import Exports, Sample
from ..pieces import describe_vocabulary

PROMPT = "The "


class TextExports(Exports):
    def pipeline_tag(self, run: Any) -> str:
        return "text-generation"

    def settings(self, run: Any) -> dict[str, Any]:
        return describe_vocabulary(run.artifacts, PROMPT)

    def sample(self, run: Any, rows: int) -> Sample:
        tokens, steps = run.task.measured("valid"), run.config.task.context
        count = min(rows, (len(tokens) - 1) // steps)
        windows = np.stack([tokens[at * steps : (at + 1) * steps + 1] for at in range(count)]).astype(np.int64)
        found = torch.from_numpy(windows)
        return Sample(steps=found[:, :-1], targets=found[:, 1:])
