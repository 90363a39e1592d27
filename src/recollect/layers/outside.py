"""Layers from outside the package: the files named by RECOLLECT_LAYERS, each with the Config of one layer.

A layer has the name of its file: `ema.py` is the layer `ema`. Only files that the user names there are ever run; a run
folder names its layer, not the file.
"""

import os
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

from ..core.contract import ContractError

VARIABLE = "RECOLLECT_LAYERS"


def found() -> Iterator[tuple[str, Any]]:
    """Name and Config of each layer; several files are separated as in PATH."""
    for place in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        module = load(Path(place))
        if not hasattr(module, "Config"):
            raise ContractError(f"{VARIABLE}: expected the Config of a layer in {place}, found none")
        yield Path(place).stem.replace("_", "-"), module.Config


def load(path: Path) -> ModuleType:
    """A file as a module."""
    name = f"recollect_layer_{path.stem}"
    spec = util.spec_from_file_location(name, path) if path.suffix == ".py" and path.is_file() else None
    if spec is None or spec.loader is None:
        raise ContractError(f"{VARIABLE}: expected Python files with {os.pathsep!r} between, found none at {path}")
    module = util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and cards ask for the module of a class
    spec.loader.exec_module(module)
    return module
