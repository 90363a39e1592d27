"""The laws of the contract, as functions that anyone can run on any layer.

Each returns the largest error it saw and raises `LawBroken` with one sentence that names the law, the
layer, what was tried and the error. They are stated for `eval()`; differences are relative to the largest
entry of each tensor, 1e-10 in float64 and 1e-5 in float32 unless told otherwise. (A gradient tensor that is
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
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import state as states
from .contract import Encoder, Layer, Memory, name_of
from .ragged import mask, run

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
STEP_TOLERANCE = {  # of law 9, by the precision of a decoder's products or of its rounded weights
    "float64": 1e-10,
    "float32": 1e-5,
    "tf32": 5e-3,
    "float16": 1e-2,
    "bfloat16": 5e-2,
    "int8": 1e-1,
}
Named = list[tuple[str, Tensor]]


class LawBroken(AssertionError):
    """A layer does not keep the contract."""


class Generated(NamedTuple):
    """Texts that a decoder generated from prompts."""

    texts: list[list[int]]  # prompts included
    logits: Tensor  # B N V, after each of the N generated tokens
    state: Any  # after the texts


def check(layer: Layer[Any], x: Tensor, memory: Memory | None = None) -> dict[str, float]:
    """Every law that binds a layer, each on a few cuts of x (T ≥ 4). Returns the largest error of each."""
    steps = x.shape[1]
    middle = steps // 2
    lengths = [max(0, steps - 2 * row) for row in range(len(x))]
    return {
        "chunk": max(
            chunk(layer, x, [steps], memory=memory),
            chunk(layer, x, [1] * steps, memory=memory),
            chunk(layer, x, [1, middle, steps - middle - 1], memory=memory),
            chunk(layer, x[:, 1:], [middle, steps - middle - 1], memory=memory, warm=x[:, :1]),
        ),
        "cause": max(cause(layer, x, t, memory=memory) for t in (1, middle, steps - 1)),
        "row": row(layer, x, memory=memory),
        "ragged": ragged(layer, x, lengths, memory=memory),
        "purity": purity(layer, x, memory=memory),
        "size": size(layer, x, memory=memory),
        "file": file(layer, x, memory=memory),
    }


def chunk(
    layer: Layer[Any],
    x: Tensor,
    chunks: Sequence[int],
    *,
    memory: Memory | None = None,
    warm: Tensor | None = None,
    tolerance: float | None = None,
) -> float:
    """Law 1. `chunks` are lengths that sum to T; `warm` (B T' D) is read first, to start from a used state."""
    in_chunks = _in_chunks(layer, chunks, x.shape[1])
    expected = _everything(layer, layer.unroll, x, memory, warm)
    found = _everything(layer, in_chunks, x, memory, warm)
    what = f"chunks of {'+'.join(map(str, chunks))}{' from a used state' if warm is not None else ''}"
    return max(
        _compare("Chunk", layer, f"{what} against the definition", found[kind], expected[kind], x.dtype, tolerance)
        for kind in expected
    )


def chunk_values(
    layer: Layer[Any],
    x: Tensor,
    chunks: Sequence[int],
    *,
    memory: Memory | None = None,
    tolerance: float | None = None,
) -> float:
    """Law 1 without gradients: for models in use."""
    with torch.no_grad():
        y, state = layer.unroll(x, _start(layer, x, memory))
        z, final = _in_chunks(layer, chunks, x.shape[1])(x, _start(layer, x, memory))
    found, expected = [("y", z), *states.named(final)], [("y", y), *states.named(state)]
    what = f"chunks of {'+'.join(map(str, chunks))} against the definition"
    return _compare("Chunk", layer, what, found, expected, x.dtype, tolerance)


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
        y, _ = layer.unroll(x, _start(layer, x, memory))
        state = layer.initial_state(len(x), memory=memory, like=_like(x), capacity=x.shape[1])
        z, _ = _in_chunks(layer, chunks, x.shape[1])(x, state)
    what = f"a state with capacity {x.shape[1]}, chunks of {'+'.join(map(str, chunks))}"
    return _compare("Chunk", layer, what, [("y", z)], [("y", y)], x.dtype, tolerance)


def cause(
    layer: Layer[Any], x: Tensor, t: int, *, memory: Memory | None = None, tolerance: float | None = None
) -> float:
    """Law 2: everything from step t on is changed by a large amount; the outputs before t must stay."""
    changed = torch.cat([x[:, :t], _disturb(x[:, t:])], dim=1)
    with torch.no_grad():
        before, _ = layer(x, _start(layer, x, memory))
        after, _ = layer(changed, _start(layer, x, memory))
    what = f"changing the input from step {t} of {x.shape[1]} on"
    return _compare("Cause", layer, what, [("y", after[:, :t])], [("y", before[:, :t])], x.dtype, tolerance)


def row(layer: Layer[Any], x: Tensor, *, memory: Memory | None = None, tolerance: float | None = None) -> float:
    """Law 3. Needs T ≥ 2."""
    batch, half = len(x), x.shape[1] // 2
    errors = []

    def compare(what: str, found: tuple[Tensor, Any], expected: tuple[Tensor, Any]) -> None:
        pair = [_align([("y", y), *states.named(state)]) for y, state in (found, expected)]
        errors.append(_compare("Row", layer, what, *_same_slots(*pair), x.dtype, tolerance))

    with torch.no_grad():
        together = layer(x, _start(layer, x, memory))
        for r in range(batch):
            one = torch.tensor([r], device=x.device)
            alone = layer(x[one], _start(layer, x[one], states.select(memory, one)))
            compare(f"row {r} of {batch} alone", (together[0][one], states.select(together[1], one)), alone)
        _, middle = layer(x[:, :half], _start(layer, x, memory))
        rows = torch.tensor([*reversed(range(batch)), 0], device=x.device)
        compare(
            f"rows {rows.tolist()} selected at step {half}",
            layer(x[rows, half:], states.select(middle, rows)),
            (together[0][rows, half:], states.select(together[1], rows)),
        )
        # Rows that have seen different numbers of steps go on in one batch.
        parts, expected = [], []
        for r in range(batch):
            one = torch.tensor([r], device=x.device)
            seen = 1 + r % half
            _, state = layer(x[one, :seen], _start(layer, x[one], states.select(memory, one)))
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

    padding = ~mask(torch.tensor(lengths, device=x.device), x.shape[1])
    padding = padding.reshape(*padding.shape, *[1] * (x.dim() - 2))
    expected = _everything(layer, apart, x.masked_fill(padding, 0), memory)
    found = _everything(layer, together, _junk(x, padding), memory)
    what = f"lengths {list(lengths)} with NaN in the padding against each row alone"
    return max(
        _compare("Ragged", layer, what, *_same_slots(found[kind], expected[kind]), x.dtype, tolerance)
        for kind in expected
    )


def purity(layer: Layer[Any], x: Tensor, *, memory: Memory | None = None) -> float:
    """Law 5, for a whole chunk and for one step, from a fresh and from a used state."""
    with torch.no_grad():
        fresh = _start(layer, x, memory)
        _, used = layer(x[:, :1], fresh)
        for state, kind in ((fresh, "a fresh"), (used, "a used")):
            for part in (x, x[:, :1]):
                before = [tensor.clone() for tensor in states.leaves(state)]
                layer(part, state)
                for (name, now), was in zip(states.named(state), before, strict=True):
                    if not torch.equal(now, was):
                        error = (now.double() - was.double()).abs().max().item()
                        raise LawBroken(
                            f"Purity law broken by {name_of(layer)}: a call with {part.shape[1]} steps changed "
                            f"{name} of {kind} state that it was given, by {error:.3g}"
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
                f"with {len(x)} rows, {found} kept alive {how}"
            )

    with torch.no_grad():
        state = _start(layer, x, memory)
        compare(state, 0, "at the start")
        for t in range(x.shape[1]):
            _, state = layer(x[:, t : t + 1], state)
            compare(state, t + 1, "step by step")
        _, state = layer(x, _start(layer, x, memory))
        compare(state, x.shape[1], "in one chunk")
    return 0.0


def file(layer: Layer[Any], x: Tensor, *, memory: Memory | None = None) -> float:
    """Law 7: to the bit. Needs T ≥ 2."""
    half = x.shape[1] // 2
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        _, state = layer(x[:, :half], _start(layer, x, memory))
        path = Path(folder) / "state.safetensors"
        states.save(state, path)
        loaded = states.load(path, like=_start(layer, x, memory))
        straight = layer(x[:, half:], state)
        tries = {
            "loaded from a file": layer(x[:, half:], loaded),
            "forked": (layer(_disturb(x[:, half:]), state), layer(x[:, half:], state))[1],
        }
        for how, again in tries.items():
            for (name, a), b in zip(
                [("y", again[0]), *states.named(again[1])],
                [straight[0], *states.leaves(straight[1])],
                strict=True,
            ):
                if not torch.equal(a, b):
                    error = (a.double() - b.double()).abs().max().item()
                    raise LawBroken(
                        f"File law broken by {name_of(layer)}: {name} differs by {error:.3g} after a state "
                        f"{how} at step {half} of {x.shape[1]} was continued"
                    )
    return 0.0


def symmetry(encoder: Encoder, x: Tensor, order: Sequence[int], *, tolerance: float | None = None) -> float:
    """Law 8: permuting the input permutes the output and does nothing else."""
    with torch.no_grad():
        found, expected = encoder(x[:, list(order)]).values, encoder(x).values[:, list(order)]
    what = f"the permutation {list(order)}"
    return _compare("Symmetry", encoder, what, [("values", found)], [("values", expected)], x.dtype, tolerance)


def encoder_row(encoder: Encoder, x: Tensor, lengths: Sequence[int], *, tolerance: float | None = None) -> float:
    """Laws 3 and 4 for an encoder: each row gives what it gives alone, with NaN in the padding."""
    padding = ~mask(torch.tensor(lengths, device=x.device), x.shape[1])[..., None]
    weights = {name: parameter for name, parameter in encoder.named_parameters() if parameter.requires_grad}
    cotangent = _Cotangents()

    def gather(parts: list[Memory], x: Tensor) -> dict[str, Named]:
        values = torch.cat([states.fit(part.values, x.shape[1]) for part in parts])
        summary = states.join([part.summary for part in parts]) if parts[0].summary is not None else ()
        outputs = [("values", values), *((f"summary.{name}", t) for name, t in states.named(summary))]
        inputs = {"x": x, **weights}
        return {
            "values": _align(outputs),
            "gradients": _gradients(outputs, list(inputs.values()), list(inputs), cotangent),
        }

    clean = x.masked_fill(padding, 0).requires_grad_()
    alone = [encoder(clean[r : r + 1, :length]) for r, length in enumerate(lengths)]
    expected = gather(alone, clean)
    cotangent.rewind()
    dirty = x.masked_fill(padding, float("nan")).requires_grad_()
    found = gather([encoder(dirty, torch.tensor(lengths, device=x.device))], dirty)
    what = f"lengths {list(lengths)} with NaN in the padding against each row alone"
    return max(
        _compare("Ragged", encoder, what, *_same_slots(found[kind], expected[kind]), x.dtype, tolerance)
        for kind in expected
    )


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
    return _compare("Step", layer, what, [("logits", found)], [("logits", torch.cat(expected))], x.dtype, allowed)


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
    return _compare("Step", layer, what, *pair, torch.float64, allowed)


# How the laws look at a layer


def _like(x: Tensor) -> Tensor | None:
    return x if x.is_floating_point() else None


def _start(layer: Layer[Any], x: Tensor, memory: Memory | None) -> Any:
    return layer.initial_state(len(x), memory=memory, like=_like(x))


def _in_chunks(layer: Layer[Any], chunks: Sequence[int], steps: int) -> Callable[[Tensor, Any], tuple[Tensor, Any]]:
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


def _disturb(x: Tensor) -> Tensor:
    """Large and finite: a mask by −inf would meet 0·NaN."""
    return x.flip(0, 1) * -30 + 10 if x.is_floating_point() else (x + 1) % (x.max() + 1)


def _junk(x: Tensor, padding: Tensor) -> Tensor:
    """The worst that can stand in the padding: NaN, or where x are tokens another token."""
    return x.masked_fill(padding, float("nan")) if x.is_floating_point() else torch.where(padding, _disturb(x), x)


class _Cotangents:
    """The same random directions for both sides of a comparison."""

    def __init__(self) -> None:
        self.rewind()

    def rewind(self) -> None:
        self.generator = torch.Generator().manual_seed(7)

    def like(self, tensor: Tensor) -> Tensor:
        """The direction of a slot does not depend on how many empty ones follow it."""
        rows, *rest = tensor.shape
        slots = [max(64, rest[0]), *rest[1:]] if rest else []
        direction = torch.randn(rows, *slots, generator=self.generator, dtype=torch.float64)
        return (direction[:, : rest[0]] if rest else direction).to(tensor)


def _everything(
    layer: Layer[Any],
    forward: Callable[[Tensor, Any], tuple[Tensor, Any]],
    x: Tensor,
    memory: Memory | None,
    warm: Tensor | None = None,
) -> dict[str, Named]:
    """Outputs, final state and the gradients of inputs, memory, parameters and incoming state."""
    inputs: dict[str, Tensor] = {}
    if x.is_floating_point():
        x = inputs["x"] = x.detach().requires_grad_()
    if memory is not None:
        memory = states.map(lambda t: t.detach().clone().requires_grad_(t.is_floating_point()), memory)
        inputs |= {f"memory.{name}": tensor for name, tensor in states.named(memory) if tensor.requires_grad}
    state = _start(layer, x, memory)
    if warm is not None:
        with torch.no_grad():
            _, state = layer.unroll(warm, state)
        state = states.map(lambda t: t.clone().requires_grad_(t.is_floating_point()), state)
        inputs |= {f"state.{name}": tensor for name, tensor in states.named(state) if tensor.requires_grad}
    y, final = forward(x, state)
    inputs |= {name: parameter for name, parameter in layer.named_parameters() if parameter.requires_grad}
    outputs = [("y", y), *((f"state.{name}", tensor) for name, tensor in states.named(final))]
    return {
        "values": _align(outputs),
        "gradients": _gradients(outputs, list(inputs.values()), list(inputs), _Cotangents()),
    }


def _gradients(outputs: Named, inputs: list[Tensor], names: list[str], cotangents: _Cotangents) -> Named:
    """The gradients of a random weighting of all outputs."""
    weighted = [(tensor, cotangents.like(tensor)) for _, tensor in outputs]
    total = sum((tensor * weight).sum() for tensor, weight in weighted if tensor.requires_grad)
    gradients = [None] * len(inputs)
    if isinstance(total, Tensor):
        gradients = torch.autograd.grad(total, inputs, allow_unused=True)
    return [
        (f"gradient of {name}", torch.zeros_like(tensor) if gradient is None else gradient)
        for name, tensor, gradient in zip(names, inputs, gradients, strict=True)
    ]


def _align(outputs: Iterable[tuple[str, Tensor]]) -> Named:
    return [(name, tensor.detach()) for name, tensor in outputs]


def _same_slots(found: Named, expected: Named) -> tuple[Named, Named]:
    """Pad the shorter of two growing tensors with empty slots, so that only what they hold is compared."""
    pairs: tuple[Named, Named] = ([], [])
    for (name, a), (_, b) in zip(found, expected, strict=True):
        if a.dim() > 1 and name != "y" and not name.startswith("gradient"):
            slots = max(a.shape[1], b.shape[1])
            a, b = states.fit(a, slots), states.fit(b, slots)
        pairs[0].append((name, a))
        pairs[1].append((name, b))
    return pairs


def _compare(
    law: str,
    layer: Any,
    what: str,
    found: Named,
    expected: Named,
    dtype: torch.dtype,
    tolerance: float | None,
) -> float:
    if tolerance is None:
        found_in = next((t.dtype for _, t in expected if t.is_floating_point()), dtype)
        tolerance = TOLERANCE[torch.float64 if found_in == torch.float64 else torch.float32]
    worst = 0.0
    gradients = [float(t.abs().max()) for name, t in expected if name.startswith("gradient") and t.numel()]
    for (name, a), (_, b) in zip(found, expected, strict=True):
        if a.shape != b.shape:
            raise LawBroken(
                f"{law} law broken by {name_of(layer)}: {what}: {name} has shape {tuple(a.shape)}, "
                f"expected {tuple(b.shape)}"
            )
        if not b.numel():
            continue
        a, b = a.double(), b.double()
        scale = max(float(b.abs().max()), float(a.abs().max()), 1e-4 * max(gradients, default=0.0))
        error = float((a - b).abs().max()) / scale if scale else 0.0
        if not error <= tolerance:  # NaN is an error too
            raise LawBroken(
                f"{law} law broken by {name_of(layer)}: {what}: {name} differs by {error:.3g} "
                f"of its largest entry, allowed {tolerance:g}"
            )
        worst = max(worst, error)
    return worst
