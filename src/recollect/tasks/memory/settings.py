"""The settings that all tests of memory share; what a test draws is set by its own class in `data`."""

from dataclasses import dataclass

from ...core.settings import at_least, check_settings, option


@dataclass(frozen=True, kw_only=True)
class Config:
    """`eval_rows` is how many rows validation and test have, at each value of the dial."""

    batch: int = option(64, "Rows of a batch.")
    eval_rows: int = at_least(1, default=1000, most=10_000_000)
    eval_batch: int = 250

    def __post_init__(self) -> None:
        check_settings(self)
