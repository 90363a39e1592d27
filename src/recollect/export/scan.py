"""A whole row through a step's graph: ONNX's Scan, for layers whose own chunk depends on the number of steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.contract import ContractError
from .graphs import NEXT, Field, Graph


def scan_rows(step: bytes, fields: Sequence[Field], graph: Graph) -> bytes:
    """Log-probabilities after the last step of each row, from rows (B T …) and lengths (B), as an ONNX file."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    growing = [own.name for own in fields if own.grows]
    if growing:
        raise ContractError(f"export: expected a state of one size for rows of any length, found {growing[0]!r} grows")
    model = onnx.load_from_string(step)
    inside = model.graph
    x, lengths = (value.name for value in graph.inputs)
    (left,) = graph.outputs
    nodes: list[Any] = [helper.make_node("Shape", [x], ["rows"], start=0, end=1)]
    constants = list(inside.initializer)
    for own in fields:
        sizes = [size if isinstance(size, int) else 1 for size in own.shape]
        dtype = str(own.dtype).removeprefix("torch.")
        first = np.zeros(sizes, dtype) if own.first is None else own.lay_out(own.first).numpy()
        shape = [f"rows.{own.name}.{at}" for at in range(len(sizes))]
        for name, size, free in zip(shape, sizes, own.shape, strict=True):
            if free == "batch":
                nodes.append(helper.make_node("Identity", ["rows"], [name]))
            else:
                constants.append(helper.make_tensor(name, TensorProto.INT64, [1], [size]))
        nodes.append(helper.make_node("Concat", shape, [f"shape.{own.name}"], axis=0))
        nodes.append(helper.make_node("Expand", [f"first.{own.name}", f"shape.{own.name}"], [f"start.{own.name}"]))
        constants.append(numpy_helper.from_array(first, f"first.{own.name}"))
    body = _body(inside, fields)
    last = [f"last.{own.name}" for own in fields]
    settings = {"num_scan_inputs": 1, "scan_input_axes": [1], "scan_output_axes": [1]}
    nodes += [
        helper.make_node(
            "Scan", [*(f"start.{own.name}" for own in fields), x], [*last, "every"], body=body, **settings
        ),
        helper.make_node("Sub", [lengths, "one"], ["at"]),
        helper.make_node("Unsqueeze", ["at", "end"], ["places"]),
        helper.make_node("GatherND", ["every", "places"], ["answers"], batch_dims=1),
        helper.make_node("LogSoftmax", ["answers"], [left], axis=-1),
    ]
    constants += [
        helper.make_tensor("one", TensorProto.INT64, [], [1]),
        helper.make_tensor("end", TensorProto.INT64, [1], [-1]),
    ]
    answers = inside.output[0].type.tensor_type.shape.dim[1].dim_value
    whole = helper.make_graph(
        nodes,
        graph.name,
        [_describe(value.name, value.example.dtype, value.shape) for value in graph.inputs],
        [helper.make_tensor_value_info(left, TensorProto.FLOAT, ["batch", answers])],
        constants,
    )
    made = helper.make_model(whole, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def _describe(name: str, dtype: Any, shape: Sequence[Any]) -> Any:
    """An input as ONNX declares it."""
    from onnx import helper

    kind = np.dtype(str(dtype).removeprefix("torch."))
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), shape)


def _body(step: Any, fields: Sequence[Field]) -> Any:
    """The step as the body of a Scan: states first, then the token; every value with a name of its own."""
    from onnx import helper

    constants = {tensor.name for tensor in step.initializer}

    def inner(name: str) -> str:
        return name if not name or name in constants else f"body.{name}"

    for node in step.node:
        node.name = ""
        for side in (node.input, node.output):
            side[:] = [inner(name) for name in side]
    inputs = {value.name: value for value in step.input}
    outputs = {value.name: value for value in step.output}
    (x,) = (name for name in inputs if name not in {own.name for own in fields})
    (y,) = (name for name in outputs if not name.startswith(NEXT))
    given = [inputs[own.name] for own in fields] + [inputs[x]]
    left = [outputs[NEXT + own.name] for own in fields] + [outputs[y]]
    for value in (*given, *left):
        value.name = inner(value.name)
    return helper.make_graph(list(step.node), "step", given, left)
