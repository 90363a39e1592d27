"""An exported folder: graphs, the first state, what the task needs beside them, and a manifest with their digests.

Nothing is written before the graphs agreed with the model's own call.
"""

import importlib.metadata
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from .. import __version__
from ..core import state as states
from ..core.contract import ContractError, Memory
from ..core.exported import Inputs, Sample, WholeCall
from ..core.files import sync_folder, write_aside
from ..core.task import LoadedRun, RunError
from ..kernels.onnx import OPSET
from ..layers.position import find_limit
from ..models.size import parameters
from ..runtime import manifest as manifests
from ..runtime.manifest import GraphFile, Manifest, StateField
from . import agreement, readme, weights
from .graphs import Encode, Field, Graph, Value, call_graph, trace, whole_graph
from .scan import scan_rows

VERSIONS = ("torch", "onnx", "onnxscript", "onnxruntime")


class Exported:
    """Graphs of a run in memory, before they are written."""

    def __init__(self, run: LoadedRun[Any, Any]) -> None:
        self.run = run
        self.model: nn.Module = run.model.float()
        self.fields: list[Field] = []
        self.graphs: dict[str, tuple[Graph, bytes]] = {}
        self.source: Inputs | None = run.kind.exports.source(run)
        self.steps: tuple[Any, Tensor] | None = None  # the module that goes step by step, and an input for it

    def add_step(self, *, chunk: bool = False) -> None:
        """The step, and with `chunk` a whole chunk where the layers allow one of any length."""
        module, x, memory = self.run.kind.law_example(self.model, self.run.artifacts)
        x = x.float() if x.is_floating_point() else x
        self.steps = module, x
        name = "x" if x.is_floating_point() else "tokens"
        few = None if memory is None else states.select(memory, torch.arange(2))
        one = Value(name, x[:2, 0].clone(), {0: "batch"})
        graph, self.fields = call_graph("step", module, one, "y", few)
        self.graphs["step"] = graph, trace(graph)
        if chunk:
            some = Value(name, x[:2, :5].clone(), {0: "batch", 1: "time"})
            whole, _ = call_graph("chunk", module, some, "y", few, one=False)
            with suppress(ContractError):  # of layers whose computation depends on the number of steps
                self.graphs["chunk"] = whole, trace(whole)

    def add_encoder(self, source: Inputs) -> None:
        """What the decoder's first state has of the source."""
        outputs = [own.name for own in self.fields if own.encoded]
        graph = whole_graph("encode", Encode(self.model, self.fields), source, outputs)
        self.graphs["encode"] = graph, trace(graph)

    def add_call(self, name: str, call: WholeCall) -> None:
        graph = whole_graph(name, call.module, call.inputs, call.outputs)
        try:
            data = trace(graph)
        except ContractError:  # of layers whose computation depends on the number of steps
            if not call.last_step:
                raise
            data = scan_rows(self.graphs["step"][1], self.fields, graph)
        self.graphs[name] = graph, data

    @torch.no_grad()
    def encode(self, source: Mapping[str, Tensor], rows: int) -> Memory | None:
        """What the encoder leaves of the first rows of a source; None without an encoder."""
        if self.source is None:
            return None
        return self.model.encode(*(tensor[:rows] for tensor in source.values()))  # type: ignore[operator]


def export(run: LoadedRun[Any, Any], out: Path, *, whole: bool = True, precision: str = "float32") -> Manifest:
    """Write a run's graphs into the new folder `out`; with `whole=False` the step alone, beside the weights."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out}: expected a new or empty folder, found files in it; use another --out")
    return write(trace_run(run, whole=whole), out, precision=precision, whole=whole)


def trace_run(run: LoadedRun[Any, Any], *, whole: bool) -> Exported:
    """The graphs of a run's model."""
    if run.config.model["name"] in (*run.kind.counted, *run.kind.combined):
        raise RunError(f"{run.path}: expected a network to export, found {run.config.model['name']}, which is none")
    made = Exported(run)
    if run.kind.exports.has_step(run):
        made.add_step(chunk=whole)
        if made.source is not None and whole:
            made.add_encoder(made.source)
    if whole:
        for name, call in run.kind.exports.calls(run).items():
            made.add_call(name, call)
    return made


def find_sample(run: LoadedRun[Any, Any], rows: int) -> Sample:
    """Rows of a run's own data, or none where they are not at hand."""
    try:
        return run.kind.exports.sample(run, rows)
    except (ValueError, OSError):  # the data lie elsewhere, or changed
        return Sample()


