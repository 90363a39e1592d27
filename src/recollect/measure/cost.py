"""What a length costs: FLOPs, time and memory, of the parallel form and of single steps, declared and measured.

    declared    by the layers: FLOPs of the definition, bytes of state
    counted     the FLOPs of matrix products while they run; a fast form may do more of them than the definition
    seconds     the least of some tries, on the machine at hand
    state       bytes of the state at the end; `kept` is what training holds for the backward pass besides the weights

The exponent p of length^p is the slope of a straight line through the longest lengths, on logarithmic axes.
"""

import math
import reprlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from ..core import state as states
from ..core.chart import Chart, Line
from ..core.contract import ContractError, Memory
from ..core.flops import Counter
from ..core.inspection import Instrument, Probe, Reading, Request, slope
from ..core.settings import option
from ..core.task import LoadedRun
from .probes import probe_of

LENGTHS = (16, 32, 64, 128, 256)
TRIES = 3
LONGEST = 100_000
FITTED = 3  # of the longest lengths


def measure(model: Any, x: Tensor, memory: Memory | None = None, *, tries: int = TRIES) -> dict[str, Any]:
    """One row through the model, all at once and step by step. x: 1 T tokens, or 1 T D numbers."""
    length = x.shape[1]
    source = 0 if memory is None else memory.values.shape[1]
    declared = model.cost(1, length, source)

    def first(capacity: int | None = None) -> Any:
        return model.initial_state(1, memory=memory, capacity=capacity)

    def parallel() -> Any:
        return model(x, first())[1]

    def one_by_one() -> None:
        state = first(length)
        for t in range(length):
            _, state = model(x[:, t : t + 1], state)

    with torch.no_grad():
        with Counter() as counter:
            after = parallel()
        return {
            "length": length,
            "flops": {"declared": declared.flops, "parallel": counter.flops},
            "seconds": {
                "parallel": fastest(parallel, tries, x.device),
                "step": fastest(one_by_one, tries, x.device),
            },
            "state": {"declared": declared.state_bytes, "measured": states.nbytes(after)},
            "kept": saved_bytes(model, lambda: model(x, first())[0]),
        }


@torch.no_grad()
def step_flops(model: Any, x: Tensor, memory: Memory | None, lengths: Sequence[int]) -> dict[int, int]:
    """FLOPs of single steps up to each of the lengths, all counted in one run."""
    found = {}
    with Counter() as counter:
        state = model.initial_state(1, memory=memory)
        for t in range(max(lengths)):
            _, state = model(x[:, t : t + 1], state)
            if t + 1 in lengths:
                found[t + 1] = counter.flops
    return found


def fastest(call: Callable[[], Any], tries: int, device: torch.device) -> float:
    """Seconds of the fastest of some tries, after one that does not count."""
    found = math.inf
    for number in range(tries + 1):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        started = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if number:
            found = min(found, time.perf_counter() - started)
    return found


def saved_bytes(model: nn.Module, call: Callable[[], Tensor]) -> int:
    """Bytes that a forward pass keeps for the backward pass, each storage once, weights and buffers not counted."""
    own = {tensor.untyped_storage().data_ptr() for tensor in model.state_dict(keep_vars=True).values()}
    found: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        y = call()  # held until the storages are counted, so that no address is used twice
    total = sum(found.values())
    del y
    return total


def exponent(lengths: Sequence[int], values: Sequence[float]) -> float | None:
    """p of length^p over the longest lengths; None where there is nothing to fit."""
    pairs = [(n, v) for n, v in zip(lengths, values, strict=True) if v > 0][-FITTED:]
    found = slope([math.log(n) for n, _ in pairs], [math.log(v) for _, v in pairs])
    return found if math.isfinite(found) else None


QUANTITIES = {
    "flops": ("FLOPs of a row", "FLOPs"),
    "seconds": ("time of a row", "milliseconds"),
    "state": ("bytes of state", "bytes"),
}


