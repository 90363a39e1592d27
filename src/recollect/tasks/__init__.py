"""The registry of tasks: one folder each, one line here, and the folders that RECOLLECT_TASKS names.

A folder holds `task.py` with its classes in `TASKS`, and where it has them `settings.py` (no torch: the command line
is made from it), `heat.py` (how it is raced) and `instruments.py` (ways of looking inside its runs). Its `__init__.py`
names the tasks, where that is not the folder's own name. Nothing is imported before it is asked for.
"""

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module, util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..core.settings import ContractError, SettingError, known

if TYPE_CHECKING:
    from ..core.task import Task

FOLDERS = (
    "text",
    "translation",
    "series",
    "captions",
    "labels",
    "ratings",
    "memory",
)
VARIABLE = "RECOLLECT_TASKS"


@cache
def folders() -> dict[str, ModuleType]:
    """Every task folder as a package, by its name."""
    found = {name: import_module(f"{__name__}.{name}") for name in FOLDERS}
    for place in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        path = Path(place)
        if path.name in found:
            raise SettingError(f"{VARIABLE}: expected a name of your own, found {path.name!r}, which is taken")
        found[path.name] = _load_outside(path)
    return found


def _load_outside(path: Path) -> ModuleType:
    """A folder outside the package as one of its packages. Only what the user names there is ever run."""
    name, file = f"{__name__}.{path.name}", path / "__init__.py"
    if not (path / "task.py").is_file() or not path.name.isidentifier():
        raise SettingError(f"{VARIABLE}: expected folders with a task.py, {os.pathsep!r} between, found none at {path}")
    origin = file if file.is_file() else None
    spec = util.spec_from_file_location(name, origin or path / "task.py", submodule_search_locations=[str(path)])
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    if origin is not None:
        spec.loader.exec_module(module)
    return module


def names() -> list[str]:
    """Every task by the name that commands know it by."""
    return [name for folder, module in folders().items() for name in getattr(module, "NAMES", (folder,))]


def folder_of(name: str) -> str:
    """The folder of a task that is registered."""
    return next(folder for folder, module in folders().items() if name in getattr(module, "NAMES", (folder,)))


def find(name: str) -> "type[Task[Any, Any]]":
    """The task of that name, or a line that says which there are."""
    known("task", name, names())
    folder = folder_of(name)
    module = _submodule(folder, "task")
    found = next((task for task in getattr(module, "TASKS", ()) if task.name == name), None)
    if found is None:
        raise ContractError(f"{folder}/task.py: expected the task {name!r} in TASKS, found none")
    return found


def every() -> "list[type[Task[Any, Any]]]":
    """All tasks."""
    return [find(name) for name in names()]


def declared(submodule: str, attribute: str) -> Iterator[tuple[str, Any]]:
    """What the folders that have such a file declare there: folder and value, in the order of the registry."""
    for folder in folders():
        module = _submodule(folder, submodule)
        if module is not None and hasattr(module, attribute):
            yield folder, getattr(module, attribute)


def _submodule(folder: str, name: str) -> ModuleType | None:
    package = folders()[folder]
    return import_module(f"{package.__name__}.{name}") if util.find_spec(f"{package.__name__}.{name}") else None
