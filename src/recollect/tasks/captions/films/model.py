"""A captioner of films: a CNN sees every frame, a memory goes from frame to frame, a decoder reads what it leaves.

    B T 3 H W → the CNN of pictures on each frame → a vector of each frame (or, with `grid`, of each cell of its grid)
    → any layer of the lineage over the frames, the memory → Memory of values B T D (or B T·cells D) → the decoder

The memory goes from the first frame to the last, so that what it leaves of a frame depends on no later one. `bag` has
none: the decoder reads the frames as a set, and knows nothing of their order but what `motion` shows of neighbours.

STATE   that of the decoder's layers, with what they keep of the film
UPDATE  theirs
READ    logits = W·(the top layer's output) + b
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, cast

import torch
from einops import rearrange
from torch import Tensor, nn

from ....core import ragged
from ....core.contract import ContractError, Memory, check_settings
from ....core.settings import MOST_LAYERS, at_least
from ....layers.fixed import CellName
from ....layers.score import ScoreName
from ....models import body, size
from ....models.body import BodyConfig
from ....models.seq2seq import Decoder, DecoderConfig
from .. import vision
from .motion import PLANES, MotionName, with_motion
from .pool import Pool, PoolName

BAG = "bag"  # no memory over frames
MODELS = (BAG, *body.KINDS)
DecoderName = Literal["fixed", "context", "attend", "conv", "transformer"]


@dataclass(frozen=True, kw_only=True)
class Config(BodyConfig):
    """`model` and the settings of a stack are the memory's, `channels` to `near` the CNN's, and from `decoder` on those
    of the decoder, which is as wide as the memory. `words` is the size of the vocabulary.

    With `motion` the CNN sees what moved since the frame before beside each frame (`motion.py`), and `pool` makes one
    vector of the cells of its grid (`pool.py`); with `grid` the memory goes from frame to frame at every cell instead,
    and the decoder attends to cells. The memory has a shortcut around it, without which it hides from the decoder what
    the CNN finds (`block`).
    """

    model: str = "gru"
    width: int = 96
    layers: int = at_least(1, default=1, most=MOST_LAYERS)
    block: Literal["plain", "residual"] | None = "residual"
    words: int
    pixels: int = 28
    channels: int = 16
    blocks: int = at_least(1, default=1, most=MOST_LAYERS)
    self_attention: bool = False
    near: bool = False
    motion: MotionName = "flow"
    pool: PoolName = "max"
    pool_heads: int = at_least(1, default=4, most=64)
    grid: bool = False
    decoder: DecoderName = "attend"
    decoder_layers: int = at_least(1, default=1, most=MOST_LAYERS)
    cell: CellName = "gru"
    embed: int | None = None
    gist: Literal["last", "mean"] | None = None
    align: Literal["align-first", "cell-first"] = "cell-first"
    score: ScoreName | None = None
    share: Literal["none", "output"] = "output"

    def __post_init__(self) -> None:
        if self.model == BAG:
            check_settings(self)
            if self.layer:
                raise ContractError(f"films: expected no settings of a layer with {BAG}, found {sorted(self.layer)}")
        else:
            super().__post_init__()
        if self.pool == "attention" and self.width % self.pool_heads:
            raise ContractError(
                f"films: expected a width that pool_heads={self.pool_heads} divides, found width={self.width}"
            )
        self.eye()
        self.writer()

    def build(self) -> "FilmCaptioner":
        return FilmCaptioner(self)

    @property
    def remembers(self) -> bool:
        """Whether there is a memory over frames."""
        return self.model != BAG

    @property
    def grain(self) -> int:
        heads = (self.remembers and self.kind.heads) or self.decoder == "transformer"
        return 2 * self.heads if heads else 2

    def eye(self) -> vision.Config:
        """The CNN's settings."""
        return vision.Config(
            pixels=self.pixels,
            channels=self.channels,
            blocks=self.blocks,
            self_attention=self.self_attention,
            near=self.near,
            dropout=self.dropout,
            planes=PLANES[self.motion],
        )

    def writer(self) -> DecoderConfig:
        """The decoder's settings."""
        last = self.remembers and not self.grid
        return DecoderConfig(
            model=self.decoder,
            cell=self.cell,
            width=self.width,
            layers=self.decoder_layers,
            embed=self.embed,
            heads=self.heads,
            hidden=self.hidden if self.decoder == "transformer" else None,
            gist=(self.gist or ("last" if last else "mean")) if self.decoder in ("fixed", "context") else None,
            align=self.align,
            score=self.score,
            share=self.share,
            dropout=self.dropout,
        )

    def resolved(self) -> Self:
        return self

    def sized(self, params: int, what: str = "") -> Self:
        """The same CNN with a memory and a decoder of the width whose number of parameters is nearest to `params`."""
        named = what or f"{self.model} with {self.words:,} words and a CNN of {self.channels} channels"
        feeds = self.decoder == "transformer" or (self.remembers and self.residual and self.feed)
        return size.fit(self, params, grain=self.grain, what=named, feeds=feeds)


