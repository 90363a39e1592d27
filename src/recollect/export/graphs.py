"""Graphs of ONNX made from models: one step, a chunk, or what an encoder leaves, with the fields of the state by name.

A graph's inputs and outputs are plain tensors. Those of a state are called as `core.state.named` calls them, such as
`2.keys`; what comes out has `next.` before its name. What never changes while decoding goes in and does not come out.
Tensors are in the order in which a state keeps them in memory on a CPU, so that a runtime can bind that memory.
"""

import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..core import state as states
from ..core.contract import ContractError, Memory
from ..core.exported import Inputs
from ..kernels import onnx

NEXT = "next."  # before the name of a state's field that comes out
ROWS, SLOTS = 2, 7  # of the example that is traced; both are free in the graph
LARGEST = 1 << 30  # of a free axis
LARGEST_CAPACITY = 1 << 24
Draw = Callable[[int, torch.Generator], dict[str, Tensor]]


@dataclass(frozen=True)
class Value:
    """An input or output: its name, an example, and the names of its free axes."""

    name: str
    example: Tensor
    axes: Mapping[int, str] = field(default_factory=dict)

    @property
    def shape(self) -> list[int | str]:
        """Sizes, with names for the free ones."""
        return [self.axes.get(at, size) for at, size in enumerate(self.example.shape)]


@dataclass(frozen=True)
class Graph:
    """A graph that can be made: a module over plain tensors, its inputs, and the names of its outputs."""

    name: str
    module: nn.Module
    inputs: Sequence[Value]
    outputs: Sequence[str]
    least: Mapping[str, int] = field(default_factory=dict)  # the smallest size of a free axis, where it is not 1
    draw: Draw | None = None  # other examples of the inputs, by name, of graphs over whole inputs


@dataclass(frozen=True)
class Field:
    """A tensor of a state as a graph has it: transposed into the order of its memory, with its free axes."""

    name: str
    order: tuple[int, ...]  # axes of the state's tensor, as they lie in memory
    shape: list[int | str]  # in that order
    dtype: torch.dtype
    grows: bool  # whether an axis of it is as long as the capacity
    most: int | None  # slots that it grows to, where that is bounded
    constant: bool
    first: Tensor | None  # its first value, of one row, where that is other than zeros and no encoder decides it
    encoded: bool  # whether its first value depends on what an encoder leaves

    def lay_out(self, tensor: Tensor) -> Tensor:
        """The state's tensor with its axes as they lie in memory."""
        return tensor.permute(self.order).contiguous()

    def restore(self, tensor: Tensor) -> Tensor:
        """The tensor of a graph with its axes as the state has them."""
        return tensor.permute([self.order.index(axis) for axis in range(tensor.dim())])


def list_fields(model: Any, memory: Memory | None = None) -> list[Field]:
    """The tensors of a model's state. What differs between states of different rows, capacity or source is free."""
    with torch.no_grad():
        first = model.initial_state(ROWS, memory=memory, capacity=SLOTS)
        more = dict(states.named(model.initial_state(ROWS, memory=memory, capacity=SLOTS + 1)))
        largest = dict(states.named(measure_largest(model, memory)))
        other = first if memory is None else model.initial_state(ROWS, memory=disturb(memory), capacity=SLOTS)
        constants = set(name_constants(first))
        wider = None if memory is None else model.initial_state(ROWS, memory=lengthen(memory), capacity=SLOTS)
        wide = {} if wider is None else dict(states.named(wider))
    found = []
    for (name, tensor), changed in zip(states.named(first), states.leaves(other), strict=True):
        order = tuple(sorted(range(tensor.dim()), key=lambda axis: (-tensor.stride(axis), axis)))
        grown = [axis for axis, size in enumerate(tensor.shape) if more[name].shape[axis] != size]
        axes: dict[int, str] = {0: "batch"} | dict.fromkeys(grown, "capacity")
        if name in wide and wide[name].shape != tensor.shape:
            axes[1] = "source"
        most = largest[name].shape[grown[0]] if grown else None
        encoded = not torch.equal(tensor, changed)
        found.append(
            Field(
                name=name,
                order=order,
                shape=[axes.get(axis, tensor.shape[axis]) for axis in order],
                dtype=tensor.dtype,
                grows=bool(grown),
                most=None if most == LARGEST_CAPACITY else most,
                constant=name in constants,
                first=None if encoded or not tensor.any() else tensor[:1].detach().clone(),
                encoded=encoded,
            )
        )
    return found


