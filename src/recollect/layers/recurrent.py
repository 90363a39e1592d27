"""The base of rnn, lstm and gru: stacked layers, torch's weights, fused kernels for whole sequences.

The weights have the names and the layout of `torch.nn`'s, so they load from and save to torch as they are.
A chunk runs torch's fused kernel (`run_chunk`), or on a GPU a kernel of our own where that is faster. One step
never does (at T = 1 on a CPU it costs 13 to 24 times a cell's step, and Dynamo refuses it): it runs torch's cell
function, such as `torch.lstm_cell` (`step`). Where there is none (a gru with its reset gate before the product),
under autocast and for mixed dtypes it runs the definition, `update` and `read`.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .. import kernels
from ..core import ragged
from ..core import state as states
from ..core.contract import Cell, Config, ContractError, Cost
from ..core.settings import MOST_LAYERS, at_least, owner_of
from ..kernels import onnx
from ..kernels.recurrent.gates import Gates
from ..kernels.recurrent.sequence import find_persistent, last_states, run_directions
from . import torch_names

S = TypeVar("S", bound=tuple[Tensor, ...])


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(Config):
    """`width` is that of the hidden state (default: dim). The names of `torch.nn`, `input_size` and `hidden_size`, are
    understood where a layer is made from keyword arguments.

    In training, `dropout` acts between layers, and `weight_dropout` on U: one mask for all
    steps of a call (the definition, step by step, draws one a step).
    """

    width: int | None = None
    num_layers: int = at_least(1, default=1, most=MOST_LAYERS)
    dropout: float = 0.0
    weight_dropout: float = 0.0
    bias: bool = True
    positional: ClassVar[tuple[str, ...]] = torch_names.POSITIONAL

    @classmethod
    def rename(cls, name: str, settings: dict[str, Any]) -> dict[str, Any]:
        return torch_names.rename(name, owner_of(cls), settings)


def layer_first(tensor: Tensor) -> Tensor:
    """B L W → L B W, the layout of torch's kernels."""
    return tensor.transpose(0, 1).contiguous()


