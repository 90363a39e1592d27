"""A decoder out of an exported folder: the graphs `encode` and `step` in place of a model, for searches over it."""

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..core.contract import ContractError
from ..runtime.folder import ExportedFolder
from ..runtime.manifest import ExportError
from ..runtime.session import Step
from .stepped import SteppedModel


class Encoded(NamedTuple):
    """What the graph `encode` leaves of sources, in the place of a Memory."""

    values: Tensor  # B S, of which a search asks the rows, the type and the device
    valid: Tensor  # B S
    fields: tuple[Tensor, ...]  # those of the first state that depend on the source


class ExportedDecoder(nn.Module):
    """An encoder and a decoder's first states, as searches ask for them. Its steps are those of a `SteppedModel`."""

    def __init__(self, folder: ExportedFolder, step: Step) -> None:
        super().__init__()
        self.path, self.step = folder.path, step
        self.graph = folder.open_call("encode", [own.name for own in step.fields if own.start == "encode"])
        self.inputs = [own.name for own in folder.manifest.graphs["encode"].inputs]
        names = [f"field_{number}" for number in range(len(step.fields))]
        constant = [name for name, own in zip(names, step.fields, strict=True) if own.constant]
        self.state = type("State", (namedtuple("State", names),), {"constant": tuple(constant)})

    def like(self) -> Tensor:
        """A tensor of the type that pictures have."""
        return torch.empty(0)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Encoded:
        """Tokens (B S) and their lengths, or pictures."""
        given = (source,) if lengths is None else (source, lengths)
        found = self.graph(**{name: part.numpy() for name, part in zip(self.inputs, given, strict=True)})
        if lengths is None:
            valid = torch.ones(len(source), 1, dtype=torch.bool)
        else:
            valid = torch.arange(source.shape[1]) < lengths[:, None]
        encoded = (own for own in self.step.fields if own.start == "encode")
        fields = tuple(torch.from_numpy(found[own.name]).permute(np.argsort(own.order).tolist()) for own in encoded)
        return Encoded(valid.float(), valid, fields)

    def initial_state(self, batch: int, memory: Encoded, capacity: int = 0) -> Any:
        encoded, parts = iter(memory.fields), []
        sizes = {"batch": batch, "source": memory.valid.shape[1]}
        for own in self.step.fields:
            if own.start == "encode":
                parts.append(next(encoded))
                continue
            if own.start == "file":
                first = np.repeat(self.step.starts[own.name], batch, axis=0)
            else:
                free = sizes | {"capacity": own.limit_slots(capacity)}
                first = np.zeros([free[size] if isinstance(size, str) else size for size in own.shape], own.dtype)
            parts.append(torch.from_numpy(first).permute(np.argsort(own.order).tolist()))
        return self.state(*parts)

    def explain(self, state: Any, x: Tensor) -> dict[str, Tensor]:
        raise ContractError(
            f"{self.path}: expected a run folder for coverage, alignments or gaze, found an exported one, which has no "
            "attention to read; ask for none (coverage 0), or load the run that it was exported from"
        )


def open_decoder(folder: ExportedFolder, threads: int | None = None) -> SteppedModel:
    """The decoder of an exported translator or captioner."""
    step = folder.open_step(threads)
    if step is None:
        raise ExportError(f"{folder.path}: expected an export with a step, found none; export again")
    return SteppedModel(ExportedDecoder(folder, step), step)