def measure_largest(model: Any, memory: Memory | None) -> Any:
    """The state with as much room as anybody could want, without its memory: what is bounded stays below it."""
    with torch.device("meta"):
        ghost = copy.deepcopy(model).to("meta")
        source = None if memory is None else states.move(memory, device="meta")
        return ghost.initial_state(ROWS, memory=source, capacity=LARGEST_CAPACITY)


def disturb(memory: Memory) -> Memory:
    """Another memory of the same shape: what it changes in a first state comes from the encoder."""
    valid = memory.valid.clone()
    valid[:, -1] = ~valid[:, -1]
    summary = states.map(lambda part: part + 1 if part.is_floating_point() else part, memory.summary)
    return memory._replace(values=memory.values + 1, valid=valid, summary=summary)


def lengthen(memory: Memory) -> Memory:
    """The memory of a source with one more place, to find the axes that are as long as the source."""
    values, valid = (torch.cat([part, part[:, -1:]], dim=1) for part in (memory.values, memory.valid))
    return memory._replace(values=values, valid=valid)


def name_axes(shape: Sequence[int | str]) -> dict[int, str]:
    """The free axes of a shape."""
    return {at: size for at, size in enumerate(shape) if isinstance(size, str)}


def name_constants(state: Any, prefix: str = "", fixed: bool = False) -> Iterator[str]:
    """The names of a state's tensors that never change while decoding."""
    if isinstance(state, Tensor):
        if fixed:
            yield prefix
    elif isinstance(state, tuple):
        names = getattr(state, "_fields", [str(i) for i in range(len(state))])
        for name, part in zip(names, state, strict=True):
            inside = fixed or name in getattr(state, "constant", ())
            yield from name_constants(part, f"{prefix}.{name}" if prefix else name, inside)


