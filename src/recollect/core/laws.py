"""The laws of the contract, as functions that anyone can run on any layer.

Each returns the largest error it saw and raises `LawBroken` with one sentence that names the law, the
layer, what was tried and the error. They are stated for `eval()`; differences are relative to the largest
entry of each tensor, 1e-10 in float64 and 1e-5 in float32 where no tolerance is given. (A gradient tensor that is
nothing but rounding, such as that of a key's bias under a softmax, counts relative to 1e-4 of the largest one.)

1. chunk     any way to cut x into chunks gives the outputs, final state and gradients of the definition
2. cause     changing x_t changes no output before t
3. row       a row does not depend on its neighbours; rows are selected, repeated, reordered, joined at will
4. ragged    rows of unequal length give what each gives alone; nothing in the padding reaches anything
5. purity    a call does not change the state that it was given
6. size      the bytes of state after t steps are those declared, storage counted
7. file      a state saved mid-way, loaded elsewhere, continues identically; it can be forked and rewound
8. symmetry  (where claimed) full attention without positions commutes with permutations of its input
9. step      (where a model generates) what decodes with it gives the logits and log-probabilities of the definition

`cost` holds the declared FLOPs to those that are counted; `cost_of_parts` does so for every layer of a model, and for
its bytes of state. With `outputs` only outputs are compared: for a state whose form is the affair of a module that was
not written for this contract.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import state as states
from .comparison import (
    TOLERANCE,
    Cotangents,
    LawBroken,
    Named,
    compare_tensors,
    detach_all,
    pad_slots,
    weighted_gradients,
)
from .contract import Encoder, Layer, Memory, name_of
from .costs import COST_SHARE, check_cost, check_flops
from .limits import is_out_of_memory
from .outside import describe_error
from .ragged import mask, run

__all__ = [
    "STEP_TOLERANCE",
    "TOLERANCE",
    "Exempt",
    "Generated",
    "LawBroken",
    "buffered",
    "cause",
    "check",
    "chunk",
    "chunk_values",
    "cost",
    "cost_of_parts",
    "encoder_row",
    "file",
    "judge",
    "list_laws",
    "list_row_laws",
    "purity",
    "ragged",
    "ragged_values",
    "row",
    "search",
    "size",
    "step",
    "symmetry",
    "whole_rows",
]

STEP_TOLERANCE = {  # of law 9, by the precision of a decoder's products or of its rounded weights
    "float64": 1e-10,
    "float32": 1e-5,
    "tf32": 5e-3,
    "float16": 1e-2,
    "bfloat16": 5e-2,
    "int8": 1e-1,
}


class Generated(NamedTuple):
    """Texts that a decoder generated from prompts."""

    texts: list[list[int]]  # prompts included
    logits: Tensor  # B N V, after each of the N generated tokens
    state: Any  # after the texts


Law = Callable[[], float]  # the largest error of a law that holds; else it raises


class Exempt(NamedTuple):
    """A law that does not bind a model."""

    reason: str


def check(layer: Layer[Any], x: Tensor, memory: Memory | None = None) -> dict[str, float]:
    """Every law that binds a layer, each on a few cuts of x (T ≥ 4). Returns the largest error of each."""
    return {name: law() for name, law in list_laws(layer, x, memory).items()}


def judge(name: str, layer: Any, law: Law | Exempt) -> float | LawBroken | Exempt:
    """The largest error of a law that holds, or how it was broken; a layer that raises an error breaks it too."""
    if isinstance(law, Exempt):
        return law
    try:
        return law()
    except LawBroken as broken:
        return broken
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return LawBroken(f"{name.capitalize()} law broken by {name_of(layer)}: it raised {describe_error(error)}")


def list_laws(layer: Layer[Any], x: Tensor, memory: Memory | None = None) -> dict[str, Law]:
    """Every law that binds a layer, by its name; each runs on a few cuts of x (T ≥ 4)."""
    steps = x.shape[1]
    middle = steps // 2
    lengths = [max(0, steps - 2 * row) for row in range(len(x))]
    return {
        "chunk": lambda: max(
            chunk(layer, x, [steps], memory=memory),
            chunk(layer, x, [1] * steps, memory=memory),
            chunk(layer, x, [1, middle, steps - middle - 1], memory=memory),
            chunk(layer, x[:, 1:], [middle, steps - middle - 1], memory=memory, warm=x[:, :1]),
        ),
        "cause": lambda: max(cause(layer, x, t, memory=memory) for t in (1, middle, steps - 1)),
        "row": lambda: row(layer, x, memory=memory),
        "ragged": lambda: ragged(layer, x, lengths, memory=memory),
        "purity": lambda: purity(layer, x, memory=memory),
        "size": lambda: size(layer, x, memory=memory),
        "file": lambda: file(layer, x, memory=memory),
    }


def list_row_laws(model: Any, x: Tensor, reason: str) -> dict[str, Law | Exempt]:
    """The laws for a model that answers about whole rows at once; `reason` says why those of a state do not bind it."""
    steps = x.shape[1]
    lengths = [max(1, steps - 2 * row) for row in range(len(x))]
    return {
        "chunk": Exempt(reason),
        "cause": Exempt(reason),
        "row": lambda: whole_rows(model, x, [steps] * len(x)),
        "ragged": lambda: whole_rows(model, x, lengths),
        **dict.fromkeys(("purity", "size", "file"), Exempt(reason)),
    }


def chunk(
    layer: Layer[Any],
    x: Tensor,
    chunks: Sequence[int],
    *,
    memory: Memory | None = None,
    warm: Tensor | None = None,
    tolerance: float | None = None,
    outputs: bool = False,
) -> float:
    """Law 1. `chunks` are lengths that sum to T; `warm` (B T' D) is read first, to start from a used state."""
    in_chunks = _run_chunks(layer, chunks, x.shape[1])
    expected = _run_with_gradients(layer, layer.unroll, x, memory, warm, outputs)
    found = _run_with_gradients(layer, in_chunks, x, memory, warm, outputs)
    what = f"chunks of {'+'.join(map(str, chunks))}{' from a used state' if warm is not None else ''}"
    return max(
        compare_tensors(
            "Chunk", layer, f"{what} against the definition", found[kind], expected[kind], x.dtype, tolerance
        )
        for kind in expected
    )


def chunk_values(
    layer: Layer[Any],
    x: Tensor,
    chunks: Sequence[int],
    *,
    memory: Memory | None = None,
    tolerance: float | None = None,
    outputs: bool = False,
) -> float:
    """Law 1 without gradients: for models in use."""
    with torch.no_grad():
        y, state = layer.unroll(x, _initial_state(layer, x, memory))
        z, final = _run_chunks(layer, chunks, x.shape[1])(x, _initial_state(layer, x, memory))
    found, expected = [("y", z)], [("y", y)]
    if not outputs:
        found, expected = [*found, *states.named(final)], [*expected, *states.named(state)]
    what = f"chunks of {'+'.join(map(str, chunks))} against the definition"
    return compare_tensors("Chunk", layer, what, found, expected, x.dtype, tolerance)


def buffered(
    layer: Layer[Any],
    x: Tensor,
    chunks: Sequence[int],
    *,
    memory: Memory | None = None,
    tolerance: float | None = None,
) -> float:
    """The form with `capacity`: written in place and single-use, it owes the outputs of the definition."""
    with torch.no_grad():
        y, _ = layer.unroll(x, _initial_state(layer, x, memory))
        state = layer.initial_state(len(x), memory=memory, like=_like(x), capacity=x.shape[1])
        z, _ = _run_chunks(layer, chunks, x.shape[1])(x, state)
    what = f"a state with capacity {x.shape[1]}, chunks of {'+'.join(map(str, chunks))}"
    return compare_tensors("Chunk", layer, what, [("y", z)], [("y", y)], x.dtype, tolerance)


def cause(
    layer: Layer[Any], x: Tensor, t: int, *, memory: Memory | None = None, tolerance: float | None = None
) -> float:
    """Law 2: everything from step t on is changed by a large amount; the outputs before t must stay."""
    changed = torch.cat([x[:, :t], disturb(x[:, t:])], dim=1)
    with torch.no_grad():
        before, _ = layer(x, _initial_state(layer, x, memory))
        after, _ = layer(changed, _initial_state(layer, x, memory))
    what = f"changing the input from step {t} of {x.shape[1]} on"
    return compare_tensors("Cause", layer, what, [("y", after[:, :t])], [("y", before[:, :t])], x.dtype, tolerance)


def row(
    layer: Layer[Any],
    x: Tensor,
    *,
    memory: Memory | None = None,
    tolerance: float | None = None,
    outputs: bool = False,
) -> float:
    """Law 3. Needs T ≥ 2. With `outputs` no rows at different positions are joined."""
    batch, half = len(x), x.shape[1] // 2
    errors = []

    def compare(what: str, found: tuple[Tensor, Any], expected: tuple[Tensor, Any]) -> None:
        pair = [detach_all([("y", y), *states.named(() if outputs else state)]) for y, state in (found, expected)]
        errors.append(compare_tensors("Row", layer, what, *pad_slots(*pair), x.dtype, tolerance))

    with torch.no_grad():
        together = layer(x, _initial_state(layer, x, memory))
        for r in range(batch):
            one = torch.tensor([r], device=x.device)
            alone = layer(x[one], _initial_state(layer, x[one], states.select(memory, one)))
            compare(f"row {r} of {batch} alone", (together[0][one], states.select(together[1], one)), alone)
        _, middle = layer(x[:, :half], _initial_state(layer, x, memory))
        rows = torch.tensor([*reversed(range(batch)), 0], device=x.device)
        selected = layer(x[rows, half:], states.select(middle, rows))
        y, last = layer(x[:, half:], middle)
        compare(f"rows {rows.tolist()} selected at step {half}", selected, (y[rows], states.select(last, rows)))
        if outputs:
            return max(errors)
        # Rows that have seen different numbers of steps go on in one batch.
        parts, expected = [], []
        for r in range(batch):
            one = torch.tensor([r], device=x.device)
            seen = 1 + r % half
            _, state = layer(x[one, :seen], _initial_state(layer, x[one], states.select(memory, one)))
            parts.append(state)
            expected.append(layer(x[one, half:], state))
        y = torch.cat([y for y, _ in expected])
        compare(
            "rows at different positions joined in one batch",
            layer(x[:, half:], states.join(parts)),
            (y, states.join([state for _, state in expected])),
        )
    return max(errors)


def ragged(
    layer: Layer[Any],
    x: Tensor,
    lengths: Sequence[int],
    *,
    memory: Memory | None = None,
    tolerance: float | None = None,
) -> float:
    """Law 4, for `core.ragged.run`: NaN stands in the padding, and each row is held to what it gives alone."""

    together, apart = _padded_and_alone(layer, lengths)
    padding = ~mask(torch.tensor(lengths, device=x.device), x.shape[1])
    padding = padding.reshape(*padding.shape, *[1] * (x.dim() - 2))
    expected = _run_with_gradients(layer, apart, x.masked_fill(padding, 0), memory)
    found = _run_with_gradients(layer, together, _fill_padding(x, padding), memory)
    what = f"lengths {list(lengths)} with NaN in the padding against each row alone"
    return _compare_padded(layer, what, found, expected, x.dtype, tolerance)


def ragged_values(
    layer: Layer[Any],
    x: Tensor,
    lengths: Sequence[int],
    *,
    tolerance: float | None = None,
    outputs: bool = False,
) -> float:
    """Law 4 without gradients, for x without NaN: a module that is not ours may multiply its padding by 0."""
    together, apart = _padded_and_alone(layer, lengths)
    with torch.no_grad():
        runs = [run(x, _initial_state(layer, x, None)) for run in (together, apart)]
    found, expected = ([("y", y), *states.named(() if outputs else state)] for y, state in runs)
    what = f"lengths {list(lengths)} against each row alone"
    return compare_tensors("Ragged", layer, what, *pad_slots(found, expected), x.dtype, tolerance)


def purity(layer: Layer[Any], x: Tensor, *, memory: Memory | None = None) -> float:
    """Law 5, for a whole chunk and for one step, from a fresh and from a used state."""
    with torch.no_grad():
        fresh = _initial_state(layer, x, memory)
        _, used = layer(x[:, :1], fresh)
        for state, kind in ((fresh, "a fresh"), (used, "a used")):
            for part in (x, x[:, :1]):
                before = [tensor.clone() for tensor in states.leaves(state)]
                layer(part, state)
                for (name, now), was in zip(states.named(state), before, strict=True):
                    if not _identical(now, was):
                        error = (now.double() - was.double()).abs().max().item()
                        raise LawBroken(
                            f"Purity law broken by {name_of(layer)}: a call with {part.shape[1]} steps changed "
                            f"{name} of {kind} state that it was given, by {error:.3g}",
                            tensor=name,
                        )
    return 0.0


def size(layer: Layer[Any], x: Tensor, *, memory: Memory | None = None) -> float:
    """Law 6, step by step and in one chunk."""
    source = 0 if memory is None else memory.values.shape[1]

    def compare(state: Any, steps: int, how: str) -> None:
        declared, found = layer.cost(len(x), steps, source).state_bytes, states.nbytes(state)
        if declared != found:
            raise LawBroken(
                f"Size law broken by {name_of(layer)}: {declared} bytes of state declared after {steps} steps "
                f"with {len(x)} rows, {found} kept alive {how}",
                step=steps,
            )

    with torch.no_grad():
        state = _initial_state(layer, x, memory)
        compare(state, 0, "at the start")
        for t in range(x.shape[1]):
            _, state = layer(x[:, t : t + 1], state)
            compare(state, t + 1, "step by step")
        _, state = layer(x, _initial_state(layer, x, memory))
        compare(state, x.shape[1], "in one chunk")
    return 0.0


def file(layer: Layer[Any], x: Tensor, *, memory: Memory | None = None, outputs: bool = False) -> float:
    """Law 7: to the bit. Needs T ≥ 2."""
    half = x.shape[1] // 2
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        _, state = layer(x[:, :half], _initial_state(layer, x, memory))
        path = Path(folder) / "state.safetensors"
        states.save(state, path)
        loaded = states.load(path, like=state if outputs else _initial_state(layer, x, memory))
        straight = layer(x[:, half:], state)
        tries = {
            "loaded from a file": layer(x[:, half:], loaded),
            "forked": (layer(disturb(x[:, half:]), state), layer(x[:, half:], state))[1],
        }
        for how, again in tries.items():
            for (name, a), b in zip(
                [("y", again[0]), *states.named(again[1])],
                [straight[0], *states.leaves(straight[1])],
                strict=True,
            ):
                if not _identical(a, b):
                    error = (a.double() - b.double()).abs().max().item()
                    raise LawBroken(
                        f"File law broken by {name_of(layer)}: {name} differs by {error:.3g} after a state "
                        f"{how} at step {half} of {x.shape[1]} was continued",
                        tensor=name,
                        step=half,
                    )
    return 0.0


def cost(layer: Layer[Any], x: Tensor, *, memory: Memory | None = None, share: float = COST_SHARE) -> float:
    """Declared FLOPs against those counted step by step; returns their difference as a share of those counted."""
    return check_flops(layer, x, memory, share)


def cost_of_parts(layer: Layer[Any], x: Tensor, *, memory: Memory | None = None) -> float:
    """The same of a whole model and of every layer inside it, the bytes of state too."""
    return check_cost(layer, x, memory)


def symmetry(encoder: Encoder, x: Tensor, order: Sequence[int], *, tolerance: float | None = None) -> float:
    """Law 8: permuting the input permutes the output and does nothing else."""
    with torch.no_grad():
        found, expected = encoder(x[:, list(order)]).values, encoder(x).values[:, list(order)]
    what = f"the permutation {list(order)}"
    return compare_tensors("Symmetry", encoder, what, [("values", found)], [("values", expected)], x.dtype, tolerance)


def encoder_row(encoder: Encoder, x: Tensor, lengths: Sequence[int], *, tolerance: float | None = None) -> float:
    """Laws 3 and 4 for an encoder: each row gives what it gives alone, with NaN in the padding."""
    padding = ~mask(torch.tensor(lengths, device=x.device), x.shape[1])[..., None]
    weights = {name: parameter for name, parameter in encoder.named_parameters() if parameter.requires_grad}
    cotangent = Cotangents()

    def gather(parts: list[Memory], x: Tensor) -> dict[str, Named]:
        values = torch.cat([states.fit(part.values, x.shape[1]) for part in parts])
        summary = states.join([part.summary for part in parts]) if parts[0].summary is not None else ()
        outputs = [("values", values), *((f"summary.{name}", t) for name, t in states.named(summary))]
        inputs = {"x": x, **weights}
        return {
            "values": detach_all(outputs),
            "gradients": weighted_gradients(outputs, list(inputs.values()), list(inputs), cotangent),
        }

    clean = x.masked_fill(padding, 0).requires_grad_()
    alone = [encoder(clean[r : r + 1, :length]) for r, length in enumerate(lengths)]
    expected = gather(alone, clean)
    cotangent.rewind()
    dirty = x.masked_fill(padding, float("nan")).requires_grad_()
    found = gather([encoder(dirty, torch.tensor(lengths, device=x.device))], dirty)
    what = f"lengths {list(lengths)} with NaN in the padding against each row alone"
    return _compare_padded(encoder, what, found, expected, x.dtype, tolerance)


def whole_rows(model: Any, x: Tensor, lengths: Sequence[int], *, tolerance: float | None = None) -> float:
    """Laws 3 and 4 for a model that answers about whole rows: `model.last(x, lengths)` gives each its own."""
    padding = ~mask(torch.tensor(lengths, device=x.device), x.shape[1])
    padding = padding.reshape(*padding.shape, *[1] * (x.dim() - 2))
    weights = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    cotangent = Cotangents()

    def gather(answers: Tensor, x: Tensor) -> dict[str, Named]:
        cotangent.rewind()
        inputs = {"x": x, **weights} if x.requires_grad else weights
        gradients = weighted_gradients([("y", answers)], list(inputs.values()), list(inputs), cotangent)
        return {"values": [("y", answers.detach())], "gradients": gradients}

    def leaf(x: Tensor) -> Tensor:
        return x.requires_grad_() if x.is_floating_point() else x

    clean, dirty = leaf(x.masked_fill(padding, 0)), leaf(_fill_padding(x, padding))
    alone = [model.last(clean[r : r + 1, :length]) for r, length in enumerate(lengths)]
    expected = gather(torch.cat(alone), clean)
    found = gather(model.last(dirty, torch.tensor(lengths, device=x.device)), dirty)
    what = f"lengths {list(lengths)} with NaN in the padding against each row alone"
    return _compare_padded(model, what, found, expected, x.dtype, tolerance)


def step(
    layer: Layer[Any],
    x: Tensor,
    generate: Callable[[list[list[int]], int], Generated],
    precision: str,
    *,
    tolerance: float | None = None,
) -> float:
    """Law 9: `generate(prompts, length)` runs the decoder of a model; `layer` is that model in float64. Needs T ≥ 4.

    The decoder continues prompts of unequal length from x (B T tokens). The definition reads the same texts, each
    alone, and must give the same logits. The decoder's last state is continued by the layer's own call.
    """
    half = x.shape[1] // 2
    prompts = [x[row, : max(1, half - row)].tolist() for row in range(len(x))]
    texts, logits, state = generate(prompts, x.shape[1] - half - 1)
    with torch.no_grad():
        # a state of its own: that of a decoder may be on a GPU, and closed to writing
        state = states.map(torch.clone, states.move(state, device=x.device, dtype=torch.float64))
        found = torch.cat([logits.to(x.device), layer(x[:, -1:], state)[0]], dim=1)
        expected = []
        for row, text in enumerate(texts):
            tokens = torch.cat([x.new_tensor([text]), x[row : row + 1, -1:]], dim=1)
            expected.append(layer.unroll(tokens, layer.initial_state(1))[0][:, -found.shape[1] :])
    what = f"generation in {precision} against the definition"
    allowed = STEP_TOLERANCE[precision] if tolerance is None else tolerance
    return compare_tensors(
        "Step", layer, what, [("logits", found)], [("logits", torch.cat(expected))], x.dtype, allowed
    )


def search(
    layer: Layer[Any],
    memory: Memory,
    texts: Sequence[Sequence[tuple[list[int], float]]],
    begin: int,
    precision: str,
    *,
    tolerance: float | None = None,
) -> float:
    """Law 9 for a search from a memory: (tokens, log p) of the texts found for each row are those of the definition.

    `layer` is the model in float64. Tokens include the end of a text that has one.
    """
    found, expected = [], []
    with torch.no_grad():
        for row, hypotheses in enumerate(texts):
            own = states.select(memory, torch.tensor([row], device=memory.values.device))
            for tokens, logprob in hypotheses:
                chosen = torch.tensor([begin, *tokens], device=memory.values.device)
                logits, _ = layer.unroll(chosen[None, :-1], layer.initial_state(1, memory=own))
                expected.append(logits[0].log_softmax(dim=-1).gather(1, chosen[1:, None]).sum().cpu())
                found.append(logprob)
    what = f"search in {precision} against the definition"
    allowed = STEP_TOLERANCE[precision] if tolerance is None else tolerance
    pair = [("log p", torch.tensor(found, dtype=torch.float64))], [("log p", torch.stack(expected))]
    return compare_tensors("Step", layer, what, *pair, torch.float64, allowed)


# The layer as the laws call it


def _identical(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are equal to the last bit; NaN equals NaN."""
    return torch.equal(a, b) or (a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all()))


def _like(x: Tensor) -> Tensor | None:
    return x if x.is_floating_point() else None


def _initial_state(layer: Layer[Any], x: Tensor, memory: Memory | None) -> Any:
    return layer.initial_state(len(x), memory=memory, like=_like(x))


def _run_chunks(layer: Layer[Any], chunks: Sequence[int], steps: int) -> Callable[[Tensor, Any], tuple[Tensor, Any]]:
    """The layer called chunk by chunk, its state carried over."""
    if sum(chunks) != steps or min(chunks) < 1:
        raise ValueError(f"chunks: expected lengths ≥ 1 that sum to {steps}, found {list(chunks)}")

    def run(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        outputs = []
        for part in x.split(list(chunks), dim=1):
            y, state = layer(part, state)
            outputs.append(y)
        return torch.cat(outputs, dim=1), state

    return run


def _padded_and_alone(layer: Layer[Any], lengths: Sequence[int]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Two ways to run rows of unequal length: in one padded batch, and each alone."""

    def together(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        return run(layer, x, lengths, state)

    def apart(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        outputs, finals = [], []
        for r, length in enumerate(lengths):
            own = states.select(state, torch.tensor([r], device=x.device))
            y = torch.zeros(1, 0, layer.width, dtype=layer.like().dtype, device=x.device)
            if length:
                y, own = layer(x[r : r + 1, :length], own)
            outputs.append(states.fit(y, x.shape[1]))
            finals.append(own)
        return torch.cat(outputs), states.join(finals)

    return together, apart


def disturb(x: Tensor) -> Tensor:
    """Large and finite: a mask by −inf would meet 0·NaN."""
    return x.flip(0, 1) * -30 + 10 if x.is_floating_point() else (x + 1) % (x.max() + 1)


def _fill_padding(x: Tensor, padding: Tensor) -> Tensor:
    """The worst that can stand in the padding: NaN, or where x are tokens another token."""
    return x.masked_fill(padding, float("nan")) if x.is_floating_point() else torch.where(padding, disturb(x), x)


def _compare_padded(
    layer: Any,
    what: str,
    found: dict[str, Named],
    expected: dict[str, Named],
    dtype: torch.dtype,
    tolerance: float | None,
) -> float:
    """Law 4, of values and gradients."""
    return max(
        compare_tensors("Ragged", layer, what, *pad_slots(found[kind], expected[kind]), dtype, tolerance)
        for kind in expected
    )


def _run_with_gradients(
    layer: Layer[Any],
    forward: Callable[[Tensor, Any], tuple[Tensor, Any]],
    x: Tensor,
    memory: Memory | None,
    warm: Tensor | None = None,
    outputs: bool = False,
) -> dict[str, Named]:
    """Outputs, final state and the gradients of inputs, memory, parameters and incoming state."""
    inputs: dict[str, Tensor] = {}
    if x.is_floating_point():
        x = inputs["x"] = x.detach().requires_grad_()
    if memory is not None:
        memory = states.map(lambda t: t.detach().clone().requires_grad_(t.is_floating_point()), memory)
        inputs |= {f"memory.{name}": tensor for name, tensor in states.named(memory) if tensor.requires_grad}
    state = _initial_state(layer, x, memory)
    if warm is not None:
        with torch.no_grad():
            _, state = layer.unroll(warm, state)
        state = states.map(lambda t: t.clone().requires_grad_(t.is_floating_point()), state)
        inputs |= {f"state.{name}": tensor for name, tensor in states.named(state) if tensor.requires_grad}
    y, final = forward(x, state)
    inputs |= {name: parameter for name, parameter in layer.named_parameters() if parameter.requires_grad}
    results = [("y", y), *((f"state.{name}", t) for name, t in states.named(() if outputs else final))]
    return {
        "values": detach_all(results),
        "gradients": weighted_gradients(results, list(inputs.values()), list(inputs), Cotangents()),
    }
