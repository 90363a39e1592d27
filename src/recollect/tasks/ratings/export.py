"""What is exported of ratings: the score of a user and an item, by their numbers."""

from typing import Any

import torch
from torch import Tensor

from ...core.exported import Exports, Inputs, Sample, WholeCall


class RatingsExports(Exports):
    def calls(self, run: Any) -> dict[str, WholeCall]:
        config = run.model.config

        def draw(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
            """Pairs, those that were never seen among them."""
            sizes = {"users": config.users + 1, "items": config.items + 1}
            return {name: torch.randint(size, (rows,), generator=generator) for name, size in sizes.items()}

        axes = {"users": {0: "batch"}, "items": {0: "batch"}}
        return {"score": WholeCall(module=run.model, inputs=Inputs(draw=draw, axes=axes), outputs=["score"])}

    def settings(self, run: Any) -> dict[str, Any]:
        known = run.artifacts
        return {
            "users": list(known.users),
            "items": list(known.items),
            "low": known.low,
            "high": known.high,
        }

    def sample(self, run: Any, rows: int) -> Sample:
        users, items, _ = (column[:rows] for column in run.task.tensors("valid"))
        return Sample(calls={"score": {"users": users, "items": items}})
