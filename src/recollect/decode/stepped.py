"""A model whose single steps on a CPU are run by onnxruntime: the exported step in place of its own call.

States are the model's own, so whatever selects, joins or grows them works on; chunks are the model's own call.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core import state as states
from ..core.contract import Memory
from ..runtime.manifest import NEXT
from ..runtime.session import Step


class SteppedModel:
    """A decoder with its exported step."""

    def __init__(self, model: Any, step: Step) -> None:
        self.model, self.own = model, step
        self.names = [step.y.name, *(NEXT + field.name for field in step.fields if not field.constant)]
        self.clocks = [at for at, field in enumerate(step.fields) if field.name.split(".")[-1] == "clock"]
        self.orders = [(field, np.argsort(field.order).tolist()) for field in step.fields]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def encode(self, *source: Any) -> Memory:
        return self.model.encode(*source)

    def initial_state(self, batch: int, memory: Memory | None = None, **options: Any) -> Any:
        return self.model.initial_state(batch, memory=memory, **options)

    def __call__(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step (x: B 1), or the model's own call on a chunk."""
        if x.shape[1] != 1:
            return self.model(x, state)
        parts = states.leaves(state)
        if self.own.manifest.limit is not None:
            self.own.check_limit(max(int(parts[at].max()) for at in self.clocks))
        feeds: Mapping[str, Any] = {self.own.x.name: np.ascontiguousarray(x[:, 0].numpy())}
        feeds |= {  # a copy only where a tensor's axes lie otherwise in memory
            field.name: part.permute(field.order).contiguous().numpy()
            for (field, _), part in zip(self.orders, parts, strict=True)
        }
        logits, *left = self.own.session.run(self.names, feeds)
        changed = iter(left)
        after = iter(
            part if field.constant else torch.from_numpy(next(changed)).permute(order)
            for (field, order), part in zip(self.orders, parts, strict=True)
        )
        return torch.from_numpy(logits)[:, None], states.map(lambda _: next(after), state)