def write(made: Exported, out: Path, *, precision: str, whole: bool) -> Manifest:
    """The folder, once the graphs agreed with the model."""
    out.parent.mkdir(parents=True, exist_ok=True)
    sample = find_sample(made.run, agreement.ROWS) if whole else Sample()
    with TemporaryDirectory(prefix=f".{out.name}.", suffix=".part", dir=out.parent) as temporary:
        place = Path(temporary) / "export"
        content = write_files(made, place, "float32", whole=whole)
        found = agreement.check(made, place, sample)
        if precision != "float32":
            shutil.rmtree(place)
            content = write_files(made, place, precision, whole=whole)
            found = agreement.check(made, place, sample)
            content = replace(content, quality=agreement.measure_quality(made, place, sample, found.largest_error))
        content = replace(content, agreement=found)
        if whole:
            write_aside(place / readme.FILE, readme.describe(content).encode())
            content = replace(content, files=content.files | {readme.FILE: manifests.digest(place / readme.FILE)})
        write_aside(place / manifests.FILE, content.to_json().encode())
        if out.exists():  # an empty folder
            out.rmdir()
        place.rename(out)
    sync_folder(out.parent)
    return content


def write_files(made: Exported, place: Path, precision: str, *, whole: bool) -> Manifest:
    """Every file of the folder but its README, with a manifest that says nothing of agreement yet."""
    place.mkdir()
    content = describe(made, precision, run_settings=whole)
    for name, (_, data) in made.graphs.items():
        write_aside(place / content.graphs[name].file, weights.convert(data, precision))
    write_starts(made, place)
    if whole:
        made.run.kind.save_artifacts(made.run.artifacts, place)
    content = replace(content, files={path.name: manifests.digest(path) for path in sorted(place.iterdir())})
    write_aside(place / manifests.FILE, content.to_json().encode())
    return content


def describe(made: Exported, precision: str, *, run_settings: bool) -> Manifest:
    """The manifest, but for digests and agreement."""
    run = made.run
    return Manifest(
        recollect=__version__,
        task=run.kind.name,
        model=run.config.model["name"],
        precision=precision,
        opset=OPSET,
        weights=weights_digest(run.path),
        limit=find_limit(made.model),
        graphs={name: describe_graph(name, graph, data) for name, (graph, data) in made.graphs.items()},
        state=tuple(describe_field(own) for own in made.fields),
        agreement=manifests.Agreement(steps=0, batches=(), largest_error=0.0),
        versions={name: importlib.metadata.version(name) for name in VERSIONS},
        parameters=parameters(made.model),
        settings=run.kind.exports.settings(run) if run_settings else {},
    )


def weights_digest(folder: Path) -> str:
    """The sha256 of the weights that a run is used with."""
    for name in ("model.safetensors", "checkpoints/best.safetensors"):
        if (folder / name).exists():
            return manifests.digest(folder / name)
    raise RunError(f"{folder}: expected weights (model.safetensors), found none")


def describe_graph(name: str, graph: Graph, data: bytes) -> GraphFile:
    """The inputs and outputs of a graph, as its file has them."""
    import onnx

    proto = onnx.load_from_string(data).graph
    axes = {value.name: value.axes for value in graph.inputs}

    def tensor(value: Any) -> manifests.Tensor:
        kind = value.type.tensor_type
        sizes = [
            axes.get(value.name, {}).get(at, size.dim_param or size.dim_value) for at, size in enumerate(kind.shape.dim)
        ]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        return manifests.Tensor(name=value.name, dtype=str(dtype), shape=tuple(sizes))

    return GraphFile(
        file=f"{name}.onnx",
        inputs=tuple(map(tensor, proto.input)),
        outputs=tuple(map(tensor, proto.output)),
    )


def describe_field(own: Field) -> StateField:
    return StateField(
        name=own.name,
        dtype=str(own.dtype).removeprefix("torch."),
        shape=tuple(own.shape),
        order=own.order,
        grows=own.grows,
        constant=own.constant,
        start="encode" if own.encoded else "zeros" if own.first is None else "file",
        most=own.most,
    )


def write_starts(made: Exported, place: Path) -> None:
    """The fields of the first state that are other than zeros."""
    from safetensors.torch import save

    starts = {own.name: own.lay_out(own.first) for own in made.fields if own.first is not None}
    if starts:
        write_aside(place / "start.safetensors", save(starts))
