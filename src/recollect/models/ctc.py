"""Connectionist temporal classification (Graves 2006): labels of a sequence, without saying where each begins.

The model gives at every step a distribution over all labels and a blank. A path has one of them at each step; its text
is what is left when repeats are joined and blanks are taken out. The probability of a text is the sum over its paths.

STATE   that of the layers
UPDATE  theirs
READ    log-probabilities of the labels and the blank: after step t, of what is heard there

The blank is the last output. `encoder` names the layers that read the input, any of the lineage; with `both_ways` a
second stack of them reads each row from its end, and the model sees whole rows only.
"""

from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import ctc_loss

from ..core import ragged
from ..core.contract import Cost, Encoder, Memory
from ..layers.encoder import BidirectionalConfig
from . import classifier
from .body import BodyConfig, initialise, kind_of


@dataclass(frozen=True, kw_only=True)
class Config(BodyConfig):
    """`inputs` is the number of numbers at each step, `outputs` that of labels and the blank."""

    inputs: int
    outputs: int
    model: str = "ctc"
    encoder: str = "gru"
    both_ways: bool = False

    def __post_init__(self) -> None:
        kind_of(self.encoder)
        super().__post_init__()

    @property
    def layer_name(self) -> str:
        return self.encoder

    def build(self) -> Any:
        """A classifier of each step; with `both_ways` a `BothWays`."""
        if self.both_ways:
            return BothWays(self)
        body: dict[str, Any] = {own.name: getattr(self, own.name) for own in fields(BodyConfig)}
        body["model"] = self.encoder
        return classifier.Config(inputs=self.inputs, outputs=self.outputs, tokens=False, pool="each", **body).build()

    def fitted(self, params: int) -> Self:
        """The same model at the width whose number of parameters is nearest to `params`."""
        return self.sized(params, f"ctc over {self.encoder} with {self.layers} layers and {self.inputs} inputs")


class BothWays(Encoder):
    """Labels of each step of whole rows, by two stacks of layers, one from each end."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.enter = nn.Linear(config.inputs, config.width)
        self.body = BidirectionalConfig(dim=config.width, layer=config.stack(config.width)).build()
        initialise(self.body, config)
        self.head = nn.Linear(self.body.width, config.outputs)
        nn.init.zeros_(self.head.bias)
        self.dim, self.width = config.inputs, config.outputs

    def encode(self, x: Tensor, lengths: Tensor, valid: Tensor) -> tuple[Tensor, None]:
        """x: B T D → logits B T C."""
        return self.head(self.body(self.enter(x), lengths).values), None

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        flops = sum(way[0].cost(batch, steps, source).flops for way in (self.body.forwards, self.body.backwards))
        each = self.dim * self.config.width + self.head.weight.numel()
        return Cost(flops + 2 * batch * steps * each, 0)


def log_probabilities(model: Any, x: Tensor, lengths: Tensor) -> Tensor:
    """log p of each label at each step, B T C, of at least single precision. x: B T D, whatever is in its padding."""
    if isinstance(model, BothWays):
        memory: Memory = model(x, lengths)
        logits = memory.values
    else:  # what comes after a row's end changes nothing before it
        logits, _ = model(x.masked_fill(~ragged.mask(lengths, x.shape[1])[..., None], 0))
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)


def text_losses(logp: Tensor, lengths: Tensor, texts: Tensor, sizes: Tensor) -> Tensor:
    """−log p(text) of each row in nats: B. A text that no path of its row can have is infinitely unlikely.

    logp: B T C, the last of C the blank; texts: B N, whatever stands beyond their `sizes`.
    """
    blank = logp.shape[2] - 1
    texts = texts.masked_fill(~ragged.mask(sizes, texts.shape[1]), 0)
    return ctc_loss(logp.transpose(0, 1), texts, lengths, sizes, blank=blank, reduction="none")
