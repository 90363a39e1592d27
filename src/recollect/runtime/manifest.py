"""manifest.json of an exported folder: its graphs, the fields of the state, and the digest of every file.

A folder is believed only as far as its digests go: a file that was altered is refused before it is used, and so is a
manifest whose own digest is not that of its content.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..core import typed
from ..core.files import FileError, open_regular, read_json
from ..core.settings import at_least
from ..core.typed import show

FILE = "manifest.json"
FORMAT = 1
SEAL = "sha256"  # of the manifest itself
NEXT = "next."  # before the name of a field among the outputs
DTYPES = {"float32": 4, "float16": 2, "float64": 8, "int64": 8, "int32": 4, "bool": 1}  # bytes of each


class ExportError(FileError):
    """An exported folder or file that cannot be used; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """An input or output of a graph; the sizes of free axes are their names."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, kw_only=True)
class StateField(Tensor):
    """A tensor of the state: the input of that name, and the output of that name after `next.` unless it is constant.

    `order` gives the axes of the state's tensor as they lie in `shape`. A field that `grows` has an axis `capacity`,
    whose slots fill in order, up to `most`. `start` says what it begins with: zeros, the row of start.safetensors, or
    what the graph `encode` leaves.
    """

    order: tuple[int, ...]
    grows: bool
    constant: bool
    start: Literal["zeros", "file", "encode"]
    most: int | None = None

    @property
    def slot_axis(self) -> int:
        return self.shape.index("capacity")

    def limit_slots(self, slots: int) -> int:
        return slots if self.most is None else min(slots, self.most)


@dataclass(frozen=True, kw_only=True)
class GraphFile:
    """One ONNX file."""

    file: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far the files were from the model's own call before they were written."""

    steps: int = at_least(0, default=0)
    batches: tuple[int, ...]
    inputs: tuple[str, ...] = ("random",)  # and "real": rows of the run's own data
    largest_error: float  # relative to the largest output


@dataclass(frozen=True, kw_only=True)
class Quality:
    """What rounded weights cost, by the model as it was trained and by the files."""

    measure: str
    before: float
    after: float
    tokens: int = at_least(0, default=0)  # that were predicted for it
    split: str | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of manifest.json."""

    format: int = FORMAT
    recollect: str
    task: str
    model: str
    precision: str
    opset: int
    weights: str  # sha256 of the weights that the graphs were made from
    limit: int | None = None  # of steps, where positions end
    graphs: dict[str, GraphFile]
    state: tuple[StateField, ...] = ()
    files: dict[str, str] = field(default_factory=dict)  # name → sha256
    agreement: Agreement
    quality: Quality | None = None  # None: the weights are as they were trained
    versions: dict[str, str] = field(default_factory=dict)
    parameters: int = at_least(0, default=0)
    settings: dict[str, Any] = field(default_factory=dict)  # what the task needs beside the graphs

    def to_json(self) -> str:
        return json.dumps(seal(asdict(self)), indent=2, ensure_ascii=False)


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a manifest with its own sha256, over all the rest as canonical JSON."""
    rest = {name: value for name, value in content.items() if name != SEAL}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return rest | {SEAL: hashlib.sha256(canonical.encode()).hexdigest()}


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, checked against its declaration."""
    path = folder / FILE
    try:
        content = read_json(path, most=1 << 24)
    except FileNotFoundError:
        raise ExportError(f"{folder}: expected an exported folder ({FILE}), found none") from None
    if isinstance(content, dict) and content.get("format") != FORMAT:
        raise ExportError(f"{path}: expected format {FORMAT}, found {show(content.get('format'))}")
    try:
        sealed = seal(content)[SEAL] if isinstance(content, dict) else None
    except RecursionError:
        raise ExportError(f"{path}: expected the manifest of an export, found values nested too deeply") from None
    if isinstance(content, dict) and content.pop(SEAL, None) != sealed:
        raise ExportError(f"{path}: expected the manifest that was exported, found an altered one; export again")
    try:
        manifest = typed.read(content, Manifest)
    except ValueError as error:
        raise ExportError(f"{path}: expected the manifest of an export, found something else ({error})") from None
    for graph in manifest.graphs.values():
        for tensor in (*graph.inputs, *graph.outputs):
            _check_tensor(tensor, path)
    for own in manifest.state:
        _check_tensor(own, path)
        if sorted(own.order) != list(range(len(own.shape))):
            raise ExportError(f"{path}: expected an order of the axes of {show(own.name)}, found {show(own.order)}")
        if own.grows != ("capacity" in own.shape):
            raise ExportError(
                f"{path}: expected an axis 'capacity' where {show(own.name)} grows, found {show(own.shape)}"
            )
    if "step" in manifest.graphs:
        _check_step(manifest, path)
    return manifest


def _check_step(manifest: Manifest, path: Path) -> None:
    """Refuse a state that is not what the step takes beside its x, and gives beside its y."""
    step = manifest.graphs["step"]
    names = [own.name for own in manifest.state]
    if not step.inputs or not step.outputs or [own.name for own in step.inputs[1:]] != names:
        raise ExportError(f"{path}: expected a step that takes x and in turn the fields of the state, found another")
    outputs = {own.name: own for own in step.outputs[1:]}
    for own, given in zip(manifest.state, step.inputs[1:], strict=True):
        left = given if own.constant else outputs.get(NEXT + own.name)
        if left is None or any((each.dtype, each.shape) != (own.dtype, own.shape) for each in (given, left)):
            raise ExportError(
                f"{path}: expected a step that takes and leaves {show(own.name)} as {own.dtype} of {show(own.shape)}, "
                "found another"
            )


def _check_tensor(tensor: Tensor, path: Path) -> None:
    if tensor.dtype not in DTYPES:
        raise ExportError(f"{path}: expected a dtype out of {', '.join(DTYPES)}, found {show(tensor.dtype)}")
    if any(isinstance(size, int) and size < 0 for size in tensor.shape):
        raise ExportError(f"{path}: expected sizes of at least 0 in {show(tensor.name)}, found {show(tensor.shape)}")


def digest(path: str | os.PathLike[str]) -> str:
    """The sha256 of a regular file."""
    found = hashlib.sha256()
    with open_regular(path) as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()


def check_file(folder: Path, manifest: Manifest, name: str) -> Path:
    """The path of a file of an export, if it is still the file that was exported."""
    path = folder / name
    if name not in manifest.files or os.path.basename(name) != name:
        raise ExportError(f"{folder / FILE}: expected the digest of {show(name)}, found none")
    try:
        found = digest(path)
    except FileNotFoundError:
        raise ExportError(f"{path}: expected a file of the export, found none; export again") from None
    if found != manifest.files[name]:
        raise ExportError(f"{path}: expected the file that was exported, found an altered one; export again")
    return path
