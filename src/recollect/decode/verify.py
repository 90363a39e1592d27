"""The Step law (law 9) on everything that decodes with a model on this machine: each device and each precision."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..core import laws
from ..core import state as states
from ..core.contract import Layer, Memory
from ..layers.recurrent import Recurrent
from ..runtime.engine import StepWriter
from ..runtime.session import Step
from . import beam, sampling
from .engine import Engine
from .position import device_of
from .stepped import SteppedModel

SEARCHES = ({"beam": 1, "length_penalty": 0.0}, {"beam": 3, "nbest": 3})  # greedy and beam search


def generation_laws(
    definition: Any, model: Any, x: Tensor, steps: Mapping[str, Step] | None = None
) -> dict[str, laws.Law]:
    """The Step law on each engine that `generate` can run for a model; `definition` is its copy in float64.

    `steps` are exported steps of the model, by the precision of their weights.
    """

    def law(own: Any, precision: str) -> float:
        return laws.step(definition, x, run_engine(own, precision), name_rounding(own, precision))

    return {
        name_law(own, precision): partial(law, own, precision)
        for own in place_on_devices(model)
        for precision in list_precisions(own)
    } | {
        name_exported(precision): partial(laws.step, definition, x, run_exported(step, model), precision)
        for precision, step in (steps or {}).items()
    }


def search_laws(
    definition: Any, model: Any, memory: Memory, side: Any, length: int, steps: Mapping[str, Step] | None = None
) -> dict[str, laws.Law]:
    """The Step law on greedy and beam search for texts of at most `length` tokens; `memory` is the definition's.

    `side` has the ids `begin`, `end` and `pad` of the texts' vocabulary; `steps` as for `generation_laws`.
    """

    def law(own: Any, precision: str) -> float:
        source, worst = states.move(memory, device=device_of(own), dtype=torch.float32), 0.0
        for settings in SEARCHES:
            config = beam.Config(ratio=0.0, extra=length, **settings)
            lists = beam.search(
                own, source, begin=side.begin, end=side.end, config=config, banned=(side.pad, side.begin)
            )
            texts = [[(h.tokens + [side.end] * h.finished, h.logprob) for h in found] for found in lists]
            worst = max(worst, laws.search(definition, memory, texts, side.begin, precision))
        return worst

    return {
        name_law(own, "float32"): partial(law, own, name_rounding(own, "float32")) for own in place_on_devices(model)
    } | {
        name_exported(precision): partial(law, SteppedModel(model, step), precision)
        for precision, step in (steps or {}).items()
    }


def run_exported(step: Step, model: Any) -> Callable[[list[list[int]], int], laws.Generated]:
    """What `generate` runs where an exported step stands beside the weights, as the Step law calls it."""

    def generate(prompts: list[list[int]], length: int) -> laws.Generated:
        writer = StepWriter(step)
        position = writer.read_prompts(prompts, length)
        blocks = writer.blocks(position, sampling.Config(length=length), 1)
        logits = [torch.from_numpy(position.logits.copy()) for _ in blocks]
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in position.state.named().items()}
        state = states.restore(tensors, model, "the exported step", list(map(len, position.written)))
        return laws.Generated(position.written, torch.stack(logits, dim=1), state)

    return generate


def run_engine(model: Any, precision: str | None = None) -> Callable[[list[list[int]], int], laws.Generated]:
    """What `generate` runs for a model in a precision (None: that of its weights), as the Step law calls it."""

    def generate(prompts: list[list[int]], length: int) -> laws.Generated:
        engine = Engine(model, len(prompts), max(map(len, prompts)) + length + 1, precision=precision)
        position = engine.read_prompts(prompts)
        logits = [position.logits.clone() for _ in engine.blocks(position, sampling.Config(length=length))]
        return laws.Generated(position.written, torch.stack(logits, dim=1), position.state)

    return generate


def list_precisions(model: Any) -> Sequence[str]:
    """The precisions in which the engine can run a model of float32 weights on its device."""
    if device_of(model).type == "cuda":
        return ("float32", "bfloat16", "float16") if isinstance(model, Layer) else ("float32",)
    return ("float32",)


def place_on_devices(model: Any) -> Iterator[Any]:
    """The model, and where there is a GPU a copy on it."""
    yield model
    if torch.cuda.is_available():
        yield copy.deepcopy(model).cuda()


def name_law(model: Any, precision: str) -> str:
    """`step`, `step int8`, `step cuda bfloat16`: the law with what differs from a CPU and from float32."""
    device = device_of(model).type
    return " ".join(["step", *([device] if device != "cpu" else []), *([precision] if precision != "float32" else [])])


def name_exported(precision: str) -> str:
    """`step exported`, `step exported int8`: the law on what onnxruntime runs."""
    return " ".join(["step exported", *([precision] if precision != "float32" else [])])


def name_rounding(model: Any, precision: str) -> str:
    """The key of the law's tolerance: `precision`, or `tf32` where a GPU multiplies float32 in TF32."""
    if precision != "float32" or device_of(model).type != "cuda":
        return precision
    cudnn: Any = torch.backends.cudnn
    backends = [torch.backends.cuda.matmul]
    backends += [cudnn.rnn] if any(isinstance(part, Recurrent) for part in model.modules()) else []
    backends += [cudnn.conv] if any(isinstance(part, nn.Conv1d) for part in model.modules()) else []
    return "tf32" if any(backend.fp32_precision == "tf32" for backend in backends) else precision
