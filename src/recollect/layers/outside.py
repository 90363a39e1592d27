"""Layers from outside the package: the files named by RECOLLECT_LAYERS, each with the Config of one layer.

A layer has the name of its file: `ema.py` is the layer `ema`. Only files that the user names there are ever run; a run
folder names its layer, not the file.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ..core.outside import OutsideError, load_module

VARIABLE = "RECOLLECT_LAYERS"
BROKEN: dict[str, OutsideError] = {}  # layers whose file cannot be used: an error only where they are asked for


def register(add: Callable[[str, Any], None]) -> None:
    """Call `add` with name and Config of each layer; a file that cannot be used is noted in BROKEN."""
    names: set[str] = set()
    for name, place in files():
        try:
            if name in names:
                raise OutsideError(f"{VARIABLE}: expected files of different names, found a second {place.name}")
            names.add(name)
            add(name, read_config(place))
        except OutsideError as error:
            BROKEN[name] = error
        except ValueError as error:  # a name that is taken, or no Config
            BROKEN[name] = OutsideError(f"{VARIABLE}: {place.name}: {error}")


def files() -> Iterator[tuple[str, Path]]:
    """Name and file of each layer; several files are separated as in PATH."""
    for place in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        yield Path(place).stem.replace("_", "-"), Path(place)


def read_config(path: Path) -> Any:
    """The Config of the layer in a file."""
    module = load(path)
    if not hasattr(module, "Config"):
        raise OutsideError(f"{VARIABLE}: expected the Config of a layer in {path}, found none")
    return module.Config


def load(path: Path) -> ModuleType:
    """A file as a module."""
    if path.suffix != ".py" or not path.is_file():
        raise OutsideError(f"{VARIABLE}: expected Python files with {os.pathsep!r} between, found none at {path}")
    return load_module(f"recollect_layer_{path.stem}", path, VARIABLE)


def check_usable(name: str) -> None:
    """Refuse a layer whose file cannot be used, with the reason."""
    if name in BROKEN:
        raise BROKEN[name].with_traceback(None)
