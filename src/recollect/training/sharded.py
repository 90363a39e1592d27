"""Checkpoints of sharded runs: a folder to which each rank writes its own parts, whole or not there.

torch.distributed.checkpoint writes and reads the parts, as safetensors; the note is JSON and comes last, so that a
folder with a note is whole. Ranks go on with the next steps meanwhile. Any number of ranks can read it.
"""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..core.errors import RecollectError
from ..core.files import read_file, write_aside
from ..core.limits import one_line
from .folder import SHARDED_NOTE

MOST_NOTE = 1 << 24  # bytes


class ShardError(RecollectError):
    """A folder that is no sharded checkpoint; the message is one line."""


class Writer:
    """Writes the checkpoints of a run in the background, on a process group of its own."""

    def __init__(self) -> None:
        self.group: Any = None
        self.pending: tuple[Any, Path, dict[str, Any]] | None = None

    def write(self, folder: Path, tensors: dict[str, Tensor], note: dict[str, Any], *, main: bool) -> None:
        """Begin to write the checkpoint of a step; the one before is finished first."""
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
        from torch.distributed.checkpoint.state_dict_saver import async_save

        self.finish(main=main)
        if self.group is None:
            self.group = dist.new_group(backend="gloo")
        place = folder / f"last-{note['spent']['step']}"
        if main:
            shutil.rmtree(place, ignore_errors=True)  # of a run that was killed here
            place.mkdir(parents=True)
        dist.barrier(self.group)
        # without an index of files the parts of all ranks stand in files of their own
        storage = HuggingFaceStorageWriter(str(place), save_distributed=True)
        future = async_save(tensors, storage_writer=storage, process_group=self.group)
        self.pending = future, place, note

    def finish(self, *, main: bool) -> None:
        """Wait for what is being written; then it stands for the run, and older checkpoints go."""
        if self.pending is None:
            return
        (future, place, note), self.pending = self.pending, None
        _wait_for(future, place)
        dist.barrier(self.group)
        if main:
            write_aside(place / SHARDED_NOTE, json.dumps(note).encode())
            for other in place.parent.glob("last-*"):
                if other != place:
                    shutil.rmtree(other)
            (place.parent / "last.safetensors").unlink(missing_ok=True)
        dist.barrier(self.group)


def _wait_for(future: Any, place: Path) -> None:
    """Wait until all ranks have written; what one could not write, each of them says."""
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        future.result()
    except CheckpointException as error:
        rank, (cause, _) = next(iter(error.failures.items()))
        raise ShardError(
            f"{place}: expected to write a checkpoint, found that rank {rank} cannot ({one_line(str(cause), 200)}); "
            "the last good checkpoint is kept"
        ) from error


def read(place: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All tensors, whole, and the note; nothing in the files is executed."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load

    try:
        note = json.loads(read_file(place / SHARDED_NOTE, MOST_NOTE))
        reader = HuggingFaceStorageReader(str(place))
        known = reader.read_metadata().state_dict_metadata
        tensors = {
            name: torch.empty(about.size, dtype=about.properties.dtype)
            for name, about in known.items()
            if isinstance(about, TensorStorageMetadata)
        }
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*load in a single process.*", UserWarning)  # as it is meant
            load(tensors, storage_reader=HuggingFaceStorageReader(str(place)), no_dist=True)
    except (OSError, ValueError, KeyError, RuntimeError, CheckpointException) as error:
        reason = " ".join(str(error).split())[:200]
        raise ShardError(
            f"{place}: expected a sharded checkpoint of recollect, found something else ({reason})"
        ) from error
    return tensors, note


def is_split(tensor: Tensor) -> bool:
    """Whether each rank holds a part of it."""
    return hasattr(tensor, "full_tensor")


def split(tensor: Tensor, like: Tensor) -> Tensor:
    """This rank's part of a whole tensor, divided as another one of its shape is."""
    if not is_split(like) or is_split(tensor) or tensor.shape != like.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    own: Any = like
    return distribute_tensor(tensor.to(like.device), own.device_mesh, own.placements)


def whole(tensor: Any) -> Tensor:
    """A tensor put together from the parts of all ranks."""
    return tensor.full_tensor() if is_split(tensor) else tensor


def local(tensor: Any) -> Tensor:
    """This rank's part of a tensor."""
    return tensor.to_local() if is_split(tensor) else tensor


@torch.no_grad()
def gather_weights(trained: nn.Module, model: nn.Module) -> None:
    """Copy sharded weights into a model that has them whole, on every rank."""
    into = model.state_dict(keep_vars=True)
    for name, tensor in trained.state_dict(keep_vars=True).items():
        into[name].detach().copy_(whole(tensor.detach()))
