"""The Step law (law 9) on everything that decodes with a model on this machine: each device and each precision."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..core import laws
from ..core import state as states
from ..core.contract import Layer, Memory
from ..layers.recurrent import Recurrent
from . import beam, sampling
from .engine import Engine
from .flat.matrix import list_packings
from .flat.model import flatten
from .position import device_of

SEARCHES = ({"beam": 1, "length_penalty": 0.0}, {"beam": 3, "nbest": 3})  # greedy and beam search


def check_generation(definition: Any, model: Any, x: Tensor) -> dict[str, float]:
    """The Step law on each engine that `generate` can run for a model; `definition` is its copy in float64."""
    return {
        name_law(own, precision): laws.step(definition, x, run_engine(own, precision), name_rounding(own, precision))
        for own in place_on_devices(model)
        for precision in list_precisions(own)
    }


def check_search(definition: Any, model: Any, memory: Memory, side: Any, length: int) -> dict[str, float]:
    """The Step law on greedy and beam search for texts of at most `length` tokens; `memory` is the definition's.

    `side` has the ids `begin`, `end` and `pad` of the texts' vocabulary.
    """
    errors = {}
    for own in place_on_devices(model):
        source = states.move(memory, device=device_of(own), dtype=torch.float32)
        name, rounding = name_law(own, "float32"), name_rounding(own, "float32")
        for settings in SEARCHES:
            config = beam.Config(ratio=0.0, extra=length, **settings)
            lists = beam.search(
                own, source, begin=side.begin, end=side.end, config=config, banned=(side.pad, side.begin)
            )
            texts = [[(h.tokens + [side.end] * h.finished, h.logprob) for h in found] for found in lists]
            error = laws.search(definition, memory, texts, side.begin, rounding)
            errors[name] = max(error, errors.get(name, 0.0))
    return errors


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
    return ("float32", *(packing for packing in list_packings() if flatten(model, packing) is not None))


def place_on_devices(model: Any) -> Iterator[Any]:
    """The model, and where there is a GPU a copy on it."""
    yield model
    if torch.cuda.is_available():
        yield copy.deepcopy(model).cuda()


def name_law(model: Any, precision: str) -> str:
    """`step`, `step int8`, `step cuda bfloat16`: the law with what differs from a CPU and from float32."""
    device = device_of(model).type
    return " ".join(["step", *([device] if device != "cpu" else []), *([precision] if precision != "float32" else [])])


def name_rounding(model: Any, precision: str) -> str:
    """The key of the law's tolerance: `precision`, or `tf32` where a GPU multiplies float32 in TF32."""
    if precision != "float32" or device_of(model).type != "cuda":
        return precision
    cudnn: Any = torch.backends.cudnn
    backends = [torch.backends.cuda.matmul]
    backends += [cudnn.rnn] if any(isinstance(part, Recurrent) for part in model.modules()) else []
    backends += [cudnn.conv] if any(isinstance(part, nn.Conv1d) for part in model.modules()) else []
    return "tf32" if any(backend.fp32_precision == "tf32" for backend in backends) else precision
