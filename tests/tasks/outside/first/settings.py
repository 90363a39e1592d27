"""The settings of naming the first symbol."""

from dataclasses import dataclass

from recollect.core.settings import check_settings, option


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Rows of `length` symbols out of `symbols`, so many for training and for validation, drawn by `draw`."""

    length: int = option(6, "Of first: symbols of a row.")
    symbols: int = 4
    rows: int = 512
    draw: int = 0

    def __post_init__(self) -> None:
        check_settings(self, least={"draw": 0})


@dataclass(frozen=True, kw_only=True)
class Config:
    batch: int = option(32, "Rows of a batch.")

    def __post_init__(self) -> None:
        check_settings(self)
