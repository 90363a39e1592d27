"""The settings of naming the first symbol."""

from dataclasses import dataclass

from recollect.core.settings import at_least, check_settings, option


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Rows of `length` symbols out of `symbols`, so many for training and for validation, drawn by `draw`."""

    length: int = option(6, "Of first: symbols of a row.")
    symbols: int = 4
    rows: int = 512
    draw: int = at_least(0, default=0)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, kw_only=True)
class Config:
    batch: int = option(32, "Rows of a batch.")

    def __post_init__(self) -> None:
        check_settings(self)
