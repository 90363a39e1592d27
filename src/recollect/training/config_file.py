"""config.json of a run: its settings as they are written, and read by the same checks as flags."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..core import typed
from ..core.outside import OutsideError
from ..core.task import RunConfig, RunError, Task
from .settings import Settings

Kind = type[Task[Any, Any]]


def to_json(task: Kind, config: RunConfig) -> dict[str, Any]:
    """The settings of a run for config.json."""
    data, own, train = (asdict(part) for part in (config.data, config.task, config.train))
    return {"task": task.name, "data": data, task.name: own, "model": config.model, "train": train}


def from_json(task: Kind, content: Mapping[str, Any], path: Path) -> RunConfig:
    """The settings of a run from config.json, by the same checks as flags."""
    if content.get("task") != task.name:
        raise RunError(
            f"{path}: expected the run of a {task.name} task, found one of {typed.show(content.get('task'))}"
        )
    try:
        typed.check_keys(content, "", known=None, needed=("data", task.name, "model", "train"))
        found = RunConfig(
            data=typed.read(content["data"], task.data_config, "data"),
            task=typed.read(content[task.name], task.task_config, task.name),
            model=_read_model(task, content["model"]),
            train=typed.read(content["train"], Settings, "train"),
        )
        _check_generated(content, task.generated_rows(found.data))
        return found
    except OutsideError:  # it says already which file of the user's is at fault
        raise
    except ValueError as error:
        raise RunError(f"{path}: expected the config of a {task.name} run, found something else ({error})") from error


def _check_generated(content: Mapping[str, Any], now: int | None) -> None:
    """Refuse settings that lost or changed the size of generated data, before any is generated at whatever cost.

    Runs of earlier versions do not record it.
    """
    before = typed.read(content.get("generated", now), int | None, "generated")
    if now not in (None, before):
        expected = "data from files" if before is None else f"{before:,} generated rows"
        raise RunError(f"data: expected {expected} as in training, found the settings of {now:,} generated rows")


def _read_model(task: Kind, content: Any) -> dict[str, Any]:
    """The name of a model and its settings, each with its declared type; those of its layers stand under `layer`."""
    typed.check_keys(content, "model", known=None, needed=["name"])
    name = typed.read(content["name"], str, "model.name")
    homes = task.model_settings(name if name in task.combined else task.check_model(name))
    own = {key: value for key, value in content.items() if key != "name"}
    found = typed.read_fields(own, homes["model"], "model")
    if "layer" in homes and "layer" in found:
        found["layer"] = typed.read_fields(found["layer"], homes["layer"], "model.layer")
    return {"name": name} | found
