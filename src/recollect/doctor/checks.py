"""Which laws bind what is examined, and the attempts that are made at each: calls of `core.laws`, small and few."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..core import laws
from ..core import state as states
from ..core.comparison import LawBroken, compare_tensors
from ..core.contract import Layer, name_of
from .huggingface import Causal
from .subject import Stepped, Subject, Whole

LAWS = ("repeat", "purity", "cause", "chunk", "row", "ragged", "size", "file", "cost")


class Attempt(NamedTuple):
    """One call of a law: `function(layer, x, *arguments, **settings)`."""

    function: Callable[..., float]
    arguments: tuple[Any, ...] = ()
    settings: dict[str, Any] = {}  # noqa: RUF012 (never written to)

    def run(self, layer: Layer[Any], x: Tensor) -> float:
        return self.function(layer, x, *self.arguments, **self.settings)

    def source(self, layer: str, x: str) -> str:
        """The call as a line of Python."""
        words = [layer, x, *map(repr, self.arguments), *(f"{name}={value!r}" for name, value in self.settings.items())]
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}({', '.join(words)})"


def repeat(layer: Layer[Any], x: Tensor) -> float:
    """The same call twice gives the same: else nothing can be said of a difference between two calls."""
    with torch.no_grad():
        first, again = (layer(x, states.map(torch.clone, layer.initial_state(len(x))))[0] for _ in range(2))
    tolerance = getattr(layer, "tolerance", None)
    return compare_tensors("Repeat", layer, "the same call again", [("y", again)], [("y", first)], x.dtype, tolerance)


def purity(layer: Subject, x: Tensor) -> float:
    """Law 5 for a module of others: neither tensors nor the containers around them are changed by a call."""
    with torch.no_grad():
        fresh = layer.initial_state(len(x))
        _, used = layer(x[:, :1], fresh)
        for state, kind in ((fresh, "a fresh"), (used, "a used")):
            for part in (x, x[:, :1]):
                layer(part, state)
                if layer.altered:
                    raise LawBroken(
                        f"Purity law broken by {name_of(layer)}: a call with {part.shape[1]} steps changed "
                        f"{layer.altered} in {kind} state that it was given"
                    )
    return 0.0


def size(layer: Subject, x: Tensor) -> float:
    """Law 6 for a module of others, from its first step on: many make their state in the first call."""
    with torch.no_grad():
        for how, cuts in (("step by step", [1] * x.shape[1]), ("in one chunk", [x.shape[1]])):
            state, steps = layer.initial_state(len(x)), 0
            for part in x.split(cuts, dim=1):
                _, state = layer(part, state)
                steps += part.shape[1]
                declared, found = layer.cost(len(x), steps).state_bytes, states.nbytes(state)
                if declared != found:
                    raise LawBroken(
                        f"Size law broken by {name_of(layer)}: {declared} bytes of state declared after {steps} steps "
                        f"with {len(x)} rows, {found} kept alive {how}",
                        step=steps,
                    )
    return 0.0


def reason_against(law: str, layer: Layer[Any]) -> str | None:
    """Why a law does not bind what is examined; None where it does."""
    if not isinstance(layer, Subject):
        return None
    declares = callable(getattr(layer.target, "cost", None))
    if law in ("size", "cost") and not declares:
        return "no cost(batch, steps) is declared"
    if law == "size" and isinstance(layer, Whole):
        return "there is no state"
    if law in ("purity", "file") and isinstance(layer, Whole):
        return "there is no state"
    if law == "purity" and isinstance(layer, Causal):
        return "past_key_values is written in place by design; here each call gets a copy"
    if law == "chunk" and isinstance(layer, Stepped) and layer.sequence is None:
        return "there is a step alone, so that every cut is the same loop; add forward(x, state) to its file"
    if law == "cause" and isinstance(layer, Stepped) and layer.sequence is None:
        return "there is a step alone, which sees no later input"
    if law == "ragged" and layer.padding is None:
        return "forward takes no lengths and no mask of the padding"
    return None


def least_steps(law: str) -> int:
    """The fewest steps at which a law says something."""
    return 1 if law in ("repeat", "purity", "size", "cost") else 2


def least_rows(law: str) -> int:
    """The fewest rows at which a law says something."""
    return 2 if law == "row" else 1


def attempts(law: str, layer: Layer[Any], batch: int, steps: int) -> Sequence[Attempt]:
    """The calls of a law for x of so many rows and steps."""
    foreign = isinstance(layer, Subject)
    tolerance = getattr(layer, "tolerance", None)
    rough = {} if tolerance is None else {"tolerance": tolerance}
    outputs = {"outputs": True} if foreign else {}
    middle = steps // 2
    if law == "repeat":
        return [Attempt(repeat)]
    if law == "purity":
        return [Attempt(purity if foreign else laws.purity)]
    if law == "cause":
        return [Attempt(laws.cause, (t,), rough) for t in sorted({1, middle, steps - 1})]
    if law == "chunk":
        cuts = [[steps], [1] * steps] + ([[1, middle, steps - middle - 1]] if steps > 3 else [])
        exact = tolerance is None and has_gradients(layer)
        values = [Attempt(laws.chunk_values, (cut,), rough | outputs) for cut in cuts]
        return values + ([Attempt(laws.chunk, (cut,), outputs) for cut in cuts] if exact else [])
    if law == "row":
        return [Attempt(laws.row, (), rough | outputs)]
    if law == "ragged":
        lengths = [max(1, steps - 1 - 2 * row) for row in range(batch)]
        if foreign:  # a mask says what is padding, lengths alone promise each row's own final state
            own = {"outputs": layer.padding != "lengths"}
            return [Attempt(laws.ragged_values, (lengths,), rough | own)]
        return [Attempt(laws.ragged, (lengths,))]
    if law == "file":
        return [Attempt(laws.file, (), outputs)]
    if law == "size":
        return [Attempt(size if foreign else laws.size)]
    return [Attempt(laws.cost)]


def has_gradients(layer: Layer[Any]) -> bool:
    """Whether outputs can be differentiated; x may be tokens, and a module may have no weights."""
    return any(parameter.requires_grad for parameter in layer.parameters()) or getattr(layer, "vocab", None) is None
