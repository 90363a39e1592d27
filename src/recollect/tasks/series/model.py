"""A forecaster: numbers in, the numbers that follow out, any layer of the lineage between.

The past is cut into steps of `segment` points each (1: point by point; `stride` below it: overlapping patches) and
read step by step. From there it looks ahead in one of two ways:

    recursive   the next step, which is then fed back as if it had been seen: one contract step each, errors add up
    direct      all horizons at once, from the last output, from all outputs, or one step for each segment of the
                future, all from the same state (parallel, as SegRNN decodes)

STATE   that of its layers
UPDATE  theirs, by a step of the past
READ    recursive and `last`: a linear map of the top layer's output; else that output itself

Each window may be brought to a scale of its own first (`normalise`), and back afterwards.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple, cast

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn.functional import dropout, huber_loss

from ...core import state as states
from ...core.contract import ContractError, Cost
from ...layers import window
from . import least_squares
from .plan import Plan
from .readers import Glance, Stepper
from .settings import LossName
from .window_scale import stretch, window_scale

NARROWEST = 1e-4  # of a deviation that a model may claim, in scaled units


@dataclass(frozen=True, kw_only=True)
class Config(Plan):
    """The settings of a forecaster (see `plan`), which build it."""

    def build(self) -> "Forecaster":
        return Forecaster(self)


class Forecast(NamedTuple):
    """A forecast with the interval that should hold `level` of what comes; NaN where no interval is known."""

    mean: Tensor  # B H C
    lower: Tensor  # B H C
    upper: Tensor  # B H C


class Forecaster(nn.Module):
    """Forecasts from a window of the past; only `memory` goes step by step."""

    spread: Tensor  # H C: how far `level` of the errors on validation reached
    levels: Tensor  # of the quantiles: the centre's, the lower and the upper end's

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.memory = Stepper(config) if config.attention == "causal" else Glance(config)
        each = config.together * config.numbers
        if config.reading == "flatten":
            self.head = nn.Linear(config.steps * self.memory.width, config.horizon * each)
        if config.reading == "parallel":
            half = config.width // 2 if config.has_identity else config.width
            self.places = nn.Parameter(torch.randn(config.blocks, half))
            self.names = nn.Parameter(torch.randn(config.series, half)) if config.has_identity else None
            self.head = nn.Linear(self.memory.width, config.segment * each)
        self.register_buffer("spread", torch.zeros(config.horizon, config.series))
        low = (1 - config.level) / 2
        self.register_buffer("levels", torch.tensor([0.5, low, 1 - low]), persistent=False)

    def forward(self, past: Tensor, future: Tensor | None = None) -> Tensor:
        """past: B L C → what is predicted for each point, its centre first: B H C P.

        With `future` (B H C) a recursive forecaster is fed the true values instead of its own forecasts.
        """
        config = self.config
        self._check(past)
        shift, scale = window_scale(past, config.norm_of_window)
        rows = self._fold((past - shift) / scale)  # R L c
        if config.ahead == "recursive":
            known = None if future is None else self._fold((future - shift) / scale)
            found = self._recur(rows, known)
        else:
            found = self._direct(rows)
        found = self._unfold(found[:, : config.horizon], len(past))
        return stretch(found, shift, scale, config.intervals)

    def _check(self, past: Tensor) -> None:
        config = self.config
        if past.dim() != 3 or past.shape[1:] != (config.lookback, config.series):
            raise ContractError(
                f"forecaster: expected windows of shape (batch, {config.lookback}, {config.series}), "
                f"found {tuple(past.shape)}"
            )

    def steps_of(self, past: Tensor) -> Tensor:
        """past: B L C → what its memory is given, step by step: R T (w c), scaled as windows are."""
        shift, scale = window_scale(past, self.config.norm_of_window)
        return self._cut(self._fold((past - shift) / scale))

    def _fold(self, x: Tensor) -> Tensor:
        """B T C → R T c: independent series become rows of their own."""
        return x if self.config.channels == "joint" else rearrange(x, "b t c -> (b c) t 1")

    def _unfold(self, y: Tensor, batch: int) -> Tensor:
        """R T (c P) → B T C P."""
        if self.config.channels == "joint":
            return rearrange(y, "b t (c p) -> b t c p", p=self.config.numbers)
        return rearrange(y, "(b c) t p -> b t c p", b=batch)

    def _cut(self, rows: Tensor) -> Tensor:
        """R L c → R T (w c): the steps."""
        config = self.config
        rest = (rows.shape[1] - config.segment) % config.hop
        return rearrange(rows[:, rest:].unfold(1, config.segment, config.hop), "r t c w -> r t (w c)")

    def _direct(self, rows: Tensor) -> Tensor:
        config = self.config
        steps = self._cut(rows)
        if config.reading == "last":
            y, _ = self.memory.tail(steps)
            return rearrange(y, "r 1 (h n) -> r h n", h=config.horizon)
        y, state = self.memory(steps)
        if config.reading == "flatten":
            y = self.head(dropout(y.flatten(1), config.head_dropout, self.training))
            return rearrange(y, "r (h n) -> r h n", h=config.horizon)
        blocks, count = config.blocks, len(rows)
        query = self.places.expand(count, -1, -1)  # R M W
        if self.names is not None:
            names = self.names.repeat(count // config.series, 1)[:, None].expand(-1, blocks, -1)
            query = torch.cat([query, names], dim=-1)
        wide = states.select(state, torch.arange(count, device=rows.device).repeat_interleave(blocks))
        memory = cast(Stepper, self.memory)
        y, _ = memory.body(query.flatten(0, 1)[:, None].to(rows.dtype), wide)
        y = self.head(dropout(y[:, 0], config.head_dropout, self.training))
        return rearrange(y, "(r m) (w n) -> r (m w) n", m=blocks, w=config.segment)

    def _recur(self, rows: Tensor, known: Tensor | None, blocks: int | None = None, draw: Any = None) -> Tensor:
        """R L c → R (blocks·w) n, feeding back forecasts, or the true values (`known`), or with `draw` samples."""
        blocks = blocks or self.config.blocks
        steps = self._cut(rows)
        if known is not None:
            coming = self._cut(known[:, : (blocks - 1) * self.config.segment]) if blocks > 1 else steps[:, :0]
            y, _ = self.memory.tail(torch.cat([steps, coming], dim=1), blocks)
            return self._points(y)
        y, state = self.memory.tail(steps)
        if draw is not None:
            many = torch.arange(len(rows), device=rows.device).repeat_interleave(self.config.paths)
            y, state = y[many], states.select(state, many)
        found = [y]
        for _ in range(blocks - 1):
            numbers = rearrange(y, "r 1 (w c p) -> r 1 (w c) p", c=self.config.together, p=self.config.numbers)
            fed = numbers[..., 0]
            if draw is not None:
                fed = fed + numbers[..., 1].exp() * draw(fed)
            y, state = self.memory(fed, state)
            found.append(y)
        return self._points(torch.cat(found, dim=1))

    def _points(self, y: Tensor) -> Tensor:
        """R M (w n) → R (M·w) n."""
        return rearrange(y, "r m (w n) -> r (m w) n", w=self.config.segment)

    @torch.no_grad()
    def forecast(self, past: Tensor, horizon: int | None = None, *, seed: int = 0) -> Forecast:
        """The forecast with its interval, any number of points ahead.

        A recursive forecaster goes on feeding itself; a direct one takes its forecast as the past of the next,
        and beyond its own horizon has no interval.
        """
        horizon = horizon or self.config.horizon
        if self.config.ahead == "recursive":
            return self._forecast_recursively(past, horizon, seed)
        parts: list[Forecast] = []
        while sum(part.mean.shape[1] for part in parts) < horizon:
            near = self._interval(self(past))
            if parts:  # intervals leave out the errors of forecasts that were fed back
                near = Forecast(near.mean, *(torch.full_like(near.mean, math.nan) for _ in range(2)))
            parts.append(near)
            past = torch.cat([past, near.mean], dim=1)[:, -self.config.lookback :]
        return Forecast(*(torch.cat(part, dim=1)[:, :horizon] for part in zip(*parts, strict=True)))

    def _forecast_recursively(self, past: Tensor, horizon: int, seed: int) -> Forecast:
        config = self.config
        self._check(past)
        shift, scale = window_scale(past, config.norm_of_window)
        rows = self._fold((past - shift) / scale)
        blocks = math.ceil(horizon / config.segment)
        found = self._unfold(self._recur(rows, None, blocks)[:, :horizon], len(past))
        found = stretch(found, shift, scale, config.intervals)
        if config.intervals == "residual":
            return self._interval(found)
        generator = torch.Generator().manual_seed(seed)

        def draw(like: Tensor) -> Tensor:
            return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)

        drawn = self._recur(rows, None, blocks, draw)[:, :horizon]
        drawn = rearrange(drawn, "r t (c p) -> r t c p", p=2)
        drawn = drawn[..., 0] + drawn[..., 1].exp() * draw(drawn[..., 0])  # R·paths T c
        spread = rearrange(drawn, "(r k) t c -> k r t c", k=config.paths).var(dim=0, correction=1 % config.paths).sqrt()
        wide = self._unfold(spread.repeat_interleave(2, dim=-1), len(past))[..., 0] * scale * self._reach()
        return Forecast(found[..., 0], found[..., 0] - wide, found[..., 0] + wide)

    def _interval(self, found: Tensor) -> Forecast:
        """found: B H C P, in the scale of the data."""
        mean = found[..., 0]
        if self.config.intervals == "quantile":
            ends = found[..., 1:].sort(dim=-1).values
            return Forecast(mean, torch.minimum(ends[..., 0], mean), torch.maximum(ends[..., 1], mean))
        if self.config.intervals == "gaussian":
            wide = found[..., 1].exp() * self._reach()
        else:
            wide = torch.full_like(mean, math.nan)
            count = min(mean.shape[1], len(self.spread)) if self.spread.any() else 0
            wide[:, :count] = self.spread[:count].to(mean)
        return Forecast(mean, mean - wide, mean + wide)

    def _reach(self) -> float:
        """Deviations to either side that hold `level` of a Gaussian."""
        return NormalDist().inv_cdf((1 + self.config.level) / 2)

    def losses(self, found: Tensor, future: Tensor, loss: LossName = "mse") -> Tensor:
        """The loss of each point (B H C) for what `forward` gave; learnt intervals have one of their own."""
        mean = found[..., 0]
        if self.config.intervals == "gaussian":
            log = found[..., 1].clamp(min=math.log(NARROWEST))
            return 0.5 * ((future - mean) / log.exp()) ** 2 + log
        if self.config.intervals == "quantile":
            error = future[..., None] - found
            return torch.maximum(self.levels * error, (self.levels - 1) * error).sum(dim=-1)
        if loss == "huber":
            return huber_loss(mean, future, reduction="none")
        return (mean - future).abs() if loss == "mae" else (mean - future) ** 2

    @torch.no_grad()
    def solve(self, windows: Iterable[tuple[Tensor, Tensor]], ridge: float = 0.0) -> None:
        """The weights of a linear autoregression in closed form: least squares over windows (past, future)."""
        config = self.config
        if config.model != "ar" or config.layers != 1 or config.intervals == "quantile":
            raise ContractError(
                f"forecaster: only one layer of ar with a squared error is solved, found {config.layers} of "
                f"{config.model} with {config.intervals} intervals; train it by steps"
            )
        body = cast(Stepper, self.memory).body
        layer = next(part for part in body.layers if isinstance(part, window.Window))
        taps, ahead = layer.config.tau, config.segment if config.ahead == "recursive" else config.horizon
        weights, left = least_squares.fit(self._pairs(windows, taps, ahead), ridge)
        outputs = [weights.T]
        if config.intervals == "gaussian":
            log = torch.zeros_like(weights.T)
            log[:, -1] = left.clamp(min=NARROWEST**2).log() / 2
            outputs.append(log)
        found = torch.stack(outputs, dim=1).flatten(0, 1)  # point by point, its numbers side by side
        linear = cast(nn.Linear, layer.map)
        linear.weight.copy_(found[:, :-1])
        linear.bias.copy_(found[:, -1])

    def _pairs(
        self, windows: Iterable[tuple[Tensor, Tensor]], taps: int, ahead: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Windows as rows: the last `taps` steps of each past, and the `ahead` points that came after it."""
        for past, future in windows:
            past, future = past.double(), future.double()
            shift, scale = window_scale(past, self.config.norm_of_window)
            x = self._cut(self._fold((past - shift) / scale))[:, -taps:].flatten(1)
            yield x, self._fold((future[:, :ahead] - shift) / scale).flatten(1)

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        """Of `batch` windows of `steps` points: reading them, and looking ahead once."""
        config = self.config
        rows = batch * (config.series // config.together)
        count = max(1, (steps - config.segment) // config.hop + 1)
        more = config.blocks - 1 if config.ahead == "recursive" else 0
        read = self.memory.cost(rows, count + more)
        extra = 0
        if config.reading == "parallel" and config.ahead == "direct":
            extra = cast(Stepper, self.memory).body.cost(rows * config.blocks, 1).flops
            extra += 2 * rows * config.blocks * self.head.weight.numel()
        elif config.reading == "flatten":
            extra = 2 * rows * self.head.weight.numel()
        return Cost(read.flops + extra, read.state_bytes)
