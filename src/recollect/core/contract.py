"""The one contract: a layer is a STATE, a rule to UPDATE it and a rule to READ it.

    state = layer.initial_state(batch)
    y, state = layer(x, state)            # x: B T D, for a chunk of any length T ≥ 1

One call is training (a whole sequence), truncated backpropagation (a chunk, the state detached),
prefill (a prompt) and generation (one step). What that promises is written in `core.laws`.

Shapes, everywhere: B batch, T steps, D width of the input, W width of the output, S length of a source,
H heads, K slots of a window, L layers.
"""

import types
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, get_args, get_origin

import torch
from torch import Tensor, nn

from . import state as states
from .settings import ContractError, check_settings

S = TypeVar("S")


class Memory(NamedTuple):
    """What an encoder leaves for a decoder to read."""

    values: Tensor  # B S D
    valid: Tensor  # B S, True where values holds something
    summary: Any = None  # a state that sums the source up, or None
    shape: tuple[int, ...] | None = None  # the grid that S was laid out from (rows, columns of an image)


class Cost(NamedTuple):
    """What a layer declares: matrix-product FLOPs of the forward pass, and the bytes of state it ends with."""

    flops: int
    state_bytes: int


class Example(NamedTuple):
    """An input for the laws."""

    x: Tensor  # B T D
    memory: Memory | None = None


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of one layer: frozen, checked when made, `build()` makes the layer."""

    dim: int
    positional: ClassVar[tuple[str, ...]] = ()  # settings that the layer takes without a name, in order

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def rename(cls, name: str, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings as the user of the layer `name` wrote them, by the names that they have here."""
        return settings

    def build(self) -> Any:
        raise ContractError(f"{type(self).__qualname__}: a Config needs build()")

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        """Small settings for the laws, one for each branch of the layer."""
        return (cls(dim=6),)

    def example(self, batch: int, steps: int, dtype: torch.dtype = torch.float64) -> Example:
        """A random input for the laws."""
        return Example(torch.randn(batch, steps, self.dim, dtype=dtype))


