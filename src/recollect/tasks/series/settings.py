"""The settings of forecasting."""

from dataclasses import dataclass
from typing import Literal

from ...core.settings import ContractError, at_least, check_file_names, check_settings, option
from .tables.layout import Layout

FillName = Literal["linear", "mask", "refuse"]
LossName = Literal["mse", "mae", "huber"]
LOOKBACK, PARTS = 96, 8  # the usual look-back, and the training rows that one row of it takes
POINTS = 1_000_000  # of a look-back, a horizon or a season, at most


@dataclass(frozen=True, kw_only=True)
class DataConfig(Layout):
    """Where the numbers are: a CSV file, or a known set's name (none: the noisy sine), and how they are read.

    `fill` says what is done about missing values inside; with `even` a table is refused that does not fill its grid;
    `period` is the season's (none: estimated); `draw` seeds the noisy sine. `whole` makes all of the file every part.
    """

    data: tuple[str, ...] = option((), "File, folder or known set; may be given more than once.")
    fill: FillName = "linear"
    calendar: bool | None = None
    even: bool = False
    period: int | None = at_least(1, default=None, most=POINTS)
    valid_share: float = 0.1
    test_share: float = 0.2
    draw: int = at_least(0, default=0)
    whole: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        check_file_names(self, ("data",))
        self.check_names()
        if len(self.data) > 1:
            raise ContractError(f"series: expected one file or known set, found {len(self.data)}: {self.data}")
        shares = (self.valid_share, self.test_share)
        if not all(0 < share < 1 for share in shares) or sum(shares) >= 1:
            raise ContractError(f"series: expected shares above 0 that leave some to train on, found {shares}")


@dataclass(frozen=True, kw_only=True)
class Config:
    """`loss` is that of a point forecast; `choose` the metric by which validation picks the best weights.

    `fit`: a linear autoregression is solved in closed form, with `ridge`, where its loss is the squared error
    (`auto`), always (`solve`), or trained as everything else (`steps`). A look-back that is not set is 96 points, or an
    eighth of the training rows where that is less.
    """

    lookback: int | None = option(
        None, "Of series: points that are seen (default: 96, or an eighth of the training rows).", most=POINTS
    )
    horizon: int = option(24, "Of series: points ahead.", most=POINTS)
    batch: int = option(32, "Rows of a batch.")
    loss: LossName = "mse"
    choose: Literal["mse", "mae"] = "mse"
    fit: Literal["auto", "solve", "steps"] = "auto"
    ridge: float = 0.0
    eval_batch: int = 256

    def __post_init__(self) -> None:
        check_settings(self)

    def fitting(self, train: tuple[int, int]) -> int:
        """The look-back for a series whose training rows are `train` (first, end)."""
        start, stop = train
        return self.lookback or max(1, min(LOOKBACK, (stop - start) // PARTS))
