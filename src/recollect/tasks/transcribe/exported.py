"""CTC out of an exported folder: its graph over whole recordings, or its step from left to right."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core.contract import ContractError
from ...runtime.folder import ExportedFolder

WHOLE = "transcribe"  # the name of the graph over whole recordings


class ExportedCtc(nn.Module):
    """The log-probabilities of steps by onnxruntime."""

    def __init__(self, folder: ExportedFolder) -> None:
        super().__init__()
        whole = WHOLE in folder.manifest.graphs
        self.graph = folder.open_call(WHOLE, ["log_probabilities"]) if whole else None
        self.step = None if whole else folder.open_step(None)
        if self.graph is None and self.step is None:
            raise ContractError(f"{folder.path}: expected an export with a step, found none; export again")

    def log_probabilities(self, frames: Tensor, lengths: Tensor) -> Tensor:
        """frames: B S D → B S C."""
        if self.graph is not None:
            found = self.graph(frames=frames.numpy(), lengths=lengths.numpy())
            return torch.from_numpy(found["log_probabilities"])
        return self._streamed(frames, None)[0]

    @property
    def streamed(self) -> Any:
        """The same from left to right, with the state after it; None where the graph reads recordings whole."""
        return None if self.step is None else self._streamed

    def _streamed(self, frames: Tensor, state: Any) -> tuple[Tensor, Any]:
        assert self.step is not None
        state = self.step.initial_state(len(frames)) if state is None else state
        found = []
        for t in range(frames.shape[1]):
            y, state = self.step(np.ascontiguousarray(frames[:, t].numpy()), state)
            found.append(torch.from_numpy(y.copy()))
        return torch.stack(found, dim=1).log_softmax(dim=-1), state
