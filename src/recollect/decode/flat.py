"""One step of a language model, spelled out: what its layers do to a token, with no layer called.

A model's own call checks, looks up and hands on; at one token a step that may cost more than the arithmetic. `flatten`
takes a model apart once: weights that read one input become one matrix, and each lies as its product reads it fastest.
It knows pre-norm blocks of attention, linear attention and test-time training, and on a CPU stacks of rnn, lstm and
gru; others give None. The numbers are those of the model, summed in another order, so their last bits may differ.

On a CPU the weights may be rounded to 16 or 8 bits: a step waits for little else than the reading of them.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from ..layers import attention, combine, linear_attention, mlp, norm, position, ttt
from ..layers.dropout import Dropout
from ..layers.recurrent import Recurrent
from ..layers.score import Dot
from ..models.language import LanguageModel
from .flat_block import Attends, Clock, Feeds, Normed, Places, ways
from .flat_cells import cells
from .flat_sums import Sums
from .flat_ttt import Trains


class Flat:
    """A model's step: `start`, then a call for each token, and `finish()` gives the state back.

    Keys and values are written into the state that it was started with, and on a GPU the inner models of TTT.
    """

    def __init__(self, model: LanguageModel, parts: dict[int, Any], top: norm.Norm | None, packing: str | None) -> None:
        self.parts = parts  # by the place of their state in the model's
        self.table = model.embedding.weight
        # logits differ by little from each other, so they are not read from 8 bits
        self.head = Normed.of(top, model.head.weight, model.head.bias, packing and "float16")
        self.way = ways(self.table)
        # on a CPU products with packed matrices take float32 alone, and give it
        self.dtype = self.table.dtype if packing is None else torch.float32
        self.tables: dict[Any, Any] = {}

    def takes(self, state: Any, more: int) -> bool:
        """Whether `more` steps can be made from such a state: there is room for them, and positions last."""
        for at, part in self.parts.items():
            own = state[at]
            if isinstance(part, Attends):
                last = int(own.clock.max()) + more
                if not isinstance(own, attention.Buffer) or own.keys.shape[1] < last or own.keys.dtype != self.dtype:
                    return False
            if isinstance(part, Places) and part.added.diagnose(own.clock, more):
                return False
        return True

    def start(self, state: Any, room: int) -> None:
        """Go on from `state`; no row will have more than `room` tokens, those before it counted."""
        self.state = state
        caches = [state[at].keys.shape[1] for at, part in self.parts.items() if isinstance(part, Attends)]
        clocks = [state[at].clock for at, part in self.parts.items() if isinstance(part, Attends | Places)]
        now = clocks[0] if clocks else torch.zeros(1, dtype=torch.int64)  # recurrent layers do not ask
        self.clock = Clock(now, max(room, *caches, 1), self.dtype, self.tables)
        for at, part in self.parts.items():
            part.start(state[at], self.clock)

    def __call__(self, token: Tensor) -> Tensor:
        """The logits (B V) after one more token of each row (B)."""
        x = embedding(token, self.table)
        for part in self.parts.values():
            x = part(x, self.clock, self.way)
        self.clock.tick()
        return self.head(self.way, x)

    def finish(self) -> Any:
        self.state = tuple(
            self.parts[at].finish(own, self.clock) if at in self.parts else own for at, own in enumerate(self.state)
        )
        return self.state


def flatten(model: Any, packing: str | None = None) -> Flat | None:
    """The model's step without its layers, or None where it is not of a kind that this knows.

    None, too, of a model in training, and of one that something looks into by hooks.
    """
    if not isinstance(model, LanguageModel) or model.training or watched(model):
        return None
    weight = model.head.weight
    if not weight.is_cuda and weight.dtype not in (torch.float32, torch.float32 if packing else torch.float64):
        return None
    layers = list(model.body.layers)
    top: norm.Norm | None = None
    parts: dict[int, Any] = {}
    for at, layer in enumerate(layers):
        if isinstance(layer, Dropout):
            continue
        if isinstance(layer, norm.Norm) and all(isinstance(rest, Dropout) for rest in layers[at + 1 :]):
            top = layer
        elif (part := flat_layer(layer, packing)) is not None:
            parts[at] = part
        else:
            return None
    if top is not None and top.config.kind == "batch":
        return None
    return Flat(model, parts, top, packing)


def watched(model: torch.nn.Module) -> bool:
    """Whether something waits for its layers to be called."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def flat_layer(layer: Any, packing: str | None) -> Any:
    """One layer's step; None of a layer, or a setting, that is not known."""
    if isinstance(layer, position.Position):
        return Places(layer)
    if isinstance(layer, Recurrent) and not layer.like().is_cuda:
        return cells(layer, packing)
    if not isinstance(layer, combine.Residual) or layer.config.order != "pre" or layer.norm.config.kind == "batch":
        return None
    if isinstance(layer.layer, mlp.FeedForward):
        return Feeds(layer.norm, layer.layer, packing)
    if isinstance(layer.layer, ttt.Ttt):
        return Trains(layer.norm, layer.layer, packing)
    if isinstance(layer.layer, linear_attention.LinearAttention) and layer.layer.config.project:
        return Sums(layer.norm, layer.layer, packing)
    if isinstance(layer.layer, attention.Attention):
        config, attend = layer.layer.config, layer.layer.attend
        usual = config.project and config.masked and config.window is None and attend.alignment.plain
        if usual and isinstance(attend.score, Dot) and config.positions in ("none", "rotary"):
            return Attends(layer.norm, layer.layer, packing)
    return None
