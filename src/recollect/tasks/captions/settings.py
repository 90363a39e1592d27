"""The settings of captions."""

import math
from dataclasses import dataclass
from typing import Literal

from ...core.settings import ContractError, at_least, check_file_names, check_settings, option

SHARE = 0.1  # of the pictures, for validation, and as much for the test
LONGEST = 40  # words of a caption that is trained on
COUNT = 12_000  # rendered scenes to train on
MOST = 1_000_000  # of them: some 10 GB of pictures


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the pictures are (none: rendered scenes), and how they are read; see `data.load`.

    `held_out` is the share of a folder's pictures for validation, and as much for the test. `varied` draws scenes on
    grounds of any brightness and in colours as others choose them; `ordered` describes each once, the left or upper
    thing first, so that it is settled which one a word is of.
    """

    data: tuple[str, ...] = option((), "File, folder or known set; may be given more than once.")
    pixels: int | None = None
    least: int | None = None
    longest: int = LONGEST
    held_out: float = SHARE
    count: int = at_least(12, default=COUNT, most=MOST)
    whole: bool = False
    varied: bool = False
    ordered: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        check_file_names(self, ("data",))
        if self.pixels is not None and not 16 <= self.pixels <= 1024:
            raise ContractError(f"data: expected pixels from 16 to 1024, found {self.pixels}")


@dataclass(frozen=True, kw_only=True)
class Config:
    """`batch` counts pictures. `flip` mirrors half of them; `crop` is the largest share of a side that is cut off.

    None leaves both to the data: pictures are mirrored and cut a little, scenes, where left is a word, are not. `grain`
    rounds lengths up, so that few shapes of batches occur (for graph=true). `choose` says what picks the best
    checkpoint: the loss on references, or BLEU-4 or exact matches of greedy captions of the first `eval_images`.
    `beam` and what follows are for measuring; a caption has at most `extra` words, whatever the size of its picture.
    """

    batch: int = option(64, "Rows of a batch.")
    smoothing: float = 0.0
    flip: bool | None = None
    crop: float | None = None
    grain: int = at_least(1, default=1, most=4_096)
    choose: Literal["nats", "bleu", "exact"] = "nats"
    eval_images: int = 500
    beam: int = at_least(1, default=3, most=10_000)
    length_penalty: float = 0.6
    extra: int = at_least(1, default=30, most=100_000)

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("smoothing", "crop"):
            if not 0 <= (getattr(self, name) or 0) < 1:
                raise ContractError(f"captions: expected {name} in [0, 1), found {getattr(self, name)}")
        if not 0 <= self.length_penalty < math.inf:
            raise ContractError(f"beam: expected length_penalty of at least 0, found {self.length_penalty}")