class Layer(nn.Module, ABC, Generic[S]):
    """Maps a chunk and a state to outputs and the next state."""

    dim: int  # width of x
    width: int  # width of y
    _like: Tensor
    _shapes: list[torch.Size] | None
    state_types: tuple[type, ...] = ()  # read off `Layer[State]` by each subclass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in getattr(cls, "__orig_bases__", ()):
            if isinstance(get_origin(base), type) and issubclass(get_origin(base), Layer):
                (argument,) = get_args(base)
                options = get_args(argument) if get_origin(argument) is types.UnionType else (argument,)
                cls.state_types = tuple(
                    get_origin(option) or option
                    for option in options
                    if option is not Any and not isinstance(option, TypeVar)
                )

    def __init__(self) -> None:
        super().__init__()
        # Follows .to() and .double() as weights do, also in layers that have none.
        self.register_buffer("_like", torch.empty(0), persistent=False)

    @abstractmethod
    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> S:
        """The state before anything was seen.

        `memory` is what an encoder left, for layers that read one; `like` a tensor whose dtype and device to
        take. With `capacity` a state that grows gets that many slots at once and is then written in place:
        faster, and single-use, since a call changes the state that it was given.
        """

    @abstractmethod
    def forward(self, x: Tensor, state: S) -> tuple[Tensor, S]:
        """x: B T D → y: B T W, and the state after it."""

    @abstractmethod
    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        """What `steps` steps from the initial state cost, the source being `source` long."""

    def unroll(self, x: Tensor, state: S) -> tuple[Tensor, S]:
        """The definition, against which every fast `forward` is held: one step after the other."""
        outputs = []
        for t in range(x.shape[1]):
            y, state = self(x[:, t : t + 1], state)
            outputs.append(y)
        return torch.cat(outputs, dim=1), state

    def ragged(self, x: Tensor, lengths: Tensor, state: S) -> tuple[Tensor, S]:
        """Rows of unequal length, padding already zeroed; called by `core.ragged.run`.

        This form suits any layer: all rows run to the shortest length, the rest to the next, and so on.
        Layers with something faster override it.
        """
        if torch.compiler.is_exporting():
            from . import ragged

            return ragged.scan(self, x, lengths, state)
        ends: dict[int, list[int]] = {}
        for row, length in enumerate(lengths.tolist()):
            ends.setdefault(length, []).append(row)
        active = torch.arange(len(x), device=x.device)
        pieces, finished, order, start = [], [], [], 0
        for end in sorted(ends):
            if end > start:
                y, state = self(x[active, start:end], state)
                pieces.append(y.new_zeros(len(x), *y.shape[1:]).index_copy(0, active, y))
            over = torch.tensor(ends[end], device=x.device)
            stays = ~torch.isin(active, over)
            finished.append(states.select(state, (~stays).nonzero()[:, 0]))
            order.append(over)
            state, active, start = states.select(state, stays.nonzero()[:, 0]), active[stays], end
        if start < x.shape[1]:
            pieces.append(x.new_zeros(len(x), x.shape[1] - start, self.width))
        return torch.cat(pieces, dim=1), states.select(states.join(finished), torch.cat(order).argsort())

    def both_ways(self, back: Any, x: Tensor, lengths: Tensor) -> tuple[Tensor, S, S]:
        """This layer onward and `back`, another like it, from each row's end: B T 2W, and the state each ends in.

        Both start anew, the padding is already zeroed. Layers with something faster override it.
        """
        from . import ragged

        onward, after = ragged.run(self, x, lengths)
        turned, before = ragged.run(back, ragged.reverse(x, lengths), lengths)
        return torch.cat([onward, ragged.reverse(turned, lengths)], dim=-1), after, before

    def explain(self, state: S, x: Tensor) -> dict[str, Tensor]:
        """What the layer does with x (B D) in this state: gates, weights, whatever an instrument may show."""
        return {}

    def diagnose_state(self, state: S) -> str | None:
        """What is wrong with the numbers of a state from a file, whose shapes and clocks were found right."""
        return None

    def like(self, like: Tensor | None = None) -> Tensor:
        """A tensor with the dtype and device that a new state should have."""
        return self._like if like is None else like

    def state_shapes(self) -> list[torch.Size] | None:
        """The shape of each tensor of this layer's states but for the rows; None where a memory decides it."""
        if "_shapes" not in self.__dict__:
            try:
                with torch.no_grad():
                    self._shapes = [tensor.shape[1:] for tensor in states.leaves(self.initial_state(1))]
            except ContractError:
                self._shapes = None
        return self._shapes

    def element_size(self) -> int:
        """Bytes of one number of this layer's states."""
        return self.like().element_size()

    def __call__(self, x: Tensor, state: S | None = None, *rest: Any, **named: Any) -> tuple[Tensor, S]:
        if torch.compiler.is_compiling():
            return super().__call__(x, state, *rest, **named)
        self.check(x, state)
        try:
            return super().__call__(x, state, *rest, **named)
        except (RuntimeError, IndexError) as error:
            if state is not None and (problem := self.diagnose(x, state)):
                raise ContractError(f"{name_of(self)}: {problem}") from error
            raise

    def check(self, x: Tensor, state: S | None) -> None:
        """The cheap checks that every call makes, of what would otherwise pass in silence."""
        if x.dim() != 3 or x.shape[2] != self.dim:
            raise ContractError(
                f"{name_of(self)}: expected x of shape (batch, steps, {self.dim}), found {tuple(x.shape)}"
            )
        if x.shape[1] == 0:
            raise ContractError(f"{name_of(self)}: expected at least one step, found x of shape {tuple(x.shape)}")
        if not x.is_floating_point():
            raise ContractError(f"{name_of(self)}: expected floating-point x, found {x.dtype}")
        check_state(self, state, x.shape[0])

    def diagnose(self, x: Tensor, state: S) -> str | None:
        """Why a call failed, if it was the caller's doing; asked only after a failure."""
        own = next(self.parameters(), None)
        if own is not None and own.device != x.device:
            return f"expected x on {own.device}, found it on {x.device}; move one of them"
        if own is not None and own.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):
            return f"expected x of {own.dtype} as the layer's weights, found {x.dtype}; cast x or the layer"
        for name, tensor in states.named(state):
            if tensor.device != x.device:
                return f"expected a state on {x.device}, found {name} on {tensor.device}; use state.move"
        return None


def name_of(layer: nn.Module) -> str:
    """How a layer is called in messages: `lstm (8 → 8)`."""
    name = type(layer).__name__
    dim, width = getattr(layer, "dim", None), getattr(layer, "width", None)
    return f"{name} ({dim} → {width})" if dim is not None else name


