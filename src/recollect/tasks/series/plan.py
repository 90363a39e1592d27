"""The plan of a forecaster: its settings, what they leave to the model, and the sizes that follow from them."""

import math
from dataclasses import dataclass
from typing import Literal

from ...core.contract import ContractError
from ...core.settings import at_least
from ...models.body import BodyConfig

HeadName = Literal["last", "flatten", "parallel"]
NormaliseName = Literal["none", "last", "mean", "window"]
IntervalName = Literal["residual", "gaussian", "quantile"]

RECURRENT = ("rnn", "lstm", "gru")


@dataclass(frozen=True, kw_only=True)
class Plan(BodyConfig):
    """`series`, `lookback` and `horizon` come from the data and the task; None leaves a choice to the model.

    `channels`: each series by itself with the same weights, or all of them in one step. `identity` gives each series a
    vector of its own where they are independent (parallel heads only). `normalise` takes from each window its last
    value, its mean, or its mean and deviation (`window`). `attention=full` lets every step of the past see every other.
    `intervals`: of the size of the errors on validation (`residual`), a Gaussian's, or quantiles that are learnt;
    all are calibrated on validation so that they hold `level` of what comes. `interval_scale`: errors are measured in
    the scale of the data, or in deviations of their window. A recursive Gaussian draws so many `paths`.

    `known_inputs` numbers are known ahead of each point and `past_inputs` only so far, both filled in from the data, of
    each series its own or one for all; `effect` are the hidden units of what the known ones do (0: a linear map).
    """

    series: int = 1
    lookback: int = 96
    horizon: int = 24
    width: int = 64
    layers: int = 1
    ahead: Literal["direct", "recursive"] = "direct"
    head: HeadName | None = None
    segment: int = 1
    stride: int | None = None
    channels: Literal["independent", "joint"] = "independent"
    identity: bool = True
    normalise: NormaliseName | None = None
    attention: Literal["causal", "full"] = "causal"
    entry: Literal["linear", "relu", "gelu"] = "linear"
    head_dropout: float = 0.0
    intervals: IntervalName = "residual"
    level: float = 0.8
    interval_scale: Literal["data", "window"] = "data"
    paths: int = 32
    known_inputs: int = at_least(0, default=0)
    past_inputs: int = at_least(0, default=0)
    own_covariates: bool = False
    effect: int | None = at_least(0, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.level < 1:
            raise ContractError(f"forecaster: expected level between 0 and 1, found {self.level}")
        if self.segment > self.lookback:
            raise ContractError(
                f"forecaster: expected segment of at most the look-back {self.lookback}, found {self.segment}"
            )
        if self.bare and self.reading != "last":
            raise ContractError(f"forecaster: {self.model} reads its window: expected head=last, found {self.head!r}")
        recursive = self.ahead == "recursive"
        if recursive and (self.head is not None or self.hop != self.segment or self.intervals == "quantile"):
            raise ContractError(
                "forecaster: ahead=recursive predicts the next step: expected no head, steps that do not overlap and "
                f"intervals other than quantile, found head={self.head}, stride={self.hop}, intervals={self.intervals}"
            )
        if self.attention == "full" and (self.model != "transformer" or recursive or self.reading == "parallel"):
            raise ContractError(
                "forecaster: attention=full needs model transformer, ahead=direct and head last or flatten, "
                f"found {self.model}, {self.ahead} and {self.reading}"
            )
        if self.halved and self.width % 2:
            raise ContractError(f"forecaster: expected an even width for places and series, found {self.width}")

    @property
    def bare(self) -> bool:
        """Whether the layer reads the values themselves: a window needs no way in and no way out."""
        return self.kind.layer == "window"

    @property
    def hop(self) -> int:
        return self.stride or self.segment

    @property
    def steps(self) -> int:
        """Steps that the look-back makes; what does not fill one is left out at its oldest end."""
        return (self.lookback - self.segment) // self.hop + 1

    @property
    def blocks(self) -> int:
        """Segments that the horizon takes."""
        return math.ceil(self.horizon / self.segment)

    @property
    def reading(self) -> HeadName:
        if self.head is not None or self.ahead == "recursive":
            return self.head or "last"
        return "parallel" if self.model in RECURRENT else "flatten" if self.model == "transformer" else "last"

    @property
    def norm_of_window(self) -> NormaliseName:
        return self.normalise or ("none" if self.ahead == "recursive" else "last")

    @property
    def together(self) -> int:
        """Series in one row."""
        return self.series if self.channels == "joint" else 1

    @property
    def has_identity(self) -> bool:
        return self.identity and self.channels == "independent" and self.series > 1

    @property
    def halved(self) -> bool:
        """Whether half of the width encodes the place in the horizon, and half the series."""
        return self.reading == "parallel" and self.has_identity

    @property
    def grain(self) -> int:
        return max(super().grain, 2 if self.halved else 1)

    @property
    def numbers(self) -> int:
        """What is predicted for each point: its centre, and with learnt intervals what they take."""
        return {"residual": 1, "gaussian": 2, "quantile": 3}[self.intervals]

    @property
    def effect_units(self) -> int:
        """Hidden units of the effect of what is known ahead; a linear autoregression's is linear."""
        return (0 if self.model == "ar" else 32) if self.effect is None else self.effect

    @property
    def extra(self) -> int:
        """Numbers known only so far that each point brings in a row."""
        return self.past_inputs * (self.series if self.own_covariates and self.channels == "joint" else 1)

    @property
    def inputs(self) -> int:
        """Numbers of one step of the past."""
        return self.segment * (self.together + self.extra)

    @property
    def draws(self) -> bool:
        """Whether intervals come from paths that are drawn."""
        return self.ahead == "recursive" and self.intervals == "gaussian"

    @property
    def out(self) -> int | None:
        """The width of what is read after each step; None: the top layer's output itself."""
        if self.ahead == "recursive":
            return self.segment * self.together * self.numbers
        return self.horizon * self.together * self.numbers if self.reading == "last" else None
