"""Checkpoints: one safetensors file each, whole or not there; everything a run needs to go on bit for bit.

What a file holds is checked before any of it is used: a note of declared types, and tensors that have the names, shapes
and dtypes of the run's own model, optimiser, average and carried state.
"""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..core import state as states
from ..core import tensors as stored
from ..core import typed
from ..core.errors import RecollectError
from ..core.files import FileError, write_aside
from ..core.settings import ContractError, at_least
from . import sharded
from .budget import Spent
from .optim import Average, Schedule, ScheduleState, sample_state
from .settings import Settings

FILE = "a safetensors file of recollect"
WEIGHTS = "this model's weights"
RUN = "a checkpoint of this run"


class CheckpointError(RecollectError):
    """A file that is no checkpoint of this run."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """What a checkpoint says beside its tensors: what was spent, the best evaluation, and the parts that it has."""

    spent: Spent
    best: float | typed.Infinite  # infinite before the first evaluation
    since_best: int = field(metadata={"least": 0})
    evaluated: int = at_least(0, default=0)
    optimizer: dict[str, float]  # what an optimiser holds that is no tensor
    schedule: ScheduleState
    average: int = field(metadata={"least": 0})
    carry: bool
    tensors: int | None = at_least(0, default=None)  # how many there are; files of before do not say

    def __post_init__(self) -> None:
        for name, value in (("best", self.best), ("schedule.best", self.schedule.best)):
            if math.isnan(value) or value == -math.inf:
                raise typed.TypeMismatch(f"{name}: expected a number or Infinity, found {value}")


def write_tensors(path: Path, tensors: dict[str, Tensor], note: dict[str, Any]) -> None:
    """Tensors and a JSON note in one safetensors file, written aside and renamed."""
    from safetensors.torch import save

    own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    write_aside(path, save(own, metadata={"recollect": json.dumps(note)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Nothing in the file is executed: safetensors and JSON only. A folder is the checkpoint of a sharded run."""
    if path.is_dir():
        return sharded.read(path)
    try:
        tensors, note = stored.read_tensors(path, FILE)
    except OSError as error:
        raise CheckpointError(f"{path}: expected {FILE}, found {error.strerror or error}") from error
    except FileError as error:
        raise CheckpointError(str(error)) from error
    if note is None:
        raise CheckpointError(f"{path}: expected a checkpoint of recollect, found safetensors without its note")
    return tensors, note


def read_note(path: Path, content: dict[str, Any]) -> Note:
    """The note of a checkpoint, checked."""
    known = {name: value for name, value in content.items() if name in Note.__dataclass_fields__}
    try:
        return typed.read(known, Note)
    except ValueError as error:
        raise CheckpointError(f"{path}: expected {RUN}, found another note ({error})") from error


def weights(model: nn.Module) -> dict[str, Tensor]:
    """The state dict with tied weights once, or what a model declares in `stored`."""
    if own := getattr(model, "stored", None):
        return own()
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        place = id(tensor) if sharded.is_split(tensor) else tensor.data_ptr()
        if place in seen and tensor.numel():
            continue
        seen.add(place)
        found[name] = tensor.detach()
    return found


