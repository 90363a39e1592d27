"""The settings of transcribing sound."""

import math
from dataclasses import dataclass
from typing import Literal

from ...core.settings import ContractError, at_least, check_file_names, check_settings, option
from ...data.sound.settings import AugmentSettings, LogMel

TONES = "tones"
LETTERS = 8  # of the generated tones
MOST_LETTERS = 26
TAKES = 40  # recordings of each letter that are generated
MOST_TAKES = 10_000
JOIN = 5  # recordings of a string, at most, where strings are joined
MOST_JOIN = 100
COUNT = 300  # strings of validation, and of the test
SHARE = 0.1  # of a folder's recordings, for validation, and as much for the test
LONGEST = 30.0  # seconds of a recording that is trained on


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the sound is (none: generated tones), how strings are joined of recordings, and how it becomes frames.

    `sample_rate`, `frame`, `hop` and `bands` are those of log-mel frames; a step of the model is `stack` frames side
    by side, which is a convolution that is as wide as its stride. `speaker` is heard in the test alone.
    """

    data: tuple[str, ...] = option((), "File, folder or known set; may be given more than once.")
    join: int | None = at_least(1, default=None, most=MOST_JOIN)
    longer: tuple[int, ...] = (2, 4)
    gap: float = 0.3
    count: int = at_least(1, default=COUNT, most=100_000)
    speaker: str | None = None
    letters: int = at_least(2, default=LETTERS, most=MOST_LETTERS)
    takes: int = at_least(10, default=TAKES, most=MOST_TAKES)
    held_out: float = SHARE
    whole: bool = False
    lower: bool = True
    longest: float = LONGEST
    sample_rate: int = 8_000
    frame: float = 25.0
    hop: float = 10.0
    bands: int = 40
    stack: int = at_least(1, default=4, most=100)

    def __post_init__(self) -> None:
        check_settings(self)
        check_file_names(self, ("data",))
        if not 0 <= self.gap <= 10:
            raise ContractError(f"data: expected gap from 0 to 10 seconds, found {self.gap}")
        if not 0 < self.longest < math.inf:
            raise ContractError(f"data: expected longest above 0 seconds, found {self.longest}")
        if not 0 < self.held_out < 0.5:
            raise ContractError(f"data: expected held_out between 0 and 0.5, found {self.held_out}")
        if not all(type(times) is int and 2 <= times <= MOST_JOIN for times in self.longer):
            raise ContractError(
                f"data: expected longer as multiples from 2 to {MOST_JOIN}, such as 2,4, found {self.longer}"
            )
        self.mel()

    def mel(self) -> LogMel:
        """The settings of the frames."""
        return LogMel(rate=self.sample_rate, window=self.frame, hop=self.hop, bands=self.bands)


@dataclass(frozen=True, kw_only=True)
class Config(AugmentSettings):
    """`batch` counts recordings, or strings of them; `bucket` batches' worth are sorted by length before they are cut.

    Training alters the frames of each recording, or string of them, as a whole. `choose` says what picks the best
    checkpoint: character errors of greedy texts, or the loss. `beam` and what follows are for measuring; a text has at
    most `ratio` characters for each step of the sound, and `extra` more. `steps_each` is the length of a training row
    (filled in).
    """

    batch: int = option(32, "Rows of a batch.")
    bucket: int = at_least(1, default=8, most=1_000)
    tempo: float = 0.1
    noise: float | None = 20.0
    smoothing: float = 0.0
    choose: Literal["error", "nats"] = "error"
    eval_rows: int | None = 200
    beam: int = at_least(1, default=8, most=10_000)
    length_penalty: float = 0.0
    ratio: float = 1.0
    extra: int = at_least(0, default=5, most=100_000)
    steps_each: int | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        self.check_augmentation()
        if not 0 <= self.smoothing < 1:
            raise ContractError(f"transcribe: expected smoothing in [0, 1), found {self.smoothing}")
        for name in ("length_penalty", "ratio"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ContractError(f"beam: expected {name} of at least 0, found {getattr(self, name)}")
