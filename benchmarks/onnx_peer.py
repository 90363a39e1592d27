"""A module exported to ONNX and run by onnxruntime: another runtime for the same weights."""

import io
import logging
import warnings
from collections.abc import Callable
from contextlib import contextmanager, redirect_stdout
from typing import Any

import torch
from torch import Tensor, nn

from recollect.core import state as states
from recollect.core.contract import Layer


class Step(nn.Module):
    """One call of a layer, its state given and returned as plain tensors."""

    def __init__(self, layer: Layer[Any], like: Any) -> None:
        super().__init__()
        self.layer, self.state_like = layer, like

    def forward(self, x: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        given = iter(parts)
        y, after = self.layer(x, states.map(lambda _: next(given), self.state_like))
        return (y, *states.leaves(after))


def exported(module: nn.Module, inputs: tuple[Any, ...]) -> Callable[[], list[Tensor]]:
    """A call of the exported module on `inputs`, wherever they stand when it is made: they are bound by address."""
    import onnxruntime  # pyright: ignore[reportMissingImports]

    outputs = states.leaves(module.eval()(*inputs))
    with quietly():
        program = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
    assert program is not None, "export gave nothing"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors
    data = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    given, results = states.leaves(inputs), [torch.empty(t.shape, dtype=t.dtype) for t in outputs]
    for bind, values, tensors in (
        (binding.bind_input, session.get_inputs(), given),
        (binding.bind_output, session.get_outputs(), results),
    ):
        for value, tensor in zip(values, tensors, strict=True):
            bind(value.name, "cpu", 0, tensor.numpy().dtype, tuple(tensor.shape), tensor.data_ptr())

    def run(given: Any = given) -> list[Tensor]:  # the inputs live as long as the call
        session.run_with_iobinding(binding)
        return results

    return run


@contextmanager
def quietly():
    """Without the exporter's remarks on its own progress."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
