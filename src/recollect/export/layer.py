"""A layer's step in onnxruntime: any layer or model, without a run and without a folder."""

import copy
import importlib.metadata
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from ..core.contract import ContractError
from ..kernels.onnx import OPSET
from ..layers.position import find_limit
from ..models.size import parameters
from ..runtime.manifest import Agreement, Manifest
from ..runtime.session import Step, count_threads, open_session
from . import agreement, package, weights
from .graphs import ROWS, Value, call_graph, trace

STEPS = 20  # over which the step is compared with the layer
PRECISIONS = ("float32", "float16", "int8")


@torch.no_grad()
def open_step(
    layer: Any, example: Tensor | None = None, *, precision: str = "float32", threads: int | None = None
) -> Step:
    """The step of a layer or model on a CPU, run by onnxruntime: `y, state = step(x, state)` with numpy arrays.

    `example` is an input of one step of one row, for models of tokens: a layer takes vectors of its `dim`. The step has
    the weights as they are now. It is compared with the layer before it is returned. x is one token or vector of each
    row; y stays valid until the next step, and a state is used up by the step that it is given to: `copy()` keeps one.

        >>> step = recollect.open_step(recollect.build("lstm", dim=8))
        >>> y, state = step(np.ones((2, 8), np.float32), step.initial_state(2))
        >>> y.shape
        (2, 8)
    """
    if precision not in PRECISIONS:
        raise ContractError(f"open_step: expected a precision out of {', '.join(PRECISIONS)}, found {precision!r:.40}")
    if not hasattr(layer, "initial_state"):
        raise ContractError(f"open_step: expected a layer or model with initial_state, found {type(layer).__name__}")
    module = copy.deepcopy(layer).cpu().float().eval()
    x = example_input(module, example)
    graph, fields = call_graph("step", module, Value("x", x[:, 0].clone(), {0: "batch"}), "y")
    data = weights.convert(trace(graph), precision)
    manifest = Manifest(
        recollect=__version__,
        task="",
        model=type(layer).__name__,
        precision=precision,
        opset=OPSET,
        weights="",
        limit=find_limit(module),
        graphs={"step": package.describe_graph("step", graph, data)},
        state=tuple(package.describe_field(own) for own in fields),
        agreement=Agreement(batches=agreement.BATCHES, largest_error=0.0),
        versions={name: importlib.metadata.version(name) for name in package.VERSIONS},
        parameters=parameters(module),
    )
    starts = {own.name: own.lay_out(own.first).numpy() for own in fields if own.first is not None}
    step = Step(open_session(data, threads or count_threads(manifest.parameters)), manifest, starts)
    check(step, module, x)
    return step


def example_input(module: Any, example: Tensor | None) -> Tensor:
    """Two rows of one step, B 1 ·: of the example that was given, else of random vectors."""
    if example is not None:
        one = example.detach().cpu()
        one = one.float() if one.is_floating_point() else one
        return one[:1].expand(ROWS, *one.shape[1:]).clone()[:, None]
    try:
        x = torch.randn(ROWS, 1, module.dim, generator=torch.Generator().manual_seed(0))
        module(x, module.initial_state(ROWS))
    except Exception as error:  # whatever a model of tokens says of vectors
        raise ContractError(
            f"open_step: expected a layer that takes vectors, or an example of one step for a model of tokens, "
            f"found {type(module).__name__} and no example; use example=torch.tensor([0])"
        ) from error
    return x


def check(step: Step, module: Any, x: Tensor) -> None:
    """Refuse a step that computes something else than the layer; of rounded weights the error is not bounded."""
    steps = min(STEPS, step.manifest.limit or STEPS)
    for rows in agreement.BATCHES:
        inputs = agreement.draw_inputs(x, rows, steps)
        own = agreement.call_by_steps(module, inputs, None)
        wanted = agreement.call_in_parts(agreement.widen(module), agreement.widen(inputs), None)
        error = agreement.compare(agreement.run_steps(step, inputs, step.initial_state(rows)), own, wanted)
        if error.found > (error.allowed if step.manifest.precision == "float32" else float("inf")):
            raise ContractError(
                f"open_step: expected a step that differs from the layer in float64 by at most {error.allowed:.2g}, "
                f"found {error.found:.2g}"
            )
