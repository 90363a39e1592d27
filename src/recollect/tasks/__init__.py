"""The registry of tasks: one folder each, one line here, and the folders that RECOLLECT_TASKS names.

A folder holds `task.py` with its classes in `TASKS`, and where it has them `settings.py` (no torch: the command line
is made from it), `heat.py` (how it is raced) and `instruments.py` (ways of looking inside its runs). Its `__init__.py`
names the tasks, where that is not the folder's own name. Nothing is imported before it is asked for.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import cache
from importlib import import_module, util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..core.outside import OutsideError, errors_named, load_module
from ..core.settings import known

if TYPE_CHECKING:
    from ..core.task import Task
    from ..core.trained import TrainedModel

FOLDERS = (
    "text",
    "translation",
    "series",
    "captions",
    "labels",
    "ratings",
    "transcribe",
    "memory",
)
VARIABLE = "RECOLLECT_TASKS"
BROKEN: dict[str, OutsideError] = {}  # folders that cannot be used: an error only where their task is asked for


@cache
def folders() -> dict[str, ModuleType]:
    """Every task folder as a package, by its name."""
    found = {name: import_module(f"{__name__}.{name}") for name in FOLDERS}
    for place in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        path = Path(place)
        if path.name in found:
            BROKEN[place] = OutsideError(
                f"{VARIABLE}: expected a name of your own, found {path.name!r}, which is taken"
            )
            continue
        try:
            found[path.name] = _load_outside(path)
        except OutsideError as error:
            BROKEN[path.name] = error
    return found


def _load_outside(path: Path) -> ModuleType:
    """A folder outside the package as one of its packages. Only what the user names there is ever run."""
    if not (path / "task.py").is_file() or not path.name.isidentifier():
        raise OutsideError(f"{VARIABLE}: expected folders with a task.py, {os.pathsep!r} between, found none at {path}")
    return load_module(f"{__name__}.{path.name}", path, VARIABLE)


def names() -> list[str]:
    """Every task by the name that commands know it by."""
    return [name for folder in folders() if folder not in BROKEN for name in _names_of(folder)]


def _names_of(folder: str) -> Sequence[str]:
    return getattr(folders()[folder], "NAMES", (folder,))


def folder_of(name: str) -> str:
    """The folder of a task that is registered."""
    return next(folder for folder in folders() if name in _names_of(folder))


def find(name: str) -> "type[Task[Any, Any]]":
    """The task of that name, or a line that says which there are."""
    if name not in names():
        folder = next((own for own in BROKEN if name == own or (own in folders() and name in _names_of(own))), None)
        if folder is not None:
            raise BROKEN[folder].with_traceback(None)
    folder = folder_of(known("task", name, names()))
    module = _submodule(folder, "task")
    found = next((task for task in getattr(module, "TASKS", ()) if task.name == name), None)
    if found is None:
        raise OutsideError(f"{folder}/task.py: expected the task {name!r} in TASKS, found none")
    return found


def find_use(name: str) -> "type[TrainedModel]":
    """The class of a task's trained models for use from Python: `MODELS` in its use.py; no torch is imported."""
    from ..core.trained import TrainedModel

    module = _submodule(folder_of(known("task", name, names())), "use")
    return getattr(module, "MODELS", {}).get(name, TrainedModel)


def every() -> "list[type[Task[Any, Any]]]":
    """All tasks that can be used."""
    found = []
    for name in names():
        with suppress(OutsideError):  # noted in BROKEN
            found.append(find(name))
    return found


def declared(submodule: str, attribute: str) -> Iterator[tuple[str, Any]]:
    """What the folders that have such a file declare there: folder and value, in the order of the registry."""
    for folder in folders():
        with suppress(OutsideError):  # noted in BROKEN
            module = _submodule(folder, submodule)
            if module is not None and hasattr(module, attribute):
                yield folder, getattr(module, attribute)


def _submodule(folder: str, name: str) -> ModuleType | None:
    package = folders()[folder].__name__
    try:
        with nullcontext() if folder in FOLDERS else errors_named(VARIABLE, folder):
            return import_module(f"{package}.{name}") if util.find_spec(f"{package}.{name}") else None
    except OutsideError as error:
        BROKEN[folder] = error
        raise
