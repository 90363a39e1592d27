"""The settings of films."""

import math
from dataclasses import dataclass
from typing import Literal

from ....core.settings import ContractError, at_least, check_file_names, check_settings, option

SHARE = 0.1  # of the films, for validation, and as much for the test
LONGEST = 60  # words of a caption that is trained on
COUNT = 12_000  # rendered films to train on
MOST = 500_000  # of them: some 12 GB of frames
EVENTS = 3  # of a rendered film, in training and validation
FRAMES = 64  # of a film that are read
MOST_FRAMES = 1_024
MOST_PIXELS = 1 << 25  # of the frames of one film: 100 MB


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the films are (none: rendered ones), and how they are read; see `data.load`.

    `held_out` is the share of a folder's films for validation, and as much for the test. Of a film with more than
    `frames` frames so many are read, evenly spread. Rendered films for training have up to `events` events, those of
    the test up to five; `varied` ones are drawn as others might, at any speed and on any ground.
    """

    data: tuple[str, ...] = option((), "File, folder or known set; may be given more than once.")
    pixels: int | None = None
    frames: int = at_least(1, default=FRAMES, most=MOST_FRAMES)
    least: int | None = None
    longest: int = LONGEST
    held_out: float = SHARE
    count: int = at_least(12, default=COUNT, most=MOST)
    events: int = at_least(1, default=EVENTS, most=5)
    whole: bool = False
    varied: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        check_file_names(self, ("data",))
        if self.pixels is not None and not 16 <= self.pixels <= 512:
            raise ContractError(f"data: expected pixels from 16 to 512, found {self.pixels}")
        if self.pixels is not None and self.frames * self.pixels**2 > MOST_PIXELS:
            raise ContractError(
                f"data: expected films of at most {MOST_PIXELS:,} pixels in all, found frames={self.frames} and "
                f"pixels={self.pixels}; lower one of them"
            )


@dataclass(frozen=True, kw_only=True)
class Config:
    """`batch` counts films. `grain` rounds the lengths of captions up.

    `choose` says what picks the best checkpoint: the loss on references, or BLEU-4 or exact matches of greedy captions
    of the first `eval_films`. `beam` and what follows are for measuring; a caption has at most `extra` words.
    """

    batch: int = option(32, "Rows of a batch.")
    smoothing: float = 0.0
    grain: int = at_least(1, default=1, most=4_096)
    choose: Literal["nats", "bleu", "exact"] = "nats"
    eval_films: int = 300
    beam: int = at_least(1, default=1, most=10_000)
    length_penalty: float = 0.6
    extra: int = at_least(1, default=60, most=100_000)

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 <= self.smoothing < 1:
            raise ContractError(f"films: expected smoothing in [0, 1), found {self.smoothing}")
        if not 0 <= self.length_penalty < math.inf:
            raise ContractError(f"beam: expected length_penalty of at least 0, found {self.length_penalty}")
