"""An exported folder in use: its files checked, its graphs as functions of arrays, its settings by their types."""

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..core import typed
from ..core.typed import show
from .manifest import FILE, ExportError, check_file, read_manifest
from .session import Array, Step, check_session, count_threads, open_session

S = TypeVar("S")


class ExportedFolder:
    """The folder of an export. Nothing of it is used before every file agreed with its digest."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.manifest = read_manifest(self.path)
        self._steps: dict[int | None, Step] = {}  # by their threads

    @cached_property
    def artifacts(self) -> Path:
        """The folder, once all of its files were compared with their digests."""
        for name in self.manifest.files:
            check_file(self.path, self.manifest, name)
        return self.path

    def open_step(self, threads: int | None = None) -> Step | None:
        """The step; None of a model that has none."""
        if "step" in self.manifest.graphs and threads not in self._steps:
            self._steps[threads] = Step.open(self.artifacts, threads=threads)
        return self._steps.get(threads)

    def open_call(self, name: str, outputs: Sequence[str]) -> Callable[..., dict[str, Array]]:
        """A graph over whole inputs that gives such outputs, as a function from arrays by name to arrays by name."""
        graph = self.manifest.graphs.get(name)
        if graph is None or not set(outputs) <= {own.name for own in graph.outputs}:
            found = list(self.manifest.graphs) if graph is None else [own.name for own in graph.outputs]
            raise ExportError(
                f"{self.path / FILE}: expected a graph {name!r} that gives {', '.join(outputs)}, found {show(found)}"
            )
        path = self.artifacts / graph.file
        session = open_session(path, count_threads(self.manifest.parameters))
        check_session(session, graph, path)
        dtypes = {own.name: own.dtype for own in graph.inputs}

        def call(**given: Array) -> dict[str, Array]:
            feeds = {own: np.ascontiguousarray(array, dtypes.get(own)) for own, array in given.items()}
            try:
                return dict(zip(outputs, session.run(list(outputs), feeds), strict=True))
            except Exception as error:  # its errors have no common class
                reason = " ".join(str(error).split())[:200]
                raise ExportError(f"{path}: expected inputs that the graph takes, found others ({reason})") from None

        return call

    def read_settings(self, kind: type[S]) -> S:
        """The settings of the manifest that a dataclass declares, by their types."""
        wanted = {own.name for own in fields(kind)}  # type: ignore[arg-type]
        found: dict[str, Any] = {name: value for name, value in self.manifest.settings.items() if name in wanted}
        try:
            return typed.read(found, kind)
        except ValueError as error:
            raise ExportError(
                f"{self.path / FILE}: expected the settings that its task needs, found others ({error}); export again"
            ) from None