def batch_first(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """L B W → B L W in storage of its own, the layout of a state."""
    return tensor.transpose(0, 1).to(dtype).clone(memory_format=torch.contiguous_format)


class Recurrent(Cell[S]):
    """A stack of gated or plain recurrent cells, with torch's names and layout for the weights."""

    gates: int  # blocks of `width` rows in each weight matrix

    def __init__(
        self,
        config: RecurrentConfig,
        kernel: Any,
        cell: Any,
        template: Any,
        gates: int,
        loop_gates: Gates | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.config = config
        self.dim = config.dim
        self.width = config.width or config.dim
        self.gates = gates
        self.kernel = kernel  # torch's fused function, such as torch.lstm
        self.cell = cell  # torch's function for one step of one layer, such as torch.lstm_cell, or None
        self.template = template  # torch's module class, such as nn.LSTM
        self.loop_gates: Any = loop_gates  # of the loop in kernels/recurrent, where it supports the cell
        self.options = options
        self.levels = range(config.num_layers)
        self.checked: tuple[Any, ...] | None = None  # shapes and dtypes of the last input that passed `check`
        fresh = self.empty_torch()
        self.names = [[name for name, _ in fresh.named_parameters() if name.endswith(f"_l{i}")] for i in self.levels]
        for name, parameter in fresh.named_parameters():
            self.register_parameter(name, parameter)

    @abstractmethod
    def pack(self, state: S) -> Any:
        """The state as torch's kernels take it: layers first, then rows."""

    @abstractmethod
    def unpack(self, final: Any, state: S) -> S:
        """A state like `state` from the final state that torch's kernel returns."""

    @abstractmethod
    def step(self, x: Tensor, state: S) -> tuple[Tensor, S]:
        """One step (x: B 1 D) through torch's cell function: equal to `update`, in fewer calls.

        y is a copy of the new h, since a caller may write into it.
        """

    @abstractmethod
    def compute_gates(self, level: int, x: Tensor, state: S) -> dict[str, Tensor]:
        """The gate activations (B W each) of one layer, given that layer's input."""

    def explain(self, state: S, x: Tensor) -> dict[str, Tensor]:
        """The gate activations of every layer: B L W each."""
        (h, *_) = self.update(state, x)
        found = [self.compute_gates(level, x if level == 0 else h[:, level - 1], state) for level in self.levels]
        return {name: torch.stack([gates[name] for gates in found], dim=1) for name in found[0]}

    def check(self, x: Tensor, state: S | None) -> None:
        """The checks of every layer, skipped for the shapes and dtypes that passed last time, since a step is short."""
        if torch.compiler.is_compiling():  # sizes that were seen before would become conditions of the trace
            super().check(x, state)
            return
        shape, seen = x.shape, None
        if isinstance(state, tuple) and state and isinstance(state[-1], Tensor) and len(shape) == 3:
            seen = shape[0], shape[2], x.dtype, type(state), len(state), state[0].shape, state[-1].shape
        if seen is None or seen != self.checked or shape[1] == 0:
            super().check(x, state)
            self.checked = seen

    def forward(self, x: Tensor, state: S) -> tuple[Tensor, S]:
        if x.shape[1] == 1:
            same = x.dtype == state[0].dtype == state[-1].dtype
            if same and self.cell is not None and not torch.is_autocast_enabled(x.device.type):
                return self.step(x, state)
            return self.unroll(x, state)
        if torch.compiler.is_dynamo_compiling():
            kernel: Any = torch.compiler.disable(self.run_chunk)  # a compiler would unroll it, step by step
            return kernel(x, state)
        return self.run_chunk(x, state)

    def run_chunk(self, x: Tensor, state: S) -> tuple[Tensor, S]:
        """A chunk through torch's fused kernel, or through a persistent kernel of our own where there is one."""
        if onnx.is_exporting():
            return self.run_exported(x, state)
        if self.uses_loop(x) and self.has_persistent_kernel(x):
            return self.run_loop(x, None, state)
        y, *final = self.run_fused(x, self.pack(state), *self.arguments(), batch_first=True)
        return y, self.unpack(final, state)

    def run_exported(self, x: Tensor, state: S, lengths: Tensor | None = None) -> tuple[Tensor, S]:
        """A chunk, of rows of unequal `lengths` where they are given, through ONNX's own recurrent operators."""
        order, settings = onnx.RECURRENT[self.template.__name__], self.exported_settings()
        y, found = x.transpose(0, 1), []
        for level in self.levels:
            W, U, *biases = (
                None if part is None else torch.cat([part.chunk(self.gates)[gate] for gate in order])[None]
                for part in self.weights(level)
            )
            b = torch.cat(biases, dim=1) if self.config.bias else None  # pyright: ignore
            own = [part[:, level][None] for part in state]
            y, *last = onnx.run_recurrent(self.template.__name__, y, [W, U, b], own, settings, lengths)
            found.append(last)
        after = [torch.stack(parts, dim=1) for parts in zip(*found, strict=True)]
        return y.transpose(0, 1), states.rebuild(state, after)

    def exported_settings(self) -> dict[str, Any]:
        """Settings of ONNX's operator."""
        return {"activations": [self.options["nonlinearity"].capitalize()]} if self.options else {}

    def run_fused(self, x: Tensor, *rest: Any, **named: Any) -> Any:
        """torch's fused kernel, without oneDNN where it has none for bfloat16: on CPUs that lack its instructions."""
        bfloat16 = x.device.type == "cpu" and kernels.autocast_dtype(x) == torch.bfloat16
        if bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            with torch.backends.mkldnn.flags(enabled=False):
                return self.kernel(x, *rest, **named)
        return self.kernel(x, *rest, **named)

    def ragged(self, x: Tensor, lengths: Tensor, state: S) -> tuple[Tensor, S]:
        if onnx.is_exporting():
            return self.run_exported(x, state, lengths)
        if x.shape[1] == 1:
            return super().ragged(x, lengths, state)
        if self.uses_loop(x):
            return self.run_loop(x, lengths, state)
        y, after = self.run_packed(x, lengths, state, self.arguments())
        empty = (lengths == 0)[:, None, None]
        return y, states.map(lambda before, after: torch.where(empty, before, after), state, after)

    def run_packed(self, x: Tensor, lengths: Tensor, state: S, arguments: tuple[Any, ...]) -> tuple[Tensor, S]:
        """Rows of unequal length through torch's fused kernel, which takes the longest first."""
        host = lengths.clamp(min=1).cpu()
        if bool((host[:-1] < host[1:]).any()):
            order = host.argsort(descending=True).to(x.device)
            back = order.argsort()
            y, after = self.run_packed(x.index_select(0, order), lengths[order], states.select(state, order), arguments)
            return y.index_select(0, back), states.select(after, back)
        rows = pack_padded_sequence(x, host, batch_first=True)
        y, *final = self.run_fused(rows.data, rows.batch_sizes, self.pack(state), *arguments)
        y, _ = pad_packed_sequence(rows._replace(data=y), batch_first=True, total_length=x.shape[1])
        return y, self.unpack(final, state)

    def uses_loop(self, x: Tensor) -> bool:
        """Whether the loop of kernels/recurrent takes x: on a GPU, outside torch.compile and torch.func.

        Rows of unequal length then always take it, since packing would wait for the lengths.
        """
        transformed = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
        return x.is_cuda and self.loop_gates is not None and not transformed

    def is_persistent_in_cudnn(self, dtype: torch.dtype, batch: int) -> bool:
        """Whether cuDNN has a persistent kernel: in float16, for one layer, not gru, of certain sizes."""
        supported = dtype == torch.float16 and self.gates != 3 and len(self.levels) == 1
        return supported and self.width % 128 == 0 and self.width <= 1024 and batch % 8 == 0 and batch <= 128

    def has_persistent_kernel(self, x: Tensor) -> bool:
        """Whether a persistent kernel of our own takes all steps of x, and cuDNN has none."""
        dtype, (batch, steps, _) = kernels.autocast_dtype(x), x.shape
        if self.is_persistent_in_cudnn(dtype, batch):
            return False
        U = self.get_parameter(self.names[0][1])
        return find_persistent(self.loop_gates.kind, U, dtype, batch, steps) is not None

    def run_loop(self, x: Tensor, lengths: Tensor | None, state: S) -> tuple[Tensor, S]:
        """All steps layer by layer through the loop, then each row's last state out of those after every step."""
        found = []
        for level in self.levels:
            own = states.map(lambda part, level=level: part[:, level], state)
            (parts,) = run_directions([x], [self.weights(level)], [own], self.loop_gates)
            found.append(last_states(parts, lengths, own))
            x = self.drop(parts[0], level)
        return x, states.map(lambda _, *levels: torch.stack(levels, dim=1), state, *found)

    def run_loop_both_ways(self, back: Any, x: Tensor, lengths: Tensor) -> tuple[Tensor, S, S]:
        """Both directions in one loop."""
        ways = self, back
        starts = [states.map(lambda part: part[:, 0], layer.initial_state(x.shape[0], like=x)) for layer in ways]
        weights = [layer.weights(0) for layer in ways]
        onward, turned = run_directions([x, ragged.reverse(x, lengths)], weights, starts, self.loop_gates)
        y = torch.cat([onward[0], ragged.reverse(turned[0], lengths)], dim=-1)
        after, before = (
            states.map(lambda part: part[:, None], last_states(way, lengths, own))
            for way, own in zip((onward, turned), starts, strict=True)
        )
        return y.masked_fill(~ragged.mask(lengths, x.shape[1])[..., None], 0), after, before

    def both_ways(self, back: Any, x: Tensor, lengths: Tensor) -> tuple[Tensor, S, S]:
        """Both directions: on a CPU one call of torch's kernel; on a GPU, where that waits for lengths, one loop."""
        if len(self.levels) == 1 and x.shape[1] > 1 and self.uses_loop(x):
            return self.run_loop_both_ways(back, x, lengths)
        fits = len(self.levels) == 1 and self.cell is not None and x.shape[1] > 1 and x.device.type == "cpu"
        if not fits or torch.compiler.is_compiling() or (shortest := int(lengths.min())) == 0:
            return super().both_ways(back, x, lengths)
        starts = [layer.initial_state(x.shape[0], like=x) for layer in (self, back)]
        first = states.map(lambda *parts: torch.cat(parts, dim=1), *starts)  # the directions as if they were layers
        arguments = self.arguments(back)
        if shortest == x.shape[1]:
            y, *final = self.run_fused(x, self.pack(first), *arguments, batch_first=True)
            both = self.unpack(final, first)
        else:
            y, both = self.run_packed(x, lengths, first, arguments)
        after, before = (states.map(lambda part, way=way: part[:, way : way + 1].clone(), both) for way in (0, 1))
        return y, after, before

    def arguments(self, back: Any = None) -> tuple[Any, ...]:
        """The arguments of a fused call: weights (of `back` too), bias, layers, dropout, training, bidirectional."""
        ways = (self,) if back is None else (self, back)
        found = [weight for way in ways for level in way.levels for weight in way.weights(level)]
        weights = [weight for weight in found if weight is not None]
        rate = self.config.dropout if self.training else 0.0
        # cuDNN keeps what a backward pass needs only in training; without dropout the two are the same
        training = self.training or torch.is_grad_enabled()
        return weights, self.config.bias, len(self.levels), rate, training, back is not None

    def weights(self, level: int) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """W (gates·width, in), U (gates·width, width) and the two biases of one layer."""
        found = [self._parameters[name] for name in self.names[level]]
        if self.training and self.config.weight_dropout:
            found[1] = nn.functional.dropout(found[1], self.config.weight_dropout)  # pyright: ignore
        return tuple(found) if self.config.bias else (*found, None, None)  # type: ignore[return-value]

    def drop(self, x: Tensor, level: int) -> Tensor:
        """Dropout on the output of a layer that has another above it."""
        if self.config.dropout and self.training and level + 1 < len(self.levels):
            return nn.functional.dropout(x, self.config.dropout)
        return x

    def sums(self, level: int, x: Tensor, h: Tensor) -> Tensor:
        """The pre-activations of all gates of one layer, W x + b + U h + d: B G."""
        W, U, b, d = self.weights(level)
        return linear(x, W, b) + linear(h, U, d)

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        rows = self.gates * self.width
        inputs = [self.dim] + [self.width] * (len(self.levels) - 1)
        flops = sum(2 * rows * (width + self.width) for width in inputs) * batch * steps
        return Cost(flops, states.nbytes(self.initial_state(1)) * batch)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        result = super()._apply(fn, recurse)
        self.compact()
        return result

    def compact(self) -> None:
        """Lay the weights out in one block for cuDNN; without it, do nothing."""
        weights: list[Tensor] = list(self.parameters(recurse=False))
        if not (weights[0].is_cuda and torch.backends.cudnn.is_acceptable(weights[0])):
            return
        from torch.backends.cudnn import rnn

        mode = rnn.get_cudnn_mode(self.empty_torch("meta").mode)
        with torch.no_grad(), torch.cuda.device_of(weights[0]):
            torch._cudnn_rnn_flatten_weight(  # pyright: ignore[reportPrivateImportUsage]
                weights, len(self.names[0]), self.dim, mode, self.width, 0, len(self.levels), True, False
            )

    @classmethod
    def from_torch(cls, module: nn.RNNBase) -> Self:
        """A layer that computes what a one-way `torch.nn` module of its kind computes, with a copy of its weights."""
        layer = cls(**torch_names.settings_of(module)).to(module.weight_ih_l0)  # type: ignore[call-arg]
        layer.load_torch(module)
        return layer.train(module.training)

    def load_torch(self, module: nn.RNNBase) -> None:
        """Copy the weights of a `torch.nn` module of the same kind and size."""
        if type(module) is not self.template or module.bidirectional:
            raise ContractError(
                f"load_torch: expected a one-way {self.template.__name__}, found "
                f"{'a bidirectional ' if module.bidirectional else ''}{type(module).__name__}"
                f"{'; build the encoder `bidirectional` for that' if module.bidirectional else ''}"
            )
        self.copy_weights(module, module.state_dict())

    def copy_weights(self, module: nn.RNNBase, weights: dict[str, Tensor]) -> None:
        """Copy `weights` of `module`, if kind, shapes and nonlinearity agree."""
        ours = {name: tuple(tensor.shape) for name, tensor in self.state_dict().items()}
        theirs = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        if type(module) is not self.template or ours != theirs:
            raise ContractError(f"load_torch: expected {self.template.__name__} with {ours}, found {theirs}")
        if (mine := self.options.get("nonlinearity")) != (other := getattr(module, "nonlinearity", None)):
            raise ContractError(f"load_torch: expected nonlinearity {mine}, found {other}")
        self.load_state_dict(weights)

    def to_torch(self) -> nn.RNNBase:
        """A `torch.nn` module (batch first) with a copy of these weights."""
        if self.cell is None:
            raise ContractError("to_torch: torch has no gru whose reset gate acts before the product")
        module = self.empty_torch().to(self.like())
        module.load_state_dict(self.state_dict())
        return module

    def empty_torch(self, device: str | None = None) -> nn.RNNBase:
        """A fresh `torch.nn` module of the same kind and size."""
        return self.template(
            self.dim,
            self.width,
            len(self.levels),
            bias=self.config.bias,
            batch_first=True,
            dropout=self.config.dropout if len(self.levels) > 1 else 0.0,
            device=device,
            **self.options,
        )


class HiddenAlone(Recurrent[S]):
    """A recurrent layer whose state is h (B L W) and nothing else."""

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        new, below = [], x.squeeze(1)
        for level in self.levels:
            below = self.cell(below, state.h.select(1, level), *self.weights(level))
            new.append(below)
            below = self.drop(below, level)
        y = below.unsqueeze(1)
        return y.clone(), type(state)(y if len(new) == 1 else torch.stack(new, dim=1))

    def ragged(self, x: Tensor, lengths: Tensor, state: Any) -> tuple[Tensor, Any]:
        """For one layer, each row's last h out of y: packing would wait for the GPU to return the lengths."""
        if len(self.levels) > 1 or onnx.is_exporting():
            return super().ragged(x, lengths, state)
        y, _ = self(x, state)
        at = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, self.width)
        last = y.gather(1, at).to(state.h.dtype)
        return y, type(state)(torch.where((lengths == 0)[:, None, None], state.h, last))

    def pack(self, state: Any) -> Tensor:
        return layer_first(state.h)

    def unpack(self, final: Any, state: Any) -> Any:
        return type(state)(batch_first(final[0], state.h.dtype))
