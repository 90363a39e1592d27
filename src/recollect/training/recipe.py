"""Recipes: runs worth repeating, as JSON files. A recipe names its task; every other key is optional.

Its settings are those of its task and model with their JSON types: numbers, true and false, null, and lists for tuples.
"""

import json
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from .. import tasks
from ..core import typed
from ..core.files import FileError, read_file
from ..core.settings import ContractError, SettingError, mismatch, number
from ..core.typed import show, suggest
from . import run as runs

SCHEMA = "$schema"  # a key for editors, which the reader passes over
MOST = 1 << 24  # bytes of a recipe
DATA_KEYS = ("data", "tokenizer", "pair")  # settings of the data that are keys of their own


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """`model` is the task's usual one where none is named, `params` solves its width for so many parameters.

    `data`, `tokenizer` and `pair` say what is read; `settings` are all others, of the data, the task, the model and
    the training.
    """

    task: str
    about: str = ""
    data: tuple[str, ...] = ()
    tokenizer: str | None = None
    pair: str | None = None
    model: str | None = None
    params: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def data_settings(self) -> dict[str, Any]:
        """The settings of the data that it names."""
        own = {name: getattr(self, name) for name in DATA_KEYS}
        return {name: value for name, value in own.items() if value}


class Declared(NamedTuple):
    """A setting where it is declared: the dataclass, its field, and the field's type."""

    home: type
    field: Field[Any]
    hint: Any


def keys_of(task: runs.Kind) -> list[str]:
    """The keys that a recipe of a task may have."""
    names = {own.name for own in fields(task.data_config)}
    return [own.name for own in fields(Recipe) if own.name not in DATA_KEYS or own.name in names]


def settings_of(task: runs.Kind, model: str) -> dict[str, Declared]:
    """The settings that a recipe of a task and model may have. What the data decide, and the model's name, are none."""
    unused, seen, found = task.unused_settings(model), set(), {}
    for home, kind in runs.setting_homes(task, model).items():
        hints = get_type_hints(kind)
        for own in fields(kind):
            decided = own.default is MISSING and own.default_factory is MISSING
            nested = home == "model" and own.name in ("model", "layer")
            if not (own.name in seen or own.name in unused or decided or nested):
                found[own.name] = Declared(kind, own, hints[own.name])
            seen.add(own.name)
    return found


def read_recipe(path: str | Path, task: str | None = None) -> Recipe:
    """The recipe in a file, checked against the settings of its task and model; with `task` any other is refused."""
    content = _read_object(path)
    if "task" not in content:
        raise SettingError(f"{path}: expected the key task, which says what is trained, found none")
    name = content["task"]
    _check_type(path, "task", isinstance(name, str), "a string", name)
    if task is not None and name != task:
        raise SettingError(f"{path}: expected a recipe of the task {task}, found one of {name}")
    try:
        kind = tasks.find(name)
    except ContractError as error:
        raise SettingError(f"{path}: task: {error}") from None
    for key in content:
        if key not in keys_of(kind):
            raise SettingError(f"{path}: {key}: expected no such key in a recipe of {name}, found it; leave it out")
    for key in ("about", "tokenizer", "pair", "model"):
        _check_type(path, key, isinstance(content.get(key, ""), str), "a string", content.get(key))
    data, settings = content.get("data", []), content.get("settings", {})
    is_list = isinstance(data, list) and all(isinstance(part, str) for part in data)
    _check_type(path, "data", is_list, "a list of strings", data)
    _check_type(path, "settings", isinstance(settings, dict), "an object", settings)
    if "params" in content:
        content["params"] = _read_params(path, content["params"])
    model = content.get("model", kind.default)
    try:
        model = kind.check_model(model)
    except ContractError as error:
        raise SettingError(f"{path}: model: {error}") from None
    settings = _read_settings(path, kind, model, settings)
    recipe = Recipe(**content | {"data": tuple(data), "settings": settings})
    try:
        runs.configure(kind, recipe.settings, model=model, **recipe.data_settings())
    except (ContractError, SettingError) as error:
        raise SettingError(f"{path}: {error}") from None
    return recipe


def _read_object(path: str | Path) -> dict[str, Any]:
    """The keys and values of the file; one that no recipe has is refused."""
    try:
        content = json.loads(read_file(path, MOST).decode("utf-8"), parse_constant=_refuse_constant)
    except FileError as error:
        raise SettingError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise SettingError(f"{path}: expected a recipe in JSON, found something else ({error})") from error
    if not isinstance(content, dict):
        raise SettingError(f"{path}: expected a recipe, an object with the key task, found {show(content)}")
    content.pop(SCHEMA, None)
    allowed = [own.name for own in fields(Recipe)]
    for key in content:
        if key not in allowed:
            raise SettingError(f"{path}: {key}: expected a key of a recipe, found another{suggest(key, allowed)}")
    return content


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _read_params(path: str | Path, value: Any) -> str:
    """A number of parameters, as text."""
    try:
        size = number(value) if isinstance(value, str) else typed.read(value, int)
    except (SettingError, typed.TypeMismatch):
        size = 0
    if size < 1:
        raise SettingError(f'{path}: params: expected a number such as 500000, "10k" or "1M", found {show(value)}')
    return value if isinstance(value, str) else str(size)


def _read_settings(path: str | Path, task: runs.Kind, model: str, values: dict[str, Any]) -> dict[str, Any]:
    """The settings with the types that their dataclasses declare."""
    declared, found = settings_of(task, model), {}
    for name, value in values.items():
        where = f"{path}: settings.{name}"
        if name not in declared:
            others = [other for other in task.models if name in settings_of(task, other)]
            if others:
                raise SettingError(
                    f"{where}: expected a setting of {model}, found one of {', '.join(others)}; leave it out, or name "
                    "that model"
                )
            known = f"a setting of {task.name} with {model}"
            raise SettingError(f"{where}: expected {known}, found another{suggest(name, declared)}")
        own = declared[name]
        try:
            found[name] = typed.read(value, own.hint, where)
        except typed.TypeMismatch as error:
            raise SettingError(str(error)) from None
        if expected := mismatch(own.field, own.hint, found[name]):
            raise SettingError(f"{where}: expected {expected}, found {show(value)}")
    return found


def _check_type(path: str | Path, key: str, is_right: bool, expected: str, value: Any) -> None:
    if not is_right:
        raise SettingError(f"{path}: {key}: expected {expected}, found {show(value)}")
