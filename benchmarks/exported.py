"""Exported steps for the benches: of a model that was never a run, as `recollect.load` has it, and of a layer alone."""

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from recollect.core import state as states
from recollect.export.layer import open_step as open_layer
from recollect.export.package import export
from recollect.runtime.session import Step
from recollect.tasks.text.task import TextTask
from recollect.training import checkpoint

from .measure import Run

OPENED = "recollect.open_step"  # a mode of ours: a layer's step in onnxruntime
AGAIN = 64  # steps after which a state starts anew, so that what grows stays as long as it was


def open_step(model: Any, name: str, vocab: int, precision: str = "float32", threads: int | None = None) -> Step:
    """The step of a language model, exported with all its checks."""
    return step_of(model, name, TextTask, SimpleNamespace(size=vocab), precision, threads)


def step_of(model: Any, name: str, kind: Any, artifacts: Any, precision: str, threads: int | None) -> Step:
    """The step of a model of a task, exported with all its checks."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        checkpoint.write_tensors(place / "model.safetensors", checkpoint.weights(model), {})
        run: Any = SimpleNamespace(
            model=model, artifacts=artifacts, path=place, kind=kind, device="cpu",
            config=SimpleNamespace(model={"name": name}),
        )  # fmt: skip
        export(run, place / "step", whole=False, precision=precision)
        return Step.open(place / "step", threads=threads)


def layer_step(layer: Any, x: Tensor, state: Any) -> Run:
    """Steps of a layer by `recollect.open_step` from a state on; x (B 1 D) may be refilled, the state goes on."""
    step = open_layer(layer, threads=torch.get_num_threads())
    first = step.state_of({name: tensor.numpy() for name, tensor in states.named(state)})
    given, here = x[:, 0].numpy(), first.copy()
    grows = any(field.grows for field in step.fields)

    def run() -> Any:
        nonlocal here
        if grows and here.seen >= first.seen + AGAIN:
            here = first.copy()
        y, here = step(given, here)
        return y

    return run