def read(probe: Probe, *, lengths: Sequence[int] = LENGTHS, tries: int = TRIES) -> Reading:
    """The first row's inputs, over and over until they are as long as asked."""
    one = probe.first()
    stepper, x, _ = one.stepping()
    x = x[:1]
    with torch.no_grad():
        memory = one.memory()
    whole = torch.cat([x] * -(-lengths[-1] // x.shape[1]), dim=1)
    rows, note = [], None
    for length in lengths:
        try:
            rows.append(measure(stepper, whole[:, :length], memory, tries=tries))
        except ContractError as error:  # positions that end
            note = f"no further than {rows[-1]['length'] if rows else 0}: {error}"
            break
    if len(rows) < 2:
        raise ContractError(f"cost: expected at least two lengths that the model can read, found fewer; {note}")
    counted = step_flops(stepper, whole, memory, [row["length"] for row in rows])
    for row in rows:
        row["flops"]["step"] = counted[row["length"]]
    return _reading(rows, note)


def _reading(rows: list[dict[str, Any]], note: str | None) -> Reading:
    lengths = [row["length"] for row in rows]
    curves = {f"{name}, {form}": [row[name][form] for row in rows] for name in QUANTITIES for form in rows[0][name]} | {
        "kept for training": [row["kept"] for row in rows]
    }
    exponents = {name: exponent(lengths, values) for name, values in curves.items()}
    charts = []
    for name, (title, y) in QUANTITIES.items():
        times = 1000 if y == "milliseconds" else 1
        lines = [_line(form, lengths, [times * value for value in curves[f"{name}, {form}"]]) for form in rows[0][name]]
        if name == "state":
            lines.append(_line("kept for training", lengths, curves["kept for training"]))
            title = "bytes of state, and what training keeps"
        if any(value for line in lines for value in line.y):  # what only counts multiplies nothing
            charts.append(Chart(title=title, x="length", y=y, lines=lines, log_x=True, log_y=True))
    longest = rows[-1]
    summary = [
        f"at length {longest['length']:,}: {longest['flops']['declared']:,} FLOPs declared, "
        f"{longest['flops']['parallel']:,} counted in parallel, {longest['flops']['step']:,} step by step",
        f"{longest['seconds']['parallel']:.2e} s in parallel, {longest['seconds']['step']:.2e} s step by step",
        f"{longest['state']['measured']:,} bytes of state ({longest['state']['declared']:,} declared), "
        f"{longest['kept']:,} bytes kept for training",
        "grows as length to the power: "
        + ", ".join(f"{name} {power:.2f}" for name, power in exponents.items() if power is not None),
    ]
    figures = {"rows": rows, "exponents": exponents}
    return Reading(summary=summary + ([note] if note else []), figures=figures, charts=charts)


def _line(name: str, lengths: Sequence[int], values: Sequence[float]) -> Line:
    return Line(name=name, x=list(lengths), y=[value if value > 0 else None for value in values])


@dataclass(frozen=True, kw_only=True)
class Options(Request):
    lengths: str | None = option(None, "Of cost: lengths, such as 16,64,256.")
    tries: int | None = option(None, "Of cost: tries, of which the fastest counts.", most=1_000)


def inspect(run: LoadedRun[Any, Any], options: Options) -> Reading:
    lengths = LENGTHS if options.lengths is None else parse_lengths(options.lengths)
    return read(probe_of(run, options), tries=options.tries or TRIES, lengths=lengths)


def parse_lengths(text: str) -> list[int]:
    """`16,64,256`."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) < 2 or found[0] < 1 or any(a >= b for a, b in pairwise(found)):
        raise ContractError(
            f"--lengths: expected rising numbers with commas between, such as 16,64,256, found {reprlib.repr(text)}"
        )
    if found[-1] > LONGEST:
        raise ContractError(
            f"--lengths: expected at most {LONGEST:,}, found {found[-1]:,}, that is, so many steps several times"
        )
    return found


INSTRUMENT = Instrument("cost", Options, inspect)
