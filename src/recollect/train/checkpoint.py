"""Checkpoints: one safetensors file each, whole or not there; everything a run needs to go on bit for bit."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..core import state as states
from ..core.files import write_aside
from .optim import Average, Schedule


class CheckpointError(ValueError):
    """A file that is no checkpoint of this run."""


def write_tensors(path: Path, tensors: dict[str, Tensor], note: dict[str, Any]) -> None:
    """Tensors and a JSON note in one safetensors file, written aside and renamed."""
    from safetensors.torch import save

    own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    write_aside(path, save(own, metadata={"recollect": json.dumps(note)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Nothing in the file is executed: safetensors and JSON only."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            note = json.loads((file.metadata() or {}).get("recollect", "null"))
            # Copies: the file's own memory is aligned by chance, and sums depend on alignment in their last bits.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except OSError as error:
        reason = error.strerror or error
        raise CheckpointError(f"{path}: expected a safetensors file of recollect, found {reason}") from error
    except (SafetensorError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: expected a safetensors file of recollect, found something else or a part of one ({error})"
        ) from error
    if not isinstance(note, dict):
        raise CheckpointError(f"{path}: expected a checkpoint of recollect, found safetensors without its note")
    return tensors, note


def weights(model: nn.Module) -> dict[str, Tensor]:
    """The state dict with tied weights once, or what a model declares in `stored`."""
    if stored := getattr(model, "stored", None):
        return stored()
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if tensor.data_ptr() in seen and tensor.numel():
            continue
        seen.add(tensor.data_ptr())
        found[name] = tensor.detach()
    return found


def load_weights(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Copy weights into a model; a file of another model is refused in one line."""
    if load_stored := getattr(model, "load_stored", None):
        try:
            return load_stored(tensors)
        except ValueError as error:
            raise CheckpointError(f"{path}: {error}") from error
    wanted = weights(model)
    missing, extra = sorted(set(wanted) - set(tensors)), sorted(set(tensors) - set(wanted))
    if missing or extra:
        raise CheckpointError(
            f"{path}: expected this model's weights; missing: {', '.join(missing[:3]) or 'none'}; "
            f"unknown: {', '.join(extra[:3]) or 'none'}"
        )
    try:
        model.load_state_dict(tensors, strict=False)  # names were checked, but for weights that are tied
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path}: expected this model's weights, found other shapes ({reason})") from error
    return None


def save(
    path: Path,
    *,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    average: Average | None,
    carry: Any,
    note: dict[str, Any],
) -> None:
    """Everything that the next step depends on."""
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
    }
    write_tensors(path, tensors, note)


def load(
    path: Path,
    *,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    average: Average | None,
    like: Any,
) -> tuple[dict[str, Any], Any]:
    """Put everything back; returns the note and the carried state (`like`: a function that makes one)."""
    tensors, note = read_tensors(path)
    load_weights(model, _part(tensors, "model."), path)
    try:
        return note, _restore(tensors, note, optimizer, schedule, average, like)
    except (KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise CheckpointError(f"{path}: expected a checkpoint of this run, found another file ({error!r})") from error


def _restore(
    tensors: dict[str, Tensor],
    note: dict[str, Any],
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    average: Average | None,
    like: Any,
) -> Any:
    """All but the weights; returns the carried state."""
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in _part(tensors, "optimizer.").items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = tensor
    for name, number in note["optimizer"].items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = number
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    schedule.from_json(note["schedule"])
    if average is not None:
        average.count = note["average"]
        for name, tensor in _part(tensors, "average.").items():
            average.weights[name].copy_(tensor)
    torch.set_rng_state(tensors["rng.cpu"])
    if "rng.cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["rng.cuda"])
    if not note["carry"]:
        return None
    kept = _part(tensors, "carry.")
    template = like()
    values = iter(kept[name].to(tensor.device) for name, tensor in states.named(template))
    return states.map(lambda _: next(values), template)


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
