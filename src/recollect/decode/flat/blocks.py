"""One step of the residual blocks of a Transformer, made of three operations.

The operations are defined here; the kernels of `kernels.decode.block` compute them where they can.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding, layer_norm, linear, rms_norm, scaled_dot_product_attention, silu

from ...layers import attention, mlp, norm, position
from ...layers.position import angles
from ...layers.score import Dot

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"none": lambda x: x} | mlp.ACTIVATIONS


def norm_linear(
    x: Tensor,
    gain: Tensor | None,
    shift: Tensor | None,
    eps: float,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: Literal["none", "gelu", "gelu_tanh", "relu"] = "none",
    kind: Literal["layer", "rms", "none"] = "layer",
) -> Tensor:
    """act(W·(norm(x)·gain + shift) + bias): x: B D, weight: N D → B N."""
    if kind == "layer":
        x = layer_norm(x, x.shape[-1:], gain, shift, eps)
    elif kind == "rms":
        x = rms_norm(x, x.shape[-1:], gain, eps)
    return ACTIVATIONS[activation](linear(x, weight, bias))


def linear_add(x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor) -> Tensor:
    """W·x + bias + residual: x: B K, weight: N K, residual: B N → B N."""
    if bias is None:
        return torch.addmm(residual, x, weight.t())
    return linear(x, weight, bias).add_(residual)


def attend_step(
    qkv: Tensor,
    keys: Tensor,
    values: Tensor,
    clock: Tensor,
    heads: int,
    groups: int,
    rotary: tuple[Tensor, Tensor] | None,
    scale: float,
) -> Tensor:
    """qkv: B (H+2G)·d, queries first; keys, values: B S G d, written in place at slot `clock` (B) → B H·d.

    Row b attends to its slots up to and with clock[b]. `rotary`: cosines and sines by position, S d/2.
    """
    turns = None if rotary is None else torch.complex(*rotary)[clock][:, None]
    visible = (torch.arange(keys.shape[1], device=keys.device) <= clock[:, None])[:, None, None]
    batch, size = len(qkv), keys.shape[3]
    turned, v = qkv.view(batch, -1, size).split([heads + groups, groups], dim=1)
    if turns is not None:
        pairs = turned.to(turns.real.dtype).unflatten(2, (-1, 2))
        turned = torch.view_as_real(torch.view_as_complex(pairs) * turns).flatten(2).to(qkv.dtype)
    q, k = turned.split([heads, groups], dim=1)
    for slots, new in ((keys, k), (values, v)):
        slots.scatter_(1, clock[:, None, None, None].expand(-1, 1, groups, size), new[:, None].to(slots.dtype))
    y = scaled_dot_product_attention(
        q[:, :, None],
        keys.transpose(1, 2),
        values.transpose(1, 2),
        attn_mask=visible,
        scale=scale,
        enable_gqa=groups != heads,
    )
    return y.reshape(batch, heads * size)


class Operations(NamedTuple):
    """Implementations of the three operations."""

    norm_linear: Callable[..., Tensor]
    linear_add: Callable[..., Tensor]
    attend_step: Callable[..., Tensor]


PLAIN = Operations(norm_linear, linear_add, attend_step)


def select_operations(x: Tensor) -> Operations:
    """The kernels where they support such a tensor, else the definitions."""
    if x.is_cuda:
        from ...kernels.decode import block

        if block.usable(x):
            return Operations(block.norm_linear, block.linear_add, block.attend_step)
    return PLAIN


class Clock:
    """The number of tokens that each row has read (`now`, B), and the tables of positions that the blocks share."""

    def __init__(self, now: Tensor, slots: int, dtype: torch.dtype, tables: dict[Any, Any]) -> None:
        self.now, self.slots, self.dtype = now, slots, dtype
        self.tables = tables  # shared by the clocks of one model

    def tick(self) -> None:
        self.now = self.now + 1

    def rotary(self, size: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of every slot's position, S d/2."""
        if (size, self.slots) not in self.tables:
            angle = angles(torch.arange(self.slots, device=self.now.device), size)
            precise = torch.promote_types(self.dtype, torch.float32)
            self.tables[size, self.slots] = angle.cos().to(precise), angle.sin().to(precise)
        return self.tables[size, self.slots]


