"""The JSON Schema of recipes (draft 2020-12), for editors and forms: made from the dataclasses that declare settings.

Needs pydantic, which the package itself does not; `python -m tools.schema` writes recipes/schema.json.
"""

import inspect
from contextlib import suppress
from itertools import count
from typing import Any

from .. import tasks
from ..core.settings import ContractError, flags_of, lowest
from ..layers import LAYERS
from . import run as runs
from .meanings import meaning
from .recipe import SCHEMA, Declared, Recipe, keys_of, settings_of

DRAFT = "https://json-schema.org/draft/2020-12/schema"
KEYS: dict[str, dict[str, Any]] = {
    SCHEMA: {"type": "string", "description": "The place of this schema, for editors."},
    "about": {"type": "string", "description": "The recipe in a line."},
    "data": {"type": "array", "items": {"type": "string"}},
    "tokenizer": {"type": "string"},
    "pair": {"type": "string"},
    "params": {
        "description": "Solve the width of the model for so many parameters.",
        "anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "pattern": "^[0-9][0-9_.]*([eE][-+]?[0-9]+)?[kKmMbBgGtT]?$"},
        ],
    },
}


def recipe_schema() -> dict[str, Any]:
    """One schema for the recipes of every registered task; the key `task` says which of its branches holds."""
    parts: dict[str, Any] = {}
    branches = {f"recipe.{task.name}": _branch(task, parts) for task in tasks.every()}
    return {
        "$schema": DRAFT,
        "title": "recollect recipe",
        "description": inspect.getdoc(Recipe),
        "type": "object",
        "required": ["task"],
        "properties": {"task": {"enum": tasks.names(), "description": "What is trained."}},
        "oneOf": [_refer(name) for name in branches],
        "$defs": branches | dict(sorted(parts.items())),
    }


def _branch(task: runs.Kind, parts: dict[str, Any]) -> dict[str, Any]:
    """The recipes of one task. Which settings there are depends on the model; models with the same ones stand together.

    Settings are put together from `parts`, one for each dataclass: `unevaluatedProperties` refuses all others.
    """
    models = models_of(task)
    own: dict[str, Any] = {"task": {"const": task.name}}
    for key in (SCHEMA, *keys_of(task)):
        own |= {key: _describe_key(task, key)} if key in KEYS else {}
    own["model"] = {"enum": models, "default": task.default, "description": "Which model is trained."}
    own["settings"] = {"type": "object", "description": "Settings of the data, the task, the model and the training."}
    groups: dict[tuple[str, ...], list[str]] = {}
    for model in models:
        groups.setdefault(_add_parts(settings_of(task, model), parts), []).append(model)
    cases = []
    for names, group in groups.items():
        settings = {"allOf": [_refer(name) for name in names], "unevaluatedProperties": False}
        case: dict[str, Any] = {"properties": {"model": {"enum": group}}}
        if task.default not in group:  # which a recipe without a model means
            case["required"] = ["model"]
        cases.append({"if": case, "then": {"properties": {"settings": settings}}})
    return {
        "title": task.name,
        "description": inspect.getdoc(task) or "",
        "properties": own,
        "required": ["task"],
        "additionalProperties": False,
        "allOf": cases,
    }


def models_of(task: runs.Kind) -> list[str]:
    """The models of a task: those that it names, and other layers that it can stack."""
    found = list(task.models)
    for name in LAYERS:
        with suppress(ContractError):  # a layer that the task cannot stack
            found += [name] if name not in found and task.check_model(name) == name else []
    return found


def _describe_key(task: runs.Kind, key: str) -> dict[str, Any]:
    """The schema of a key; those that stand for settings of the data are described as these are."""
    about = _describe(task.data_config, key)
    return KEYS[key] | ({"description": about} if about and "description" not in KEYS[key] else {})


def _add_parts(settings: dict[str, Declared], parts: dict[str, Any]) -> tuple[str, ...]:
    """The names of the parts that declare these settings; missing parts are added.

    A dataclass has a second part where a model leaves out some of its settings, or an earlier dataclass has them.
    """
    homes: dict[type, dict[str, Declared]] = {}
    for name, setting in settings.items():
        homes.setdefault(setting.home, {})[name] = setting
    found = []
    for kind, own in homes.items():
        part = _part(kind, own)
        first = f"{kind.__module__.partition('.')[2]}.{kind.__qualname__}"
        name = next(name for n in count(1) if parts.get(name := first if n == 1 else f"{first}-{n}", part) == part)
        parts[name] = part
        found.append(name)
    return tuple(found)


def _part(kind: type, settings: dict[str, Declared]) -> dict[str, Any]:
    """The schema of the settings that one dataclass declares."""
    from pydantic import TypeAdapter

    types = TypeAdapter(kind).json_schema()["properties"]
    properties = {}
    for name, setting in settings.items():
        # without the default: a task or a model may have one of its own
        own = {key: value for key, value in types[name].items() if key not in ("title", "default")}
        for option in own.get("anyOf", [own]):
            if option.get("type") == "integer":
                option["minimum"] = lowest(setting.field)
            if option.get("type") == "number" and name.endswith("dropout"):
                option |= {"minimum": 0, "exclusiveMaximum": 1}
        if about := _describe(kind, name):
            own["description"] = about
        properties[name] = own
    return {"type": "object", "properties": properties}


def _describe(kind: type, name: str) -> str | None:
    """What a setting means; for one from outside the package the help of its flag, if it has one."""
    flag = flags_of(kind).get(name)
    return meaning(kind, name) or (flag[0].help if flag else None)


def _refer(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}
