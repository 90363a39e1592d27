"""Graphs with rounded weights: stored in half, or as int8 with one scale for each block of 32.

Half-precision weights are widened when a session opens, so that they halve the file and nothing else. Matrices of int8
stay so: onnxruntime's MatMulNBits multiplies them with activations that it rounds block by block. Its blocks are those
of one row, so no row of a batch depends on the others, which DynamicQuantizeLinear's one scale for all would cause.
Tables are looked up as int8; what other operators read is widened when a session opens.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST = 256  # entries of what is worth rounding
BLOCK = 32
ROUNDED = (  # operators whose constants are weights of products; those of others, such as norms, stay as they are
    *("Conv", "Einsum", "Gemm", "MatMul"),
    *("RNN", "LSTM", "GRU", "Split", "Slice", "Concat", "Transpose", "Unsqueeze", "Reshape"),
)
Array = NDArray[Any]


def convert(data: bytes, precision: str) -> bytes:
    """A graph with weights of another precision; its inputs and outputs stay as they are."""
    if precision == "float32":
        return data
    import onnx

    model = onnx.load_from_string(data)
    rounding = Rounding(model)
    {"float16": rounding.halve, "int8": rounding.quantize}[precision]()
    return model.SerializeToString()


class Rounding:
    """A model of ONNX whose weights are replaced."""

    def __init__(self, model: Any) -> None:
        from onnx import numpy_helper

        self.model, self.graph = model, model.graph
        self.weights: dict[str, Array] = {}
        for tensor in self.graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.dtype == np.float32 and array.size >= SMALLEST:
                self.weights[tensor.name] = array
        self.before: list[Any] = []  # nodes that come before all others

    def halve(self) -> None:
        """Every weight in half precision, but those with numbers that it lacks."""
        for name, array in self.weights.items():
            with np.errstate(over="ignore"):
                half = array.astype(np.float16)
            if np.isfinite(half).all():
                self.add(f"{name}.half", half)
                self.before.append(make("Cast", [f"{name}.half"], [name], to=1))
                self.drop(name)
        self.finish(list(self.graph.node))

    def quantize(self) -> None:
        """Products and tables with int8 weights."""
        turned = {
            node.output[0]: node.input[0]
            for node in self.graph.node
            if node.op_type == "Transpose" and node.input[0] in self.weights and self.weights[node.input[0]].ndim == 2
        }
        nodes = [new for node in self.graph.node for new in self.replace(node, turned)]
        used = {name for node in nodes for name in names_of(node)} | {value.name for value in self.graph.output}
        nodes = [node for node in nodes if node.op_type != "Transpose" or node.output[0] in used]
        readers: dict[str, set[str]] = {name: set() for name in self.weights}
        for node in nodes:
            for name in names_of(node):
                readers.get(name, set()).add(node.op_type)
        for name, kinds in readers.items():
            if not kinds:
                self.drop(name)
            elif kinds <= set(ROUNDED) and self.weights[name].ndim > 1:
                self.widen_at_start(name)
        domain = self.model.opset_import.add()
        domain.domain, domain.version = "com.microsoft", 1
        self.finish(nodes)

    def replace(self, node: Any, turned: dict[str, str]) -> Iterator[Any]:
        """The nodes that compute what `node` does, from int8 weights where it can."""
        kind = node.op_type
        if kind == "Gather" and self.rank(node.input[0]) == 2 and attribute(node, "axis", 0) == 0:
            yield from self.look_up(node)
        elif kind == "MatMul" and node.input[1] in turned:
            yield self.multiply(node, self.weights[turned[node.input[1]]])
        elif kind == "MatMul" and self.rank(node.input[1]) == 2:
            yield self.multiply(node, self.weights[node.input[1]].T)
        elif kind == "Gemm" and self.rank(node.input[1]) == 2 and is_plain(node):
            weight = self.weights[node.input[1]]
            yield self.multiply(node, weight if attribute(node, "transB", 0) else weight.T)
        else:
            yield node

    def rank(self, name: str) -> int:
        """The axes of a weight; 0 for anything else."""
        return self.weights[name].ndim if name in self.weights else 0

    def multiply(self, node: Any, weight: Array) -> Any:
        """A product with `weight` (N K), as blocks of int8 around 128."""
        rows, columns = weight.shape
        blocks = -(-columns // BLOCK)
        parts = np.zeros((rows, blocks * BLOCK), np.float32)
        parts[:, :columns] = weight
        parts = parts.reshape(rows, blocks, BLOCK)
        scale = scale_of(parts, axis=2)
        name = node.output[0]
        self.add(f"{name}.int8", (np.round(parts / scale[..., None]) + 128).astype(np.uint8))
        self.add(f"{name}.scale", scale)
        bias = ["", "", node.input[2]] if len(node.input) > 2 else []
        given = [node.input[0], f"{name}.int8", f"{name}.scale", *bias]
        settings = {"K": columns, "N": rows, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
        return make("MatMulNBits", given, [name], domain="com.microsoft", **settings)

    def look_up(self, node: Any) -> Iterator[Any]:
        """Rows of a table, each with a scale of its own."""
        table, at, name = *node.input, node.output[0]
        scale = scale_of(self.weights[table], axis=1)[:, None]
        self.add(f"{name}.int8", np.round(self.weights[table] / scale).astype(np.int8))
        self.add(f"{name}.scale", scale)
        yield make("Gather", [f"{name}.int8", at], [f"{name}.row"])
        yield make("Gather", [f"{name}.scale", at], [f"{name}.row.scale"])
        yield make("Cast", [f"{name}.row"], [f"{name}.wide"], to=1)
        yield make("Mul", [f"{name}.wide", f"{name}.row.scale"], [name])

    def widen_at_start(self, name: str) -> None:
        """A weight in int8, one scale for each entry of its first axis, that is widened once."""
        array = self.weights[name]
        scale = scale_of(array.reshape(len(array), -1), axis=1).reshape(-1, *[1] * (array.ndim - 1))
        self.add(f"{name}.int8", np.round(array / scale).astype(np.int8))
        self.add(f"{name}.scale", scale)
        self.before.append(make("Cast", [f"{name}.int8"], [f"{name}.wide"], to=1))
        self.before.append(make("Mul", [f"{name}.wide", f"{name}.scale"], [name]))
        self.drop(name)

    def add(self, name: str, array: Array) -> None:
        from onnx import numpy_helper

        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))

    def drop(self, name: str) -> None:
        at = next(at for at, tensor in enumerate(self.graph.initializer) if tensor.name == name)
        del self.graph.initializer[at]

    def finish(self, nodes: list[Any]) -> None:
        nodes = [*self.before, *nodes]
        del self.graph.node[:]
        self.graph.node.extend(nodes)


def scale_of(parts: Array, axis: int) -> Array:
    """What 1 of int8 stands for: the largest of a part is 127."""
    scale = np.abs(parts).max(axis=axis) / 127
    return np.where(scale > 0, scale, 1).astype(np.float32)


def make(kind: str, given: list[str], left: list[str], **settings: Any) -> Any:
    from onnx import helper

    return helper.make_node(kind, given, left, **settings)


def attribute(node: Any, name: str, default: float) -> Any:
    """A number among the attributes of a node."""
    for found in node.attribute:
        if found.name == name:
            return found.i if found.type == found.INT else found.f
    return default


def is_plain(node: Any) -> bool:
    """Whether a Gemm is x W + b."""
    return not attribute(node, "transA", 0) and attribute(node, "alpha", 1.0) == 1 and attribute(node, "beta", 1.0) == 1


def names_of(node: Any) -> Iterator[str]:
    """Every value that a node reads, those of its inner graphs too."""
    yield from node.input
    for found in node.attribute:
        if found.HasField("g"):
            for inner in found.g.node:
                yield from names_of(inner)
