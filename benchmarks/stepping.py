"""Steps of `recollect.load` on a CPU beside onnxruntime's own time for the same files, for the whole lineage."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from recollect.core.trained import Stepper
from recollect.models import language
from recollect.runtime.manifest import NEXT

from .exported import open_step
from .measure import Row, Run, attempt, compare

VOCAB, LAYERS = 256, 2
WIDTHS = (128, 512)
STEPS = 48  # of a run: fewer than one block of a cache, so that no memory is taken inside
MODELS = ("ar", "mlp", "rnn", "lstm", "gru", "tcn", "transformer", "linear-transformer", "ttt-linear", "ttt-mlp")
SEEN = (256, 4_096)  # tokens before a step of a Transformer


def stepping(device: str) -> Iterator[Row]:
    """Steps by `load(run).step`, beside the same graphs called through onnxruntime's own interfaces."""
    if device != "cpu":
        return
    for width in WIDTHS:
        for name in MODELS:
            title = f"step of {name} width {width}"
            yield attempt(title, device, partial(of_model, title, name, width))
    for seen in SEEN:
        title = f"step of transformer width 128 after {seen:,} tokens"
        yield attempt(title, device, partial(after, title, seen))


def of_model(title: str, name: Any, width: int, seen: int = 0) -> Row:
    torch.manual_seed(0)
    model = language.Config(vocab=VOCAB, model=name, width=width, layers=LAYERS, heads=4).build().eval()
    step = open_step(model, name, VOCAB, threads=1)
    call, token = Stepper(step), np.array([5], np.int64)
    started: Any = None
    for _ in range(seen):
        _, started = call(token, started)
    first = step.initial_state(1) if started is None else started

    def ours() -> Any:
        state = first.copy()
        for _ in range(STEPS):
            _, state = call(token, state)
        return state

    peers: dict[str, Run] = {
        "onnxruntime, arrays": partial(by_arrays, step, first, token),
        "onnxruntime, bound once": partial(by_binding, step, first, token),
    }
    row = compare(
        title,
        ours,
        peers,
        device="cpu",
        rounds=11,
        unit="steps",
        amount=STEPS,
        note=f"{LAYERS} layers, vocabulary {VOCAB}, float32, one row, one thread"
        + (f", after {seen:,} tokens" if seen else ""),
    )
    row.checked = "the same file, called by `load(run).step` and by onnxruntime's own two interfaces"
    return row


def after(title: str, seen: int) -> Row:
    """What a step costs after so many tokens: by the tokens seen, not by the room."""
    return of_model(title, "transformer", 128, seen)


def feeds_of(step: Any, state: Any, token: Any) -> dict[str, Any]:
    """The inputs of a graph with room for all the steps of a run."""
    found = {step.x.name: token}
    for own in step.fields:
        array = state.fields()[own.name]
        if own.grows:
            more = [(0, 0)] * array.ndim
            more[own.slot_axis] = (0, own.limit_slots(state.seen + STEPS) - array.shape[own.slot_axis])
            array = np.pad(array, more)
        found[own.name] = np.ascontiguousarray(array)
    return found


def by_arrays(step: Any, state: Any, token: Any) -> Any:
    """`session.run` with arrays in and out."""
    feeds = feeds_of(step, state.copy(), token)
    names = [value.name for value in step.session.get_outputs()]
    for _ in range(STEPS):
        found = dict(zip(names, step.session.run(names, feeds), strict=True))
        feeds |= {name.removeprefix(NEXT): array for name, array in found.items() if name.startswith(NEXT)}
    return found


def by_binding(step: Any, state: Any, token: Any) -> Any:
    """`session.run_with_iobinding` on memory that is bound once: a step is read and written in turns."""
    sides = [feeds_of(step, state.copy(), token) for _ in range(2)]
    for own in step.fields:
        if own.grows or own.constant:
            sides[1][own.name] = sides[0][own.name]
    y = np.zeros([1 if size == "batch" else size for size in step.y.shape], step.y.dtype)
    bindings = []
    for given, left in (sides, sides[::-1]):
        binding = step.session.io_binding()
        for name, array in given.items():
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in [(step.y.name, y), *((NEXT + f.name, left[f.name]) for f in step.fields if not f.constant)]:
            binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        bindings.append(binding)
    for number in range(STEPS):
        step.session.run_with_iobinding(bindings[number % 2])
    return y


ROWS = {"stepping": stepping}
