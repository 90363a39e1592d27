"""How time and memory of a layer grow with the length: from 256 steps to 64 thousand, and the fitted exponent."""

import os
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import recollect
from recollect.core.contract import Memory
from recollect.layers import LINEAGE
from recollect.measure.cost import exponent

from .floors import floor
from .measure import Row, attempt, one_line, recover, seconds_of

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler would say each time that it starts and stops

LENGTHS = [2**power for power in range(8, 17)]
LONGEST = {"cpu": 0.2, "cuda": 0.4}  # seconds of a call, after which no longer one is made
LEAST = 3  # lengths at least, or nothing could be fitted
WIDTH, SOURCE = {"cpu": 128, "cuda": 512}, 64
TRIES = 3
MATRICES = ("linear-attention", "retention", "gla", "mamba2", "delta", "gated-delta", "ttt-linear", "ttt-mlp")
HEADS = {name: {"heads": 4} for name in ("attention", *MATRICES, "cross-attention")}
RECURRENT = ("rnn", "lstm", "gru", "soft-align")  # a step waits for the one before


def scaling(device: str) -> Iterator[Row]:
    """Time and memory of each layer against the length, from 256 to 64 k, with the exponent."""
    for name in LINEAGE:
        for backward in (False, True) if device == "cuda" else (False,):
            title = f"scaling {name} {'forward+backward' if backward else 'forward'}"
            yield attempt(title, device, partial(one, title, device, name, backward))


def one(title: str, device: str, name: str, backward: bool) -> Row:
    width = WIDTH[device]
    layer = recollect.build(name, dim=width, **HEADS.get(name, {})).to(device)
    values = torch.randn(1, SOURCE, width, device=device)
    memory = Memory(values, torch.ones(1, SOURCE, dtype=torch.bool, device=device)) if reads(name) else None
    weights = list(layer.parameters())

    def run(x: Any) -> Any:
        with torch.set_grad_enabled(backward):
            y, state = layer(x, layer.initial_state(1, memory=memory))
            return torch.autograd.grad(y.sum(), [x, *weights], allow_unused=True) if backward else (y, state)

    lengths, times, peaks, note = [], [], [], f"B1 D{width}, float32"
    for length in LENGTHS:
        x = torch.randn(1, length, width, device=device, requires_grad=backward)
        try:
            seconds_of(partial(run, x), 1, device)
            tries = [seconds_of(partial(run, x), 1, device) for _ in range(TRIES)]
            peak = peak_bytes(partial(run, x), device)
        except Exception as error:
            note += f"; none at {length:,}: {one_line(error)}"
            recover(device)
            break
        lengths.append(length)
        times.append(tries)
        peaks.append(peak)
        if statistics.median(tries) > LONGEST[device] and len(lengths) >= LEAST:
            break
    if not lengths:
        return Row(title, device, {}, note=note, error=note)
    medians = [statistics.median(tries) for tries in times]
    fit = {"time": exponent(lengths, medians), "memory": exponent(lengths, peaks)}
    passes = 3 if backward else 1
    moved = 4 * (sum(weight.numel() for weight in weights) + 2 * lengths[-1] * width)
    return Row(
        title,
        device,
        {"median": medians[-1], "low": min(times[-1]), "high": max(times[-1]), "rounds": TRIES, "bytes": peaks[-1]},
        note=note,
        floor=floor(
            device,
            flops=passes * layer.cost(1, lengths[-1], SOURCE if memory else 0).flops,
            bytes=moved * (2 if backward else 1),
            steps=lengths[-1] * (2 if backward else 1) if name in RECURRENT else 0,
        ),
        unit="tokens",
        amount=lengths[-1],
        series={"length": lengths, "seconds": medians, "bytes": peaks},
        fit={what: value for what, value in fit.items() if value is not None},
    )


def reads(name: str) -> bool:
    """Whether a layer reads a source."""
    return LINEAGE[name](dim=4).example(1, 1).memory is not None


def peak_bytes(run: Callable[[], object], device: str) -> int:
    """The most memory that a call holds at once, beyond what was there before it."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    recorded: Any = seen.profiler
    changes = [event for event in recorded.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(changes, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


ROWS = {"scaling": scaling}
