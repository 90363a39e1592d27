"""Artifacts: files of a run folder with what a model needs of its data, such as a tokenizer or names of classes."""

import json
from pathlib import Path
from typing import Any

from .errors import RunError
from .files import FileError, read_json, write_aside


def write_artifact(folder: Path, name: str, content: Any, indent: int | None = None) -> None:
    """Write JSON to a file of a run folder."""
    write_aside(folder / name, (json.dumps(content, indent=indent, ensure_ascii=False) + "\n").encode())


def artifact_path(folder: Path, name: str) -> Path:
    """A file that a run folder must hold."""
    path = folder / name
    if not path.exists():
        raise RunError(f"{path}: expected this file in the run folder, found none")
    return path


def read_artifact(folder: Path, name: str) -> Any:
    """The JSON of a file that a run folder must hold."""
    path = artifact_path(folder, name)
    try:
        return read_json(path)
    except FileError as error:
        raise RunError(str(error)) from error