class NormLinear(NamedTuple):
    """A norm and the matrix after it."""

    gain: Tensor | None
    shift: Tensor | None
    eps: float
    kind: str
    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, own: norm.Norm | None, weight: Tensor, bias: Tensor | None) -> "NormLinear":
        matrix = weight.detach().contiguous()
        if own is None:
            return cls(None, None, 0.0, "none", matrix, bias)
        kept: Any = own.norm  # RMSNorm has no shift, the identity has neither
        gain, shift, eps = (getattr(kept, name, None) for name in ("weight", "bias", "eps"))
        return cls(gain, shift, eps or 0.0, own.config.kind, matrix, bias)

    def __call__(self, ops: Operations, x: Tensor, activation: str = "none") -> Tensor:
        return ops.norm_linear(x, self.gain, self.shift, self.eps, self.weight, self.bias, activation, self.kind)


def join_biases(*layers: Any) -> Tensor | None:
    """The biases of several linear layers as one vector."""
    return None if layers[0].bias is None else torch.cat([layer.bias for layer in layers]).detach()


class AttentionBlock:
    """x + attention(norm(x))."""

    @staticmethod
    def supports(layer: attention.Attention) -> bool:
        """Causal softmax attention by dot products, without a window, and rotary positions or none."""
        config, attend = layer.config, layer.attend
        usual = config.project and config.masked and config.window is None and attend.alignment.plain
        return usual and isinstance(attend.score, Dot) and config.positions in ("none", "rotary")

    def __init__(self, own: norm.Norm, layer: attention.Attention) -> None:
        heads, config = layer.heads, layer.config
        three = (heads.q, heads.k, heads.v)
        weight = torch.cat([part.weight for part in three]).detach()
        self.inward = NormLinear.of(own, weight, join_biases(*three))
        self.out, self.bias = heads.out.weight.detach().contiguous(), heads.out.bias
        self.heads, self.groups, self.size = config.heads, config.groups, config.size
        self.scale: float = layer.attend.score.as_dot(weight)[1]
        self.rotary = config.positions == "rotary"

    def start(self, own: attention.Buffer, clock: Clock) -> None:
        self.keys, self.values = own.keys, own.values

    def __call__(self, x: Tensor, clock: Clock, ops: Operations) -> Tensor:
        qkv = self.inward(ops, x)
        fixed = self.heads, self.groups
        rotary = clock.rotary(self.size) if self.rotary else None
        y = ops.attend_step(qkv, self.keys, self.values, clock.now, *fixed, rotary, self.scale)
        return ops.linear_add(y, self.out, self.bias, x)

    def finish(self, own: attention.Buffer, clock: Clock) -> attention.Buffer:
        return own._replace(clock=clock.now)


class FeedForwardBlock:
    """x + feed-forward(norm(x))."""

    @staticmethod
    def supports(layer: mlp.FeedForward) -> bool:
        return True

    def __init__(self, own: norm.Norm, layer: mlp.FeedForward) -> None:
        self.gated = layer.gate is not None
        inward = (layer.up,) if layer.gate is None else (layer.gate, layer.up)
        weight = torch.cat([part.weight for part in inward]).detach() if self.gated else layer.up.weight
        self.inward = NormLinear.of(own, weight, join_biases(*inward))
        self.activation = "none" if self.gated else layer.config.activation
        self.down, self.bias = layer.down.weight.detach().contiguous(), layer.down.bias

    def start(self, own: Any, clock: Clock) -> None:
        pass

    def __call__(self, x: Tensor, clock: Clock, ops: Operations) -> Tensor:
        hidden = self.inward(ops, x, self.activation)
        if self.gated:
            gate, up = hidden.chunk(2, dim=1)
            hidden = silu(gate) * up
        return ops.linear_add(hidden, self.down, self.bias, x)

    def finish(self, own: Any, clock: Clock) -> Any:
        return own


class PositionLayer:
    """x + the vector of each row's position."""

    @staticmethod
    def supports(layer: position.Position) -> bool:
        return True

    def __init__(self, layer: position.Position) -> None:
        self.added = layer.added

    def start(self, own: position.State, clock: Clock) -> None:
        key = self.added, clock.slots
        if key not in clock.tables:
            last = min(clock.slots, self.added.max_positions) if self.added.kind == "learned" else clock.slots
            clock.tables[key] = self.added(torch.arange(last, device=clock.now.device), clock.dtype)
        self.table = clock.tables[key]

    def __call__(self, x: Tensor, clock: Clock, ops: Operations) -> Tensor:
        return x + embedding(clock.now, self.table)

    def finish(self, own: position.State, clock: Clock) -> position.State:
        return own._replace(clock=clock.now)