class Call(nn.Module):
    """A model's call over plain tensors: x and the fields of the state in, y and the changed fields out."""

    def __init__(self, model: Any, like: Any, fields: Sequence[Field], *, one: bool) -> None:
        super().__init__()
        self.model, self.state_like, self.fields, self.one = model, like, fields, one

    def forward(self, x: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        given = iter([own.restore(part) for own, part in zip(self.fields, parts, strict=True)])
        y, after = self.model(x[:, None] if self.one else x, states.map(lambda _: next(given), self.state_like))
        changed = [
            own.lay_out(part) for own, part in zip(self.fields, states.leaves(after), strict=True) if not own.constant
        ]
        return (y[:, 0] if self.one else y, *changed)


def call_graph(
    name: str, model: Any, x: Value, y: str, memory: Memory | None = None, *, one: bool = True
) -> tuple[Graph, list[Field]]:
    """The graph of a model's call: of one step (x without an axis of time), or of a chunk of at least two."""
    fields = list_fields(model, memory)
    with torch.no_grad():
        like = model.initial_state(ROWS, memory=memory, capacity=SLOTS)
    inputs = [
        Value(own.name, own.lay_out(tensor.detach()), name_axes(own.shape))
        for own, tensor in zip(fields, states.leaves(like), strict=True)
    ]
    outputs = [y, *(NEXT + own.name for own in fields if not own.constant)]
    graph = Graph(name, Call(model, like, fields, one=one), [x, *inputs], outputs, {} if one else {"time": 2})
    return graph, fields


class Encode(nn.Module):
    """What an encoder leaves: the fields of a decoder's first state that depend on the source."""

    def __init__(self, model: Any, fields: Sequence[Field]) -> None:
        super().__init__()
        self.model, self.fields = model, fields

    def forward(self, *source: Tensor) -> tuple[Tensor, ...]:
        memory = self.model.encode(*source)
        state = self.model.initial_state(source[0].shape[0], memory=memory, capacity=SLOTS)
        made = zip(self.fields, states.leaves(state), strict=True)
        return tuple(own.lay_out(tensor) for own, tensor in made if own.encoded)


def whole_graph(name: str, module: nn.Module, inputs: Inputs, outputs: Sequence[str]) -> Graph:
    """The graph of a module over whole inputs."""
    examples = inputs.draw(ROWS, torch.Generator().manual_seed(0))
    values = [Value(own, tensor, inputs.axes[own]) for own, tensor in examples.items()]
    return Graph(name, module, values, outputs, inputs.least, inputs.draw)


@torch.no_grad()
def trace(graph: Graph) -> bytes:
    """The graph as an ONNX file, its weights inside. A module that cannot be traced raises a ContractError."""
    free = {name for value in graph.inputs for name in value.axes.values()}
    dims = {name: torch.export.Dim(name, min=graph.least.get(name, 1), max=LARGEST) for name in free}
    shapes = [{at: dims[name] for at, name in value.axes.items()} for value in graph.inputs]
    try:
        with quietly(), onnx.exporting():
            # traced here, since torch.onnx.export would try weaker ways after the first failed, which fix free axes
            traced = torch.export.export(
                graph.module.eval(),
                tuple(value.example for value in graph.inputs),
                dynamic_shapes=tuple(_nest(graph.module, shapes)),
                strict=False,
            )
            program = torch.onnx.export(
                traced,
                dynamo=True,
                verbose=False,
                opset_version=onnx.OPSET,
                input_names=[value.name for value in graph.inputs],
            )
    except ContractError:
        raise
    except Exception as error:  # the exporter's own errors have no common class
        reason = " ".join(str(error).split())
        raise ContractError(f"export: expected a graph of {graph.name!r}, found none ({reason[:300]})") from error
    assert program is not None
    proto = program.model_proto
    rename_values(proto.graph, dict(zip([value.name for value in proto.graph.output], graph.outputs, strict=True)))
    names = {}
    for value, declared in zip(proto.graph.input, graph.inputs, strict=True):
        sizes = value.type.tensor_type.shape.dim
        fixed = [name for at, name in declared.axes.items() if not sizes[at].dim_param]
        if fixed:
            raise ContractError(f"export: expected a graph of {graph.name!r} for any {fixed[0]}, found one size alone")
        names |= {sizes[at].dim_param: name for at, name in declared.axes.items()}
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param:
                size.dim_param = names.get(size.dim_param, size.dim_param)
    clear_notes(proto)
    return proto.SerializeToString()


def clear_notes(proto: Any) -> None:
    """Leave out the source lines that the exporter notes beside each value, with the folders of this machine."""
    del proto.metadata_props[:]
    for function in proto.functions:
        _clear_notes(function, (*function.value_info,))
    _clear_notes(
        proto.graph, (*proto.graph.input, *proto.graph.output, *proto.graph.value_info, *proto.graph.initializer)
    )


def _clear_notes(graph: Any, values: tuple[Any, ...]) -> None:
    for part in (graph, *graph.node, *values):
        del part.metadata_props[:]
        part.doc_string = ""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                own = attribute.g
                _clear_notes(own, (*own.input, *own.output, *own.value_info, *own.initializer))


def rename_values(graph: Any, names: Mapping[str, str]) -> None:
    """Other names for values of a graph of ONNX; a value that has a new name already makes room for it."""
    taken = {name for node in graph.node for name in node.output} & set(names.values()) - set(names)
    names = {name: f"inner.{name}" for name in taken} | dict(names)
    for value in (*graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [names.get(name, name) for name in side]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename_values(attribute.g, names)


def _nest(module: nn.Module, shapes: list[Any]) -> list[Any]:
    """Free axes as the exporter wants them: those of *parts in one tuple."""
    if isinstance(module, Call):
        return [shapes[0], tuple(shapes[1:])]
    return [tuple(shapes)] if isinstance(module, Encode) else shapes


@contextmanager
def quietly() -> Iterator[None]:
    """Without the exporter's remarks on its own progress."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
