"""What is examined, behind the contract's call: modules over whole sequences, modules with a state, step functions."""

import contextlib
import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..core import ragged
from ..core import state as states
from ..core.contract import Cost, Layer, Memory
from ..core.outside import describe_error
from . import foreign
from .foreign import Held

GARBAGE = 100.0  # in the padding of a module that is told lengths: finite, since it may multiply it by 0
PADDED = ("lengths", "attention_mask", "key_padding_mask", "src_key_padding_mask")  # how a forward is told of padding


class SubjectError(ValueError):
    """Something that cannot be put to the laws; the message is one line."""


class Traits(NamedTuple):
    """The shape of what is examined."""

    kind: str  # in words, for the report
    dim: int  # of x; 1 where x are tokens
    vocab: int | None = None  # x are tokens below it


class Subject(Layer[Held]):
    """A foreign callable as a layer. Each call gets a state of its own, so that one call cannot disturb another."""

    def __init__(self, name: str, target: Any, traits: Traits) -> None:
        super().__init__()
        self.label, self.traits, self.dim, self.vocab = name, traits, traits.dim, traits.vocab
        self.target = target  # registered as a submodule where it is a module: its parameters and hooks are found
        self.width = 0  # found by `prepare`
        self.altered: str | None = None  # what the last call changed of the state that it was given
        self.axes: dict[str, foreign.Axes] = {}
        self.tolerance: float | None = None  # of the laws; None: the house's, by the dtype of the weights
        self.padding = next((name for name in PADDED if name in parameters_of(target)), None)

    @abstractmethod
    def call(self, x: Tensor, state: Any, **told: Any) -> tuple[Tensor, Any]:
        """x: B T D and the state in the module's own form, None at first → outputs B T W and the state after."""

    def prepare(self) -> None:
        """Find the width of outputs and the axes of states, by calls; raises what the module raises."""

        worked = False

        def after(rows: int, steps: int) -> Any:
            nonlocal worked
            x = self.example(rows, steps)
            try:
                y, state = self.call(x, self.first_state(rows))
            except (RuntimeError, ValueError, IndexError) as error:
                if not worked or isinstance(error, SubjectError):
                    raise
                raise SubjectError(
                    f"{self.label}: expected calls that stand alone, found {describe_error(error)} with {rows} rows "
                    f"and {steps} steps after 2 rows and 3 steps had worked; is something kept on the module between "
                    "calls?"
                ) from error
            if not isinstance(y, Tensor) or y.dim() != 3 or y.shape[:2] != (rows, steps):
                found = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
                raise SubjectError(
                    f"{self.label}: expected outputs of shape ({rows}, {steps}, width), one a step, for x of shape "
                    f"{tuple(x.shape)}, found {found}; the laws are about sequences, batch first"
                )
            self.width, worked = y.shape[2], True
            return state

        with torch.no_grad(), default_dtype(self.like().dtype):
            self.axes = foreign.find_axes(after)

    def example(self, batch: int, steps: int, seed: int = 0) -> Tensor:
        """A random input: B T D, or B T tokens."""
        return draw_example(self, batch, steps, seed)

    def first_state(self, batch: int) -> Any:
        """The state before anything was seen, as the module wants it."""
        return None

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> Held:
        with default_dtype(self.like().dtype):
            return foreign.hold(self.first_state(batch), self.axes, batch)

    def forward(self, x: Tensor, state: Held) -> tuple[Tensor, Held]:
        given = foreign.release(state)
        before = [(path, tensor, tensor.detach().clone()) for path, tensor in foreign.flatten(given)]
        with default_dtype(self.like().dtype):
            y, after = self.call(x, given)
        self.altered = describe_change(before, foreign.flatten(given))
        return y, foreign.hold(after, self.axes, len(x))

    def ragged(self, x: Tensor, lengths: Tensor, state: Held) -> tuple[Tensor, Held]:
        valid = ragged.mask(lengths, x.shape[1])
        if x.is_floating_point():
            x = torch.where(valid[..., None], x, GARBAGE)
        else:
            x = torch.where(valid, x, (self.vocab or 2) - 1)
        told = {"lengths": lengths, "attention_mask": valid.long()}.get(self.padding or "", ~valid)
        with default_dtype(self.like().dtype):
            y, after = self.call(x, foreign.release(state), **{self.padding or "lengths": told})
        return ragged_outputs(y, x.shape[1]), foreign.hold(after, self.axes, len(x))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        declared = self.target.cost(batch, steps)
        both: Any = (
            declared if isinstance(declared, tuple) else [getattr(declared, name, None) for name in Cost._fields]
        )
        if len(both) != 2 or not all(isinstance(one, int | float) for one in both):
            raise SubjectError(
                f"{self.label}: expected cost(batch, steps) to give (flops, state_bytes), two numbers, or an object "
                f"with such attributes, found {type(declared).__name__}"
            )
        return Cost(*both)

    def like(self, like: Tensor | None = None) -> Tensor:
        return self._like if like is None else like

    def check(self, x: Tensor, state: Any) -> None:
        """Foreign modules check their own inputs."""

    def diagnose(self, x: Tensor, state: Any) -> str | None:
        return None


class Whole(Subject):
    """A module without a state: it continues by reading all inputs so far again, which are its state here."""

    def call(self, x: Tensor, state: Any, **told: Any) -> tuple[Tensor, Any]:
        seen = x if state is None else torch.cat([state, x], dim=1)
        y = self.target(seen, **told)
        y = y[0] if isinstance(y, tuple) else y
        if isinstance(y, Tensor) and y.dim() == 3 and y.shape[1] == seen.shape[1]:
            y = y[:, -x.shape[1] :]
        return y, seen


