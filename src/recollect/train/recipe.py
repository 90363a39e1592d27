"""Recipes: runs worth repeating, as JSON files. A recipe names its task; every other key is optional."""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..core.settings import SettingError


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The keys of a recipe; `settings` holds what --set would."""

    task: str
    about: str = ""
    data: tuple[str, ...] = ()
    tokenizer: str | None = None
    pair: str | None = None
    model: str | None = None
    params: str | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def data_settings(self) -> dict[str, Any]:
        """The settings of the data that it names."""
        own = {"data": self.data, "tokenizer": self.tokenizer, "pair": self.pair}
        return {name: value for name, value in own.items() if value}


def read_recipe(path: str | Path, task: str | None = None) -> Recipe:
    """The recipe in a file; with `task` one of another task is refused."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise SettingError(f"{path}: expected a recipe in JSON, found something else ({error})") from error
    allowed = {f.name for f in fields(Recipe)}
    if not isinstance(content, dict) or set(content) - allowed:
        raise SettingError(f"{path}: expected a recipe with {', '.join(sorted(allowed))}, found other keys")
    for name, value in content.items():
        kind = {"data": list, "settings": dict}.get(name, str)
        if not isinstance(value, kind):
            raise SettingError(f"{path}: expected {name} to be a {kind.__name__}, found {value!r}")
    if "task" not in content:
        raise SettingError(f"{path}: expected the key task, which says what is trained, found none")
    if task is not None and content["task"] != task:
        raise SettingError(f"{path}: expected a recipe of the task {task}, found one of {content['task']}")
    settings = {name: str(value) for name, value in content.pop("settings", {}).items()}
    return Recipe(**content | {"data": tuple(map(str, content.get("data", ()))), "settings": settings})
