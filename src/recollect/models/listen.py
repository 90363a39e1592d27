"""Listen, attend and spell: the decoders of sequence to sequence over frames of numbers, such as those of a sound.

    fixed         the encoder's last state is the decoder's first, and all that it has of the sound
    context       the same gist of the sound enters every step and the output
    attend        at every character the frames are looked up anew (Chan 2016)
    conv          convolutions on both sides, attention between them
    transformer   attention on both sides and between them

STATE   that of the decoder's layers, with what they keep of the frames
UPDATE  theirs
READ    logits = W·(the top layer's output) + b
"""

from dataclasses import dataclass

from torch import Tensor, nn

from ..core import ragged
from ..core.contract import ContractError, Memory
from . import seq2seq


@dataclass(frozen=True, kw_only=True)
class Config(seq2seq.Config):
    """`source` is the number of numbers at each step of the source, `target` the size of the vocabulary."""

    def __post_init__(self) -> None:
        if self.share == "all":
            raise ContractError("listener: expected share=output or none, since frames are no tokens, found share=all")
        super().__post_init__()

    def build(self) -> "Listener":
        return Listener(self)

    def source_entry(self) -> nn.Module:
        return nn.Linear(self.source, self.entry)


class Listener(seq2seq.Seq2Seq):
    """An encoder for frames, and a decoder that writes tokens."""

    def start_source(self) -> None:
        nn.init.zeros_(self.source_embedding.bias)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        """source: B S D numbers → what the decoder reads; what stands in the padding reaches nothing."""
        if source.dim() != 3 or source.shape[1] == 0 or source.shape[2] != self.config.source:
            raise ContractError(
                f"listener: expected frames of shape (batch, steps ≥ 1, {self.config.source}), found "
                f"{tuple(source.shape)}"
            )
        lengths = ragged.check_lengths(lengths, source, least=1)
        padding = ~ragged.mask(lengths, source.shape[1])
        return self.read_source(self.embed_source(source.masked_fill(padding[..., None], 0)), lengths)

    def embed_source(self, source: Tensor) -> Tensor:
        return self.source_embedding(source)

    def encoder_flops(self, batch: int, steps: int) -> int:
        """Of the matrix products that read `steps` frames."""
        return super().encoder_flops(batch, steps) + 2 * batch * steps * self.config.source * self.config.entry