def check_weights(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Refuse tensors that are not the weights of this model."""
    try:
        if check_stored := getattr(model, "check_stored", None):  # of models whose sizes no setting decides
            check_stored(tensors)
        else:
            stored.check_like(path, WEIGHTS, tensors, weights(model), halves=True)
    except FileError as error:
        raise CheckpointError(str(error)) from error
    except ContractError as error:
        raise CheckpointError(f"{path}: expected {WEIGHTS}, found others ({error})") from error


def load_weights(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Copy weights into a model; a file of another model is refused in one line."""
    check_weights(model, tensors, path)
    load_stored = getattr(model, "load_stored", None)
    try:
        if load_stored:
            load_stored(tensors)
        else:
            own = model.state_dict()
            parts = {name: sharded.split(tensor, own[name]) for name, tensor in tensors.items()}
            model.load_state_dict(parts, strict=False)  # names were checked, but for weights that are tied
    except ContractError as error:
        raise CheckpointError(f"{path}: expected {WEIGHTS}, found others ({error})") from error


def collect(
    *,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    average: Average | None,
    carry: Any,
    note: dict[str, Any],
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything that the next step depends on, as tensors and a note."""
    tensors = {f"model.{name}": tensor for name, tensor in weights(model).items()}
    numbers: dict[str, Any] = {}
    for index, entry in optimizer.state_dict()["state"].items():
        for key, value in entry.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{key}"] = value
            else:
                numbers[f"{index}.{key}"] = value
    if average is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in average.weights.items()}
    if carry is not None:
        tensors |= {f"carry.{name}": tensor for name, tensor in states.named(carry)}
    tensors["rng.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["rng.cuda"] = torch.cuda.get_rng_state()
    note = note | {
        "optimizer": numbers,
        "schedule": schedule.to_json(),
        "average": average.count if average else 0,
        "carry": carry is not None,
        "tensors": len(tensors),
    }
    return tensors, note


def load(
    path: Path,
    *,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    average: Average | None,
    whole: nn.Module | None = None,
) -> tuple[Note, Any]:
    """Put everything back; returns the note and the carried state. Nothing is changed where anything is refused.

    `whole` is the same model with undivided weights, where those of `model` are sharded: the state is one of its.
    """
    tensors, content = read_tensors(path)
    note = read_note(path, content)
    parts = _split(path, tensors, note)
    check_weights(model, parts["model"], path)
    try:
        moments = _optimizer_state(path, optimizer, schedule.settings, parts["optimizer"], note)
        wanted = {} if average is None else average.weights
        if average is None and note.average:
            raise CheckpointError(f"{path}: expected {RUN}, found {note.average:,} averaged weights, which it has not")
        stored.check_like(path, f"{RUN}, its averaged weights", parts["average"], wanted)
        _check_generators(path, parts["rng"])
        carry = _carried_state(path, whole or model, parts["carry"], note)
    except (FileError, states.StateError) as error:
        raise CheckpointError(str(error)) from error
    _set_generators(path, parts["rng"])
    load_weights(model, parts["model"], path)
    owners = [owner for group in optimizer.param_groups for owner in group["params"]]
    for index, state in moments.items():
        state |= {key: sharded.split(value, owners[index]) for key, value in state.items() if isinstance(value, Tensor)}
    optimizer.load_state_dict(optimizer.state_dict() | {"state": moments})
    schedule.restore(note.schedule)
    if average is not None:
        mean = {name: sharded.split(tensor, average.weights[name]) for name, tensor in parts["average"].items()}
        average.restore(mean, note.average)
    return note, carry


def read_weights(path: Path) -> dict[str, Tensor]:
    """The weights in a checkpoint: their mean over the steps where the run kept one, as an evaluation has them."""
    tensors, content = read_tensors(path)
    parts = _split(path, tensors, read_note(path, content))
    return parts["model"] | parts["average"]


def _split(path: Path, tensors: dict[str, Tensor], note: Note) -> dict[str, dict[str, Tensor]]:
    """The tensors of a checkpoint by what they belong to."""
    parts: dict[str, dict[str, Tensor]] = {name: {} for name in ("model", "optimizer", "average", "carry", "rng")}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        if part not in parts:
            raise CheckpointError(f"{path}: expected {RUN}, found the tensor {typed.show(name)} in it")
        parts[part][rest] = tensor
    if note.tensors not in (None, len(tensors)):
        raise CheckpointError(f"{path}: expected {RUN} with {note.tensors:,} tensors, found {len(tensors):,}")
    return parts


def _optimizer_state(
    path: Path, optimizer: torch.optim.Optimizer, settings: Settings, tensors: dict[str, Tensor], note: Note
) -> dict[int, dict[str, Any]]:
    """The state of each parameter as `load_state_dict` takes it; parameters that never had a gradient have none."""
    sample = sample_state(settings)
    owners = [owner for group in optimizer.param_groups for owner in group["params"]]
    wanted: dict[str, Tensor] = {}
    numbers: set[str] = set()
    present = {name.partition(".")[0] for name in (*tensors, *note.optimizer)}
    for index, owner in enumerate(owners):
        if str(index) not in present:
            continue
        for key, value in sample.items():
            if not isinstance(value, Tensor):
                numbers.add(f"{index}.{key}")
            else:
                wanted[f"{index}.{key}"] = torch.empty_like(owner, device="meta") if value.dim() else value
    stored.check_like(path, f"{RUN}, its optimiser's state", tensors, wanted)
    if numbers != note.optimizer.keys():
        raise CheckpointError(f"{path}: expected {RUN}, found another optimiser's numbers in its note")
    if sample and note.spent.step and not present:
        raise CheckpointError(f"{path}: expected {RUN}, found nothing of its optimiser")
    counts = {key for key, value in sample.items() if isinstance(value, Tensor) and not value.dim()}
    state: dict[int, dict[str, Any]] = {}
    for name, value in (*tensors.items(), *note.optimizer.items()):
        index, _, key = name.partition(".")
        # a weight without axes has moments without axes, which may be negative
        if key in counts and isinstance(value, Tensor) and not 0 <= float(value) < math.inf:
            raise CheckpointError(f"{path}: expected {RUN}, optimizer.{name} of at least 0, found {float(value)}")
        state.setdefault(int(index), {})[key] = value
    return state


def _check_generators(path: Path, tensors: dict[str, Tensor]) -> None:
    """The states of the random number generators: of the CPU's always, of a GPU's where one wrote the file."""
    wanted = {"cpu": torch.get_rng_state()}
    if "cuda" in tensors:
        wanted["cuda"] = torch.cuda.get_rng_state() if torch.cuda.is_available() else tensors["cuda"]
    stored.check_like(path, f"{RUN}, its random numbers", tensors, wanted)


def _set_generators(path: Path, tensors: dict[str, Tensor]) -> None:
    try:
        torch.set_rng_state(tensors["cpu"])
        if "cuda" in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors["cuda"])
    except RuntimeError as error:  # of the right size, but no state of a generator
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path}: expected {RUN}, found no state of a generator ({reason})") from error


def _carried_state(path: Path, model: Any, tensors: dict[str, Tensor], note: Note) -> Any:
    """The state that one batch leaves the next, on tasks that stream."""
    if not note.carry and not tensors:
        return None
    if not note.carry or not hasattr(model, "initial_state"):
        raise CheckpointError(f"{path}: expected {RUN}, found a carried state that it has not")
    return states.restore(tensors, model, f"{path}: carry")
