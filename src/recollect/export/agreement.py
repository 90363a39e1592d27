"""Whether exported files compute what the model computes: over many steps, several rows, states in files.

The model in float64 decides. Files of float32 may be off by a tolerance, or by a few times what the model's own call in
float32 is off: test-time training amplifies rounding, there as here.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core import laws
from ..core import state as states
from ..core.contract import ContractError, Memory
from ..core.exported import UNASKED, Sample
from ..runtime.manifest import Agreement, Manifest, Quality, check_file, read_manifest
from ..runtime.session import State, Step, open_session

if TYPE_CHECKING:
    from .package import Exported

STEPS = 200
BATCHES = (1, 3)
ROWS = 16  # of a run's own data, for the loss of quality
ROUNDING = 4  # how many times as far off as the model's own call in float32 the files may be
Named = Mapping[str, Tensor]


class Error(NamedTuple):
    """Differences from the model in float64, relative to the largest output."""

    found: float  # of the files
    own: float  # of the model's own call in float32

    @property
    def allowed(self) -> float:
        return max(laws.STEP_TOLERANCE["float32"], ROUNDING * self.own)


def check(made: "Exported", place: Path, sample: Sample) -> Agreement:
    """The largest error of the files in `place`, relative to the largest output.

    Files of the weights as they are must agree with the model; of rounded weights the error is only measured.
    """
    manifest, errors, steps = read_manifest(place), [], 0
    if made.steps is not None:
        steps = min(STEPS, manifest.limit or STEPS)
        for rows in BATCHES:
            for x, source in inputs_of(made, sample, rows, steps):
                errors += check_steps(made, place, x, source)
    for name, (graph, _) in made.graphs.items():
        if graph.draw is None:
            continue
        session = open_session(check_file(place, manifest, manifest.graphs[name].file))
        given = [graph.draw(rows, torch.Generator().manual_seed(rows)) for rows in BATCHES]
        given += [dict(real) for real in (sample.source if name == "encode" else sample.calls.get(name),) if real]
        errors += [error for inputs in given for error in check_whole(session, graph.module, inputs)]
    for error in errors:
        wrong = error.found > error.allowed if manifest.precision == "float32" else error.found == float("inf")
        if wrong:
            raise ContractError(
                f"export: expected files that differ from the model in float64 by at most {error.allowed:.2g}, "
                f"found {error.found:.2g}; nothing was written"
            )
    real = sample.steps is not None or bool(sample.calls)
    return Agreement(
        steps=steps,
        batches=BATCHES,
        inputs=("random", "real") if real else ("random",),
        largest_error=max((error.found for error in errors), default=0.0),
    )


def inputs_of(made: "Exported", sample: Sample, rows: int, steps: int) -> list[tuple[Tensor, Named]]:
    """Random inputs of the step with a random source, and rows of the run's data where they are at hand."""
    assert made.steps is not None
    draw = torch.Generator().manual_seed(rows)
    source = {} if made.source is None else made.source.draw(rows, draw)
    found: list[tuple[Tensor, Named]] = [(draw_inputs(made.steps[1], rows, steps), source)]
    if sample.steps is not None and len(sample.steps) >= rows:
        x = sample.steps[:rows]
        times = -(-steps // x.shape[1])
        own = {name: tensor[:rows] for name, tensor in sample.source.items()} or source
        found.append((x.repeat(1, times, *[1] * (x.dim() - 2))[:, :steps], own))
    return found


@torch.no_grad()
def check_steps(made: "Exported", place: Path, inputs: Tensor, source: Named) -> list[Error]:
    """The step, with its state saved and read again half way, and chunks of any length, beside the model's own call."""
    assert made.steps is not None
    module, _ = made.steps
    rows = len(inputs)
    memory = made.encode(source, rows)
    own = call_in_parts(module, inputs, memory)
    wanted = call_in_parts(widen(module), widen(inputs), widen(memory))
    step = Step.open(place, threads=1)
    given = start_fields(made, module, rows, memory)
    outputs = [run_steps(step, inputs, step.initial_state(rows, given))]
    if "chunk" in made.graphs:
        outputs.append(run_chunks(place, step.manifest, inputs, step.initial_state(rows, given)))
    errors = [compare(output, own, wanted) for output in outputs]
    if errors[0].found > errors[0].allowed:  # what rounding a step by itself does may be more than that of chunks
        errors[0] = compare(outputs[0], call_by_steps(module, inputs, memory), wanted)
    return errors


def run_steps(step: Step, inputs: Tensor, state: State) -> Tensor:
    """The outputs of the step for each input in turn, with the state saved and read again half way."""
    found, steps = [], inputs.shape[1]
    for t in range(steps):
        y, state = step(inputs[:, t].numpy(), state)
        found.append(torch.from_numpy(y.copy()))
        if t == steps // 2:
            state = step.state_of(through_file(state))
    return torch.stack(found, dim=1)


def draw_inputs(x: Tensor, rows: int, steps: int) -> Tensor:
    """Random inputs like x: the tokens that are in it, or numbers."""
    draw = torch.Generator().manual_seed(rows)
    if x.is_floating_point():
        return torch.randn(rows, steps, x.shape[2], generator=draw)
    pool = x.unique()
    return pool[torch.randint(len(pool), (rows, steps), generator=draw)]


def call_in_parts(module: Any, x: Tensor, memory: Memory | None) -> Tensor:
    """The model's own call on a first chunk and on the rest."""
    first, state = module(x[:, :7], module.initial_state(len(x), memory=memory))
    rest, _ = module(x[:, 7:], state)
    return torch.cat([first, rest], dim=1)


def call_by_steps(module: Any, x: Tensor, memory: Memory | None) -> Tensor:
    """The model's own call, a step at a time."""
    state, found = module.initial_state(len(x), memory=memory), []
    for t in range(x.shape[1]):
        y, state = module(x[:, t : t + 1], state)
        found.append(y)
    return torch.cat(found, dim=1)


def start_fields(made: "Exported", module: Any, rows: int, memory: Memory | None) -> dict[str, Any] | None:
    """What the decoder's first state has of the source, as the graph `encode` leaves it."""
    if memory is None:
        return None
    first = states.leaves(module.initial_state(rows, memory=memory, capacity=1))
    return {
        own.name: own.lay_out(tensor).numpy() for own, tensor in zip(made.fields, first, strict=True) if own.encoded
    }


def through_file(state: State) -> dict[str, Any]:
    """The fields of a state after a file."""
    from safetensors.numpy import load, save

    return load(save({name: np.ascontiguousarray(array) for name, array in state.named().items()}))


def run_chunks(place: Path, manifest: Manifest, x: Tensor, state: State) -> Tensor:
    """The graph of a chunk over all of x in chunks of growing length, in slots for all of it."""
    session = open_session(check_file(place, manifest, manifest.graphs["chunk"].file))
    first, names = session.get_inputs()[0].name, [value.name for value in session.get_outputs()]
    fields = {own.name: own for own in manifest.state}
    given = {}
    for name, array in state.fields().items():
        own = fields[name]
        if own.grows:
            shape = list(array.shape)
            shape[own.slot_axis] = own.limit_slots(x.shape[1])
            array = np.zeros(shape, array.dtype)
        given[name] = array
    found, at, size = [], 0, 2
    while at < x.shape[1]:
        size = x.shape[1] - at if x.shape[1] - at < size + 3 else size  # the last has no less than two
        feeds = {first: x[:, at : at + size].numpy(), **given}
        left = dict(zip(names, session.run(None, feeds), strict=True))
        found.append(torch.from_numpy(left.pop(names[0])))
        given |= {name.removeprefix("next."): array for name, array in left.items()}
        at, size = at + size, size + 1
    return torch.cat(found, dim=1)


@torch.no_grad()
def check_whole(session: Any, module: Any, inputs: Named) -> list[Error]:
    """A graph over whole inputs beside its module."""
    own = module(*inputs.values())
    wanted = widen(module)(*map(widen, inputs.values()))
    found = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
    sides = (side if isinstance(side, tuple) else (side,) for side in (own, wanted))
    return [compare(torch.from_numpy(a), b, c) for a, b, c in zip(found, *sides, strict=True)]


def widen(part: Any) -> Any:
    """A copy in float64 of a module, a tensor or a state; integers stay as they are."""
    if isinstance(part, torch.nn.Module):
        return copy.deepcopy(part).double()
    return states.map(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, part)


def compare(found: Tensor, own: Tensor, wanted: Tensor) -> Error:
    """How far files and the model's own call are from the model in float64."""
    return Error(relative_error(found, wanted), relative_error(own, wanted))


def relative_error(found: Tensor, wanted: Tensor) -> float:
    """The largest difference over the largest entry; NaN where the model has none counts as infinitely large."""
    if found.shape != wanted.shape or not torch.equal(found.isnan(), wanted.isnan()):
        return float("inf")
    found, wanted = found.double().nan_to_num(), wanted.double().nan_to_num()
    if not found.numel():
        return 0.0
    error = ((found - wanted).abs().max() / wanted.abs().max().clamp(min=1e-12)).item()
    return float("inf") if np.isnan(error) else error


@torch.no_grad()
def measure_quality(made: "Exported", place: Path, sample: Sample, error: float) -> Quality:
    """What rounded weights cost: nats per token on rows of the run's data, else the largest error of an output."""
    if made.steps is None or sample.steps is None or sample.targets is None:
        return Quality(measure="largest error", before=0.0, after=error)
    module, x, y = made.steps[0], sample.steps, sample.targets
    memory = made.encode(sample.source, len(x))
    before, _ = module(x, module.initial_state(len(x), memory=memory))
    step, found = Step.open(place, threads=1), []
    state = step.initial_state(len(x), encoded(made, place, sample.source))
    for t in range(x.shape[1]):
        logits, state = step(x[:, t].numpy(), state)
        found.append(torch.from_numpy(logits.copy()))
    nats = [
        torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).double(), y.flatten(), ignore_index=UNASKED, reduction="mean"
        ).item()
        for logits in (before, torch.stack(found, dim=1))
    ]
    return Quality(
        measure="nats per token", before=nats[0], after=nats[1], tokens=int((y != UNASKED).sum()), split="valid"
    )


def encoded(made: "Exported", place: Path, source: Named) -> dict[str, Any] | None:
    """What the exported encoder leaves of a source."""
    if made.source is None:
        return None
    manifest = read_manifest(place)
    session = open_session(check_file(place, manifest, manifest.graphs["encode"].file))
    left = session.run(None, {name: tensor.numpy() for name, tensor in source.items()})
    return dict(zip([value.name for value in session.get_outputs()], left, strict=True))
