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
from collections.abc import Callable, Iterable, Iterator
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
from .effect import Beside, Effect
from .plan import Plan
from .readers import Glance, Stepper
from .settings import LossName
from .window_scale import running_max, stretch, window_scale

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


def _draw_by(seed: int) -> Callable[[Tensor], Tensor]:
    """Standard normal numbers like a tensor, by a seed."""
    generator = torch.Generator().manual_seed(seed)
    return lambda like: torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)


class Window(NamedTuple):
    """Windows to solve an autoregression from: values without the effect of what is known, and what lies beside."""

    past: Tensor  # B L C
    future: Tensor  # B H C
    extra: Tensor | None = None  # R L e, as `fold_beside` gives it


class Entered(NamedTuple):
    """Windows as their memory reads them, and what is given back to what it predicts."""

    steps: Tensor  # R T D
    past: Tensor  # B L C, without the effect of what is known
    shift: Tensor  # B 1 C
    scale: Tensor  # B 1 C
    effect: Tensor | None  # B H C


class Forecaster(nn.Module):
    """Forecasts from a window of the past; only `memory` goes step by step."""

    spread: Tensor  # H C: distances that an interval reaches (see `calibration`); NaN: none; 0: not calibrated
    levels: Tensor  # of the quantiles: the centre's, the lower and the upper end's

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.memory = Stepper(config) if config.attention == "causal" else Glance(config)
        self.effect = Effect(config.known_inputs, config.series, config.effect_units) if config.known_inputs else None
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

    def forward(self, past: Tensor, future: Tensor | None = None, beside: Beside | None = None) -> Tensor:
        """past: B L C → what is predicted for each point, its centre first: B H C P.

        With `future` (B H C) a recursive forecaster is fed the true values instead of its own forecasts.
        """
        config = self.config
        own = self._enter(past, beside)
        if config.ahead == "recursive":
            known = None
            if future is not None:
                known = self._fold((self._without(future, own.effect) - own.shift) / own.scale)
            found = self._recur(own.steps, known)
        else:
            found = self._direct(own.steps)
        return self._leave(found[:, : config.horizon], own)

    def _enter(self, past: Tensor, beside: Beside | None) -> "Entered":
        """A window (B L C) as steps of its own scale, without the effect of what is known."""
        config = self.config
        self._check(past, beside)
        effect, extra = None, None
        if self.effect is not None and beside is not None:
            whole = self.effect(beside.known)
            past, effect = past - whole[:, : config.lookback], whole[:, config.lookback :]
        if beside is not None and beside.past is not None:
            extra = self.fold_beside(beside.past)
        shift, scale = window_scale(past, config.norm_of_window)
        steps = self._cut(self._fold((past - shift) / scale), extra)
        return Entered(steps, past, shift, scale, effect)

    def _without(self, future: Tensor, effect: Tensor | None) -> Tensor:
        return future if effect is None else future - effect[:, : future.shape[1]]

    def _leave(self, found: Tensor, own: "Entered") -> Tensor:
        """What was predicted for rows (R T n) in the scale of the data, with the effect of what is known: B T C P."""
        y = stretch(self._unfold(found, own.past.shape[0]), own.shift, own.scale, self.config.intervals)
        if own.effect is None:
            return y
        added = own.effect[:, : y.shape[1], :, None]
        return torch.cat([y[..., :1] + added, y[..., 1:]], dim=-1) if self.config.intervals == "gaussian" else y + added

    def _check(self, past: Tensor, beside: Beside | None) -> None:
        config = self.config
        if past.dim() != 3 or past.shape[1:] != (config.lookback, config.series):
            raise ContractError(
                f"forecaster: expected windows of shape (batch, {config.lookback}, {config.series}), "
                f"found {tuple(past.shape)}"
            )
        for name, count, given in (
            ("known ahead", config.known_inputs if self.effect is not None else 0, beside and beside.known),
            ("known so far", config.past_inputs if beside is not None else 0, beside and beside.past),
        ):
            found = 0 if given is None else given.shape[-1]
            if found != count:
                raise ContractError(f"forecaster: expected {count} numbers {name} beside each point, found {found}")

    def steps_of(self, past: Tensor, beside: Beside | None = None) -> Tensor:
        """past: B L C → what its memory is given, step by step: R T D, scaled as windows are."""
        return self._enter(past, beside).steps

    def fold_beside(self, past: Tensor) -> Tensor:
        """Numbers known only so far (B L G P) beside the rows that read them: R L e."""
        if self.config.channels == "joint":
            return rearrange(past, "b l g p -> b l (g p)")
        return rearrange(past.expand(-1, -1, self.config.series, -1), "b l c p -> (b c) l p")

    def _fold(self, x: Tensor) -> Tensor:
        """B T C → R T c: independent series become rows of their own."""
        return x if self.config.channels == "joint" else rearrange(x, "b t c -> (b c) t 1")

    def _unfold(self, y: Tensor, batch: int) -> Tensor:
        """R T (c P) → B T C P."""
        if self.config.channels == "joint":
            return rearrange(y, "b t (c p) -> b t c p", p=self.config.numbers)
        return rearrange(y, "(b c) t p -> b t c p", b=batch)

    def _cut(self, rows: Tensor, extra: Tensor | None = None) -> Tensor:
        """R L c, and R L e beside it (none: 0, their mean) → R T (w c + w e): the steps."""
        config = self.config
        if config.extra and extra is None:
            extra = rows.new_zeros(*rows.shape[:2], config.extra)
        parts = [rows] if extra is None else [rows, extra.to(rows)]
        rest = (rows.shape[1] - config.segment) % config.hop
        cut = [part[:, rest:].unfold(1, config.segment, config.hop) for part in parts]
        return torch.cat([rearrange(part, "r t c w -> r t (w c)") for part in cut], dim=-1)

    def _direct(self, steps: Tensor) -> Tensor:
        config = self.config
        if config.reading == "last":
            y, _ = self.memory.tail(steps)
            return rearrange(y, "r 1 (h n) -> r h n", h=config.horizon)
        y, state = self.memory(steps)
        if config.reading == "flatten":
            y = self.head(dropout(y.flatten(1), config.head_dropout, self.training))
            return rearrange(y, "r (h n) -> r h n", h=config.horizon)
        blocks, count = config.blocks, steps.shape[0]
        query = self.places.expand(count, -1, -1)  # R M W
        if self.names is not None:
            names = self.names.repeat(count // config.series, 1)[:, None].expand(-1, blocks, -1)
            query = torch.cat([query, names], dim=-1)
        wide = states.select(state, torch.arange(count, device=steps.device).repeat_interleave(blocks))
        memory = cast(Stepper, self.memory)
        y, _ = memory.body(query.flatten(0, 1)[:, None].to(steps.dtype), wide)
        y = self.head(dropout(y[:, 0], config.head_dropout, self.training))
        return rearrange(y, "(r m) (w n) -> r (m w) n", m=blocks, w=config.segment)

    def _recur(self, steps: Tensor, known: Tensor | None, blocks: int | None = None, draw: Any = None) -> Tensor:
        """R T D → R (blocks·w) n, feeding back forecasts, or the true values (`known`), or with `draw` samples.

        What is known only so far is fed as 0, its mean, from there on.
        """
        blocks = blocks or self.config.blocks
        if known is not None:
            coming = self._cut(known[:, : (blocks - 1) * self.config.segment]) if blocks > 1 else steps[:, :0]
            y, _ = self.memory.tail(torch.cat([steps, coming], dim=1), blocks)
            return self._points(y)
        y, state = self.memory.tail(steps)
        if draw is not None:
            many = torch.arange(steps.shape[0], device=steps.device).repeat_interleave(self.config.paths)
            y, state = y[many], states.select(state, many)
        found = [y]
        for _ in range(blocks - 1):
            numbers = rearrange(y, "r 1 (w c p) -> r 1 (w c) p", c=self.config.together, p=self.config.numbers)
            fed = numbers[..., 0]
            if draw is not None:
                fed = fed + numbers[..., 1].exp() * draw(fed)
            fed = torch.cat([fed, fed.new_zeros(*fed.shape[:2], steps.shape[2] - fed.shape[2])], dim=-1)
            y, state = self.memory(fed, state)
            found.append(y)
        return self._points(torch.cat(found, dim=1))

    def _points(self, y: Tensor) -> Tensor:
        """R M (w n) → R (M·w) n."""
        return rearrange(y, "r m (w n) -> r (m w) n", w=self.config.segment)

    @torch.no_grad()
    def forecast(
        self,
        past: Tensor,
        horizon: int | None = None,
        *,
        beside: Beside | None = None,
        seed: int = 0,
        noise: Tensor | None = None,
    ) -> Forecast:
        """The forecast with its interval, any number of points ahead.

        A recursive forecaster goes on feeding itself; a direct one takes its forecast as the past of the next,
        and beyond its own horizon has no interval. `beside` has what is known at every point, up to the last one asked
        for. `noise` (B P 2 H' C, standard normal) takes the place of what is drawn for a recursive Gaussian's paths:
        what is fed back, and what is added to each point.
        """
        horizon = horizon or self.config.horizon
        if self.config.ahead == "recursive":
            return self._forecast_recursively(past, horizon, beside, seed, noise)
        beside = None if beside is None else self._move(beside, 0)
        parts: list[Forecast] = []
        while sum(part.mean.shape[1] for part in parts) < horizon:
            near = self._bound(*self._distances(self(past, beside=beside), past))
            if parts:  # intervals leave out the errors of forecasts that were fed back
                near = Forecast(near.mean, *(torch.full_like(near.mean, math.nan) for _ in range(2)))
            parts.append(near)
            past = torch.cat([past, near.mean], dim=1)[:, -self.config.lookback :]
            beside = None if beside is None else self._move(beside, self.config.horizon)
        return Forecast(*(torch.cat(part, dim=1)[:, :horizon] for part in zip(*parts, strict=True)))

    def _move(self, beside: Beside, count: int) -> Beside:
        """The covariates of the window `count` points later: what is known only so far has its mean from there on."""
        known, past = beside
        if known is not None:  # at its end points are forecast that nobody asked for
            missing = max(0, self.config.lookback + self.config.horizon + count - known.shape[1])
            known = torch.cat([known, known[:, -1:].expand(-1, missing, -1, -1)], dim=1)[:, count:]
        if past is not None and count:
            past = torch.cat([past, torch.zeros_like(past[:, :1]).expand(-1, count, -1, -1)], dim=1)
            past = past[:, -self.config.lookback :]
        return Beside(known, past)

    def _forecast_recursively(
        self, past: Tensor, horizon: int, beside: Beside | None, seed: int, noise: Tensor | None
    ) -> Forecast:
        config = self.config
        own = self._enter(past, beside)
        blocks = math.ceil(horizon / config.segment)
        found = self._leave(self._recur(own.steps, None, blocks)[:, :horizon], own)
        if config.intervals == "residual":
            return self._bound(*self._distances(found, past))
        draw = _draw_by(seed) if noise is None else self._draw_from(noise, blocks, horizon)
        drawn = self._recur(own.steps, None, blocks, draw)[:, :horizon]
        drawn = rearrange(drawn, "r t (c p) -> r t c p", p=2)
        drawn = drawn[..., 0] + drawn[..., 1].exp() * draw(drawn[..., 0])  # R·paths T c
        spread = rearrange(drawn, "(r k) t c -> k r t c", k=config.paths).var(dim=0, correction=1 % config.paths).sqrt()
        wide = self._unfold(spread.repeat_interleave(2, dim=-1), past.shape[0])[..., 0] * own.scale
        return self._bound(found[..., 0], wide, wide)

    def _draw_from(self, noise: Tensor, blocks: int, horizon: int) -> Callable[[Tensor], Tensor]:
        """Given noise in the order in which it is asked for: of each block that is fed back, then of all points."""
        joint, width = self.config.channels == "joint", self.config.segment
        fed, added = (
            rearrange(part, "b p t c -> (b p) t c" if joint else "b p t c -> (b c p) t 1") for part in noise.unbind(2)
        )
        blocks_fed = [fed[:, at * width : (at + 1) * width].flatten(1)[:, None] for at in range(blocks - 1)]
        given = iter([*blocks_fed, added[:, :horizon]])
        return lambda like: next(given)

    def _distances(self, found: Tensor, past: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """found: B H C P, in the scale of the data → the centre, and the distances to either end by the model."""
        mean = found[..., 0]
        if self.config.intervals == "quantile":
            ends = found[..., 1:].sort(dim=-1).values
            return mean, (mean - ends[..., 0]).clamp(min=NARROWEST), (ends[..., 1] - mean).clamp(min=NARROWEST)
        if self.config.intervals == "gaussian":
            wide = found[..., 1].exp()
        elif self.config.interval_scale == "window":
            wide = window_scale(past, "window")[1].expand_as(mean)
        else:
            wide = torch.ones_like(mean)
        return mean, wide, wide

    def _bound(self, mean: Tensor, below: Tensor, above: Tensor) -> Forecast:
        """The interval: distances that never shrink with the horizon, times what calibration found."""
        times = self._multipliers(mean)
        return Forecast(mean, mean - running_max(below) * times, mean + running_max(above) * times)

    def _multipliers(self, mean: Tensor) -> Tensor:
        """Distances that the interval reaches at each horizon; NaN where that is not known (H C)."""
        config, count = self.config, mean.shape[1]
        plain = {"residual": math.nan, "gaussian": NormalDist().inv_cdf((1 + config.level) / 2), "quantile": 1.0}
        own = torch.full_like(mean[0], plain[config.intervals])
        known = self.spread[:count].to(mean)
        if count > len(known):  # nobody measured how wrong it is that far ahead
            beyond = torch.where(self.spread.any(), math.nan, own[len(known) :])
            known = torch.cat([known, beyond])
        return torch.where(known == 0, own, known)

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
    def solve(self, windows: Iterable["Window"], ridge: float = 0.0) -> None:
        """The weights of a linear autoregression in closed form: least squares over windows without what is known."""
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

    def _pairs(self, windows: Iterable["Window"], taps: int, ahead: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Windows as rows: the last `taps` steps of each past, and the `ahead` points that came after it."""
        for past, future, extra in windows:
            past, future = past.double(), future.double()
            shift, scale = window_scale(past, self.config.norm_of_window)
            x = self._cut(self._fold((past - shift) / scale), extra)[:, -taps:].flatten(1)
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