def check_state(layer: Any, state: Any, rows: int) -> None:
    """A state must have been made by the layer, with as many rows as x."""
    if layer.state_types and type(state) not in layer.state_types:
        wanted = " or ".join(f"{t.__module__}.{t.__name__}" for t in layer.state_types)
        found = f"{type(state).__module__}.{type(state).__name__}"
        raise ContractError(
            f"{name_of(layer)}: expected a state of type {wanted}, found {found}; start from layer.initial_state(batch)"
        )
    if type(state) is Nothing and layer.state_types:  # of the right type, without tensors
        return
    tensors = states.leaves(state)
    for tensor in tensors:
        if tensor.shape[0] != rows:
            raise ContractError(
                f"{name_of(layer)}: expected a state of {rows} rows as x has, found {tensor.shape[0]} rows"
            )
    shapes = layer.state_shapes()
    if shapes is None:
        return
    if len(tensors) != len(shapes):
        raise ContractError(
            f"{name_of(layer)}: expected a state of {len(shapes)} tensors, found {len(tensors)}; "
            "was it made by another layer?"
        )
    for tensor, shape in zip(tensors, shapes, strict=True):
        found = tensor.shape[1:]
        if found != shape and (found[1:] != shape[1:] or shape[0] != 0):  # what starts with no slots grows
            name = next(name for name, other in states.named(state) if other is tensor)
            raise ContractError(
                f"{name_of(layer)}: expected a state made by this layer, found {name} of shape {tuple(tensor.shape)} "
                f"where {(rows, *shape)} fits; was it made by another layer?"
            )


class Cell(Layer[S]):
    """A layer defined by `update` and `read`; a faster `forward` must agree with them."""

    @abstractmethod
    def update(self, state: S, x: Tensor) -> S:
        """The state after x (B D)."""

    @abstractmethod
    def read(self, state: S, x: Tensor) -> Tensor:
        """The output (B W) read from the updated state."""

    def unroll(self, x: Tensor, state: S) -> tuple[Tensor, S]:
        outputs = []
        for x_t in x.unbind(1):
            state = self.update(state, x_t)
            outputs.append(self.read(state, x_t))
        return torch.stack(outputs, dim=1), state

    def forward(self, x: Tensor, state: S) -> tuple[Tensor, S]:
        return self.unroll(x, state)


class Nothing(NamedTuple):
    """The state of a layer that remembers nothing."""


class Pointwise(Layer[Nothing]):
    """A layer that treats each position alone: norms, feed-forward networks."""

    @abstractmethod
    def apply_to(self, x: Tensor) -> Tensor:
        """x: … D → … W, each position by itself."""

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> Nothing:
        return Nothing()

    def forward(self, x: Tensor, state: Nothing) -> tuple[Tensor, Nothing]:
        return self.apply_to(x), state

    def ragged(self, x: Tensor, lengths: Tensor, state: Nothing) -> tuple[Tensor, Nothing]:
        return self(x, state)


class Encoder(nn.Module, ABC):
    """Sees a whole sequence at once and leaves a Memory."""

    dim: int
    width: int

    @abstractmethod
    def encode(self, x: Tensor, lengths: Tensor, valid: Tensor) -> tuple[Tensor, Any]:
        """x: B S D with zeros in the padding → values: B S W (anything in the padding), and a summary or None."""

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Memory:
        from .ragged import check_lengths, mask

        if x.dim() != 3 or x.shape[2] != self.dim or x.shape[1] == 0:
            raise ContractError(
                f"{name_of(self)}: expected x of shape (batch, steps ≥ 1, {self.dim}), found {tuple(x.shape)}"
            )
        if not x.is_floating_point():
            raise ContractError(f"{name_of(self)}: expected floating-point x, found {x.dtype}")
        own = next(self.parameters(), x)
        if own.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):
            raise ContractError(f"{name_of(self)}: expected x of {own.dtype} as the weights, found {x.dtype}")
        padded = lengths is not None
        lengths = check_lengths(lengths, x, least=1)
        valid = mask(lengths, x.shape[1])
        padding = ~valid[..., None]
        values, summary = self.encode(x.masked_fill(padding, 0) if padded else x, lengths, valid)
        return Memory(values.masked_fill(padding, 0) if padded else values, valid, summary)
