"""One step of a language model, taken apart once into products and a few operations.

At one token a step, a model's own call may cost more in checks and look-ups than in arithmetic. `flatten` joins weights
that read one input into one matrix. Which layers have such a step is declared in LAYER_STEPS and BLOCK_STEPS; a model
with another layer gives None. Sums are in another order, so the last bits may differ from the model's own call; the
Step law holds the difference to a tolerance. GPUs run it; on a CPU onnxruntime runs the exported step (see `export`).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from ...layers import attention, combine, linear_attention, mlp, norm, position, ttt
from ...layers.dropout import Dropout
from ...models.language import LanguageModel
from .blocks import AttentionBlock, Clock, FeedForwardBlock, NormLinear, PositionLayer, select_operations
from .linear_attention import LinearAttentionBlock
from .ttt import TttBlock


class Flat:
    """A model's step: `start`, then a call for each token, and `finish()` returns the state.

    Keys and values, and on a GPU the inner models of TTT, are written in place into the state given to `start`.
    """

    def __init__(self, model: LanguageModel, parts: dict[int, Any], top: norm.Norm | None) -> None:
        self.parts = parts  # by the index of their state in the model's
        self.table = model.embedding.weight
        self.head = NormLinear.of(top, model.head.weight, model.head.bias)
        self.ops = select_operations(self.table)
        self.dtype = self.table.dtype
        self.tables: dict[Any, Any] = {}

    def start(self, state: Any, room: int) -> None:
        """Continue from `state`; no row will have more than `room` tokens, earlier ones included."""
        self.state = state
        caches = [state[at].keys.shape[1] for at, part in self.parts.items() if isinstance(part, AttentionBlock)]
        clocks = [
            state[at].clock for at, part in self.parts.items() if isinstance(part, AttentionBlock | PositionLayer)
        ]
        now = clocks[0] if clocks else torch.zeros(1, dtype=torch.int64)  # the others do not use it
        self.clock = Clock(now, max(room, *caches, 1), self.dtype, self.tables)
        for at, part in self.parts.items():
            part.start(state[at], self.clock)

    def __call__(self, token: Tensor) -> Tensor:
        """The logits (B V) after one more token of each row (B)."""
        x = embedding(token, self.table)
        for part in self.parts.values():
            x = part(x, self.clock, self.ops)
        self.clock.tick()
        return self.head(self.ops, x)

    def finish(self) -> Any:
        self.state = tuple(
            self.parts[at].finish(own, self.clock) if at in self.parts else own for at, own in enumerate(self.state)
        )
        return self.state


def flatten(model: Any) -> Flat | None:
    """The model's step, or None where a layer has none of its own, in training mode, or with hooks on the layers."""
    if not isinstance(model, LanguageModel) or model.training or has_hooks(model):
        return None
    layers = list(model.body.layers)
    top: norm.Norm | None = None
    parts: dict[int, Any] = {}
    for at, layer in enumerate(layers):
        if isinstance(layer, Dropout):
            continue
        if isinstance(layer, norm.Norm) and all(isinstance(rest, Dropout) for rest in layers[at + 1 :]):
            top = layer
        elif (part := flatten_layer(layer)) is not None:
            parts[at] = part
        else:
            return None
    if top is not None and top.config.kind == "batch":
        return None
    return Flat(model, parts, top)


def has_hooks(model: torch.nn.Module) -> bool:
    """Whether a hook waits for a call of one of the layers."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


# The layers with a step of their own. By exact type: a subclass may compute something else.
LAYER_STEPS: dict[type, Any] = {
    position.Position: PositionLayer,
}
BLOCK_STEPS: dict[type, Any] = {  # inside a pre-norm residual block
    attention.Attention: AttentionBlock,
    linear_attention.LinearAttention: LinearAttentionBlock,
    mlp.FeedForward: FeedForwardBlock,
    ttt.Ttt: TttBlock,
}


def flatten_layer(layer: Any) -> Any:
    """The declared step of one layer or block; None where there is none for it or for its settings."""
    step = LAYER_STEPS.get(type(layer))
    if step is not None:
        return step(layer) if step.supports(layer) else None
    if type(layer) is not combine.Residual or layer.config.order != "pre" or layer.norm.config.kind == "batch":
        return None
    step = BLOCK_STEPS.get(type(layer.layer))
    return step(layer.norm, layer.layer) if step is not None and step.supports(layer.layer) else None
