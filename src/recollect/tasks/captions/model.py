"""A captioner: the decoders of sequence to sequence, unchanged, over the Memory that a CNN leaves of a picture.

    fixed         one vector of the picture, the mean of its cells, is the decoder's first state (Vinyals 2015)
    context       the same vector enters every step
    attend        at every word the grid is looked up anew (Xu 2015)
    conv          convolutions over the words, attention to the grid
    transformer   attention over the words and to the grid

STATE   that of the decoder's layers, with what they keep of the picture
UPDATE  theirs
READ    logits = W·(the top layer's output) + b
"""

from dataclasses import dataclass, replace
from typing import Literal, Self

from torch import Tensor

from ...core.contract import ContractError, Encoder, Memory
from ...core.settings import MOST_LAYERS, at_least
from ...layers import encoder
from ...models import body
from ...models.seq2seq import Decoder, DecoderConfig
from . import vision


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """`words` is the size of the vocabulary; the rest, beside a decoder's settings, are those of the CNN. `encoder` is
    a layer of the registry that reads the cells of its grid, row by row and from both ends, before the decoder does.

    `attend` aligns after the last word was read (`cell-first`): that word alone often decides which of two things a
    caption describes next.
    """

    words: int
    width: int = 128
    align: Literal["align-first", "cell-first"] = "cell-first"
    pixels: int = 96
    channels: int = 16
    blocks: int = at_least(1, default=2, most=MOST_LAYERS)
    self_attention: bool = False
    near: bool = False
    encoder: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder is not None:
            body.kind_of(self.encoder)
        if self.gist in ("state", "last"):
            raise ContractError(
                f"captioner: expected gist=mean, since a picture has no last state, found gist={self.gist}"
            )
        if self.share == "all":
            raise ContractError(
                "captioner: expected share=output or none, since pictures are no words, found share=all"
            )
        self.eye()

    def build(self) -> "Captioner":
        return Captioner(self)

    def eye(self) -> vision.Config:
        """The CNN's settings."""
        return vision.Config(
            pixels=self.pixels,
            channels=self.channels,
            blocks=self.blocks,
            self_attention=self.self_attention,
            near=self.near,
            dropout=self.dropout,
        )

    def resolved(self) -> Self:
        """With the mean of the cells as the gist of a picture."""
        return replace(self, gist="mean") if self.kind.gist else self

    def sized(self, params: int) -> Self:
        """The same CNN with a decoder of the width at which both have the number of parameters nearest to `params`."""
        return self.fit_width(params, f"{self.model} with {self.words:,} words and a CNN of {self.channels} channels")


class Captioner(Decoder):
    """A CNN for pictures, and a decoder that writes tokens."""

    def __init__(self, config: Config) -> None:
        config = config.resolved()
        eye = config.eye().build()
        reader: Encoder | None = None
        if config.encoder is not None:
            own = config.layer if config.encoder == config.model else {}
            layer = body.layer_config(config.encoder, eye.width, config.width, own)
            reader = encoder.BidirectionalConfig(dim=eye.width, layer=layer).build()
        super().__init__(config, config.words, eye.width if reader is None else reader.width)
        self.config: Config = config
        self.eye, self.reader = eye, reader

    def encode(self, images: Tensor, lengths: Tensor | None = None) -> Memory:
        """images: B 3 H W of numbers from 0 to 1 → what the decoder reads. All of a picture counts: no `lengths`."""
        if lengths is not None:
            raise ContractError("captioner: expected pictures, all of one size, found lengths with them")
        seen = self.eye(images)
        return seen if self.reader is None else seen._replace(values=self.reader(seen.values).values)

    def encoder_flops(self, batch: int, pixels: int) -> int:
        """Of the matrix products that read pictures."""
        found = self.eye.flops(batch, pixels)
        if self.reader is not None:
            found += (
                2 * batch * self.eye.cells(pixels) * sum(p.numel() for p in self.reader.parameters() if p.dim() >= 2)
            )
        return found