class Summary(NamedTuple):
    """What a memory leaves after the last frame of each film."""

    h: Tensor  # B 1 D


class FilmCaptioner(Decoder):
    """A CNN for frames, a memory over them, and a decoder that writes tokens."""

    memory: Any  # a Layer, or None

    def __init__(self, config: Config) -> None:
        super().__init__(config.writer(), config.words, config.width)
        self.film = config
        self.eye = config.eye().build()
        self.enter: nn.Module = (
            nn.Linear(self.eye.width, config.width)
            if config.grid
            else Pool(config.pool, self.eye.cells(), self.eye.width, config.width, config.pool_heads)
        )
        self.memory = None
        if config.remembers:
            self.memory = config.stack(config.width).build()
            body.initialise(self.memory, config)

    def encode(self, frames: Tensor, lengths: Tensor | None = None) -> Memory:
        """frames: B T 3 H W of numbers from 0 to 1, `lengths` how many each film has → what the decoder reads."""
        if frames.dim() != 5 or frames.shape[1] == 0:
            raise ContractError(
                "films: expected frames as numbers from 0 to 1 of shape (batch, frames ≥ 1, 3, height, width), found "
                f"{frames.dtype} {tuple(frames.shape)}"
            )
        count, steps = frames.shape[:2]
        lengths = ragged.check_lengths(lengths, frames, least=1)
        valid = ragged.mask(lengths, steps)
        seen, (rows, columns) = self.see(frames, valid)  # B T S D
        places = seen.shape[2]
        if self.memory is not None:
            each = rearrange(seen, "b t s d -> (b s) t d")
            state = self.memory.initial_state(count * places, like=each)
            if torch.compiler.is_exporting():  # the fast form of some layers asks how long the films are
                left, _ = self.memory.ragged(each, lengths.repeat_interleave(places), state)
            else:
                left, _ = self.memory(each, state)
            seen = rearrange(left, "(b s) t d -> b t s d", s=places)
        values = seen.masked_fill(~valid[:, :, None, None], 0)
        if not self.film.grid:
            last = values[torch.arange(count, device=values.device), lengths - 1]  # B 1 D
            return Memory(values[:, :, 0], valid, Summary(last), (steps,))
        everywhere = valid[:, :, None].expand(-1, -1, places).flatten(1)
        return Memory(values.flatten(1, 2), everywhere, None, (steps, rows, columns))

    def see(self, frames: Tensor, valid: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """What the CNN leaves of each frame, B T S D with S cells or 1, and its grid; padding is not looked at."""
        whole = torch.compiler.is_exporting() or bool(valid.all())
        frames = with_motion(frames, self.film.motion)
        pictures = frames.flatten(0, 1) if whole else frames[valid]
        found = self.eye(pictures)
        assert found.shape is not None
        rows, columns = found.shape
        if (rows, columns) != self.eye.grid() and not self.film.grid:
            side = self.film.pixels
            raise ContractError(
                f"films: expected frames of {side} × {side} pixels, found {frames.shape[4]} × {frames.shape[3]}"
            )
        entered = cast(Tensor, self.enter(found.values))
        if whole:
            if torch.compiler.is_exporting():
                entered = entered.masked_fill(~valid.flatten()[:, None, None], 0)
            return entered.unflatten(0, valid.shape), (rows, columns)
        spread = entered.new_zeros(*valid.shape, *entered.shape[1:])
        spread[valid] = entered
        return spread, (rows, columns)

    def places(self, frames: int, pixels: int | None = None) -> int:
        """Places of the Memory of a film."""
        return frames * (self.eye.cells(pixels) if self.film.grid else 1)

    def encoder_flops(self, batch: int, frames: int) -> int:
        """Of the matrix products that read films."""
        rows = batch * self.places(1)  # that a memory reads, each of so many frames
        looks = 1 if self.film.pool == "flat" and not self.film.grid else self.eye.cells()  # at each frame
        enter = sum(p.numel() for p in self.enter.parameters() if p.dim() > 1)
        found = self.eye.flops(batch * frames) + 2 * batch * frames * looks * enter
        return found if self.memory is None else found + self.memory.cost(rows, frames).flops