class Stateful(Subject):
    """A module that takes a state beside x and returns the next one; None, or nothing, is the first."""

    def __init__(self, name: str, target: Any, traits: Traits, *, initial: Callable[[int], Any] | None = None) -> None:
        super().__init__(name, target, traits)
        self.initial = initial

    def first_state(self, batch: int) -> Any:
        return None if self.initial is None else self.initial(batch)

    def call(self, x: Tensor, state: Any, **told: Any) -> tuple[Tensor, Any]:
        result = self.target(x, **told) if state is None else self.target(x, state, **told)
        if not (isinstance(result, tuple) and len(result) == 2):
            found = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
            raise SubjectError(f"{self.label}: expected (outputs, state) from a call with a state, found {found}")
        return result


class Stepped(Stateful):
    """A step function with the user's `initial_state`, and a form over whole sequences where there is one."""

    def __init__(
        self, name: str, step: Any, traits: Traits, *, initial: Callable[[int], Any], sequence: Any | None
    ) -> None:
        super().__init__(name, step, traits, initial=initial)
        self.sequence = sequence
        self.takes_state = sequence is not None and len(parameters_of(sequence)) > 1
        self.padding = None

    def call(self, x: Tensor, state: Any, **told: Any) -> tuple[Tensor, Any]:
        if self.sequence is None or x.shape[1] == 1 or not (self.takes_state or self.is_first(state, len(x))):
            return self.call_steps(x, state)
        if self.takes_state:
            return self.sequence(x, state)
        return self.sequence(x), self.call_steps(x, state)[1]

    def is_first(self, state: Any, rows: int) -> bool:
        """Whether a state is the one before anything was seen, as far as its values tell."""
        pair = dict(foreign.flatten(state)), dict(foreign.flatten(self.first_state(rows)))
        return pair[0].keys() == pair[1].keys() and all(torch.equal(t, pair[1][name]) for name, t in pair[0].items())

    def call_steps(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The step function, one step after the other."""
        outputs = []
        for x_t in x.unbind(1):
            result = self.target(x_t, state)
            if not (isinstance(result, tuple) and len(result) == 2):
                raise SubjectError(f"{self.label}: expected (y_t, state) from a step, found {type(result).__name__}")
            y, state = result
            outputs.append(y)
        return torch.stack(outputs, dim=1), state


class OnCopies(Layer[Any]):
    """A layer each of whose calls gets a copy of the state: what is left to judge where it writes into its state."""

    def __init__(self, layer: Layer[Any]) -> None:
        super().__init__()
        self.layer = layer
        self.dim, self.width = layer.dim, layer.width

    def initial_state(self, *args: Any, **named: Any) -> Any:
        return self.layer.initial_state(*args, **named)

    def forward(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        with self.copying_updates():
            return self.layer(x, states.map(torch.clone, state))

    def ragged(self, x: Tensor, lengths: Tensor, state: Any) -> tuple[Tensor, Any]:
        with self.copying_updates():
            return self.layer.ragged(x, lengths, states.map(torch.clone, state))

    @contextlib.contextmanager
    def copying_updates(self) -> Iterator[None]:
        """Each `update` of a cell gets a copy too: within a chunk the outputs may be parts of the state."""
        update = getattr(self.layer, "update", None)
        if update is None:
            yield
            return
        vars(self.layer)["update"] = lambda state, x: update(states.map(torch.clone, state), x)
        try:
            yield
        finally:
            del vars(self.layer)["update"]

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        return self.layer.cost(batch, steps, source)

    def check(self, x: Tensor, state: Any) -> None:
        self.layer.check(x, state)


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """New tensors have this dtype where a module names none: most modules make their first state so."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def draw_example(layer: Any, batch: int, steps: int, seed: int = 0) -> Tensor:
    """A random input of a layer: B T D, or B T tokens where it has a vocabulary. The seed alone decides it."""
    generator = torch.Generator().manual_seed(seed)
    if (vocab := getattr(layer, "vocab", None)) is not None:
        return torch.randint(vocab, (batch, steps), generator=generator)
    return torch.randn(batch, steps, layer.dim, generator=generator, dtype=torch.float64).to(layer.like().dtype)


def parameters_of(target: Any) -> dict[str, inspect.Parameter]:
    """The parameters of a call by name, without those that take any."""
    try:
        found = inspect.signature(target.forward if isinstance(target, nn.Module) else target).parameters
    except (TypeError, ValueError):
        return {}
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: each for name, each in found.items() if each.kind not in loose}


def describe_change(before: list[tuple[str, Tensor, Tensor]], after: list[tuple[str, Tensor]]) -> str | None:
    """What a call did to the state that it was given; None where it left it alone."""
    now = dict(after)
    for path, tensor, value in before:
        if path not in now:
            return f"{path}, which it took away,"
        if now[path] is not tensor:
            return f"{path}, in whose place it put another tensor,"
        if tensor.shape != value.shape or not torch.equal(tensor.detach(), value):
            error = (tensor.detach().double() - value.double()).abs().max() if tensor.shape == value.shape else None
            return path if error is None else f"{path} by {float(error):.3g}"
    added = [path for path in now if path not in {path for path, _, _ in before}]
    return f"{added[0]}, which it added," if added else None


def ragged_outputs(y: Tensor, steps: int) -> Tensor:
    """Outputs as long as x: a packed sequence may come back only as long as its longest row."""
    missing = steps - y.shape[1]
    return torch.cat([y, y.new_zeros(len(y), missing, y.shape[2])], dim=1) if missing > 0 else y
