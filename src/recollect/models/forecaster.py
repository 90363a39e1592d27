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
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, cast

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, huber_loss, relu

from ..core import state as states
from ..core.contract import ContractError, Cost, Layer, Memory, check_state
from ..layers import build_encoder, window
from .body import BodyConfig, initialise

HeadName = Literal["last", "flatten", "parallel"]
NormaliseName = Literal["none", "last", "mean", "window"]
IntervalName = Literal["residual", "gaussian", "quantile"]
LossName = Literal["mse", "mae", "huber"]

RECURRENT = ("rnn", "lstm", "gru")
NARROWEST = 1e-4  # of a deviation that a model may claim, in scaled units


@dataclass(frozen=True, kw_only=True)
class Config(BodyConfig):
    """`series`, `lookback` and `horizon` come from the data and the task; None leaves a choice to the model.

    `channels`: each series by itself with the same weights, or all of them in one step. `identity` tells the series
    apart where they are independent (parallel heads only). `normalise` takes from each window its last value, its mean,
    or its mean and deviation (`window`). `attention=full` lets every step of the past see every other.
    `intervals`: of the size of the errors on validation (`residual`), a Gaussian's, or quantiles that are learnt;
    they should hold `level` of what comes. A recursive Gaussian draws so many `paths`.
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
    paths: int = 32

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

    def build(self) -> "Forecaster":
        return Forecaster(self)

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
    def told_apart(self) -> bool:
        return self.identity and self.channels == "independent" and self.series > 1

    @property
    def halved(self) -> bool:
        """Whether half of the width says which place of the future is asked for, and half which series."""
        return self.reading == "parallel" and self.told_apart

    @property
    def grain(self) -> int:
        return max(super().grain, 2 if self.halved else 1)

    @property
    def numbers(self) -> int:
        """What is predicted for each point: its centre, and with learnt intervals what they take."""
        return {"residual": 1, "gaussian": 2, "quantile": 3}[self.intervals]

    @property
    def out(self) -> int | None:
        """The width of what is read after each step; None: the top layer's output itself."""
        if self.ahead == "recursive":
            return self.segment * self.together * self.numbers
        return self.horizon * self.together * self.numbers if self.reading == "last" else None


class Outlook(NamedTuple):
    """What lies ahead, and where `level` of it should lie; NaN where no interval is known."""

    mean: Tensor  # B H C
    lower: Tensor  # B H C
    upper: Tensor  # B H C


class Entry(nn.Module):
    """A step of the past as a vector."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.map = nn.Linear(config.segment * config.together, config.width)
        self.kind = config.entry

    def forward(self, x: Tensor) -> Tensor:
        return {"linear": lambda y: y, "relu": relu, "gelu": gelu}[self.kind](self.map(x))


class Stepper(Layer[tuple]):
    """The memory of a forecaster, step by step: the contract's own form."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dim = config.segment * config.together
        if config.bare:
            taps = {"tau": config.steps} | config.layer
            hidden = config.hidden or (config.width if config.model == "mlp" else None)
            self.body = replace(config, layer=taps, hidden=hidden).stack(self.dim, config.out).build()
            self.enter, self.read = nn.Identity(), nn.Identity()
        else:
            self.enter = Entry(config)
            self.body = config.stack(config.width).build()
            initialise(self.body, config)
            self.read = nn.Linear(self.body.width, config.out) if config.out else nn.Identity()
        self.width = config.out or self.body.width
        self.single = config.bare and config.layers == 1

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> tuple:
        return self.body.initial_state(batch, memory, like, capacity)

    def check(self, x: Tensor, state: tuple | None) -> None:
        if x.dim() != 3 or x.shape[2] != self.dim or x.shape[1] == 0 or not x.is_floating_point():
            raise ContractError(
                f"forecaster: expected steps of shape (batch, steps ≥ 1, {self.dim}), found {x.dtype} {tuple(x.shape)}"
            )
        if state is not None:
            check_state(self, state, len(x))

    def forward(self, x: Tensor, state: tuple | None = None) -> tuple[Tensor, tuple]:
        """x: B T D → y: B T W."""
        y, state = self.body(self.enter(x), self.initial_state(len(x), like=x) if state is None else state)
        return self.read(y), state

    def tail(self, x: Tensor, count: int = 1) -> tuple[Tensor, tuple]:
        """The outputs of the last `count` steps alone, from an empty state: B count W, and the state."""
        if not self.single:
            y, state = self(x)
            return y[:, -count:], state
        # a window's state is what it saw: to read every step before would be work for nothing
        start = self.initial_state(len(x), like=x)
        state = tuple(
            window.State(torch.cat([own.window, x[:, :-count]], dim=1)[:, -own.window.shape[1] :])
            if isinstance(own, window.State)
            else own
            for own in start
        )
        return self(x[:, -count:], state)

    def unroll(self, x: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        y, state = self.body.unroll(self.enter(x), state)
        return self.read(y), state

    def ragged(self, x: Tensor, lengths: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        y, state = self.body.ragged(self.enter(x), lengths, state)
        return self.read(y), state

    def explain(self, state: tuple, x: Tensor) -> dict[str, Tensor]:
        return self.body.explain(state, self.enter(x))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        body = self.body.cost(batch, steps, source)
        maps = [part for part in (getattr(self.enter, "map", None), self.read) if isinstance(part, nn.Linear)]
        each = sum(part.weight.numel() for part in maps)
        return Cost(body.flops + 2 * batch * steps * each, body.state_bytes)


class Glance(nn.Module):
    """The past seen all at once, every step by every other: an encoder in the stepper's place."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.enter = Entry(config)
        self.encoder = build_encoder(
            "transformer",
            dim=config.width,
            num_layers=config.layers,
            heads=config.heads,
            hidden=config.hidden,
            activation=config.activation,
            norm=config.norm,
            order=config.order,
            positions=config.positions or "learned",
            max_positions=max(config.max_positions, config.steps),
            bias=bool(config.bias),
            dropout=config.dropout,
        )
        self.read = nn.Linear(config.width, config.out) if config.out else nn.Identity()
        self.width = config.out or config.width

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """x: B T D → y: B T W."""
        rate = self.config.dropout if self.config.input_dropout is None else self.config.input_dropout
        y = self.encoder(dropout(self.enter(x), rate, self.training)).values
        return self.read(y), None

    def tail(self, x: Tensor, count: int = 1) -> tuple[Tensor, None]:
        y, _ = self(x)
        return y[:, -count:], None

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        width = self.config.width
        hidden = self.config.hidden or 4 * width
        block = 4 * width**2 + 2 * width * hidden + 2 * steps * width
        own = self.config.segment * self.config.together + (self.config.out or 0)
        return Cost(2 * batch * steps * (self.config.layers * block + own * width), 0)


class Forecaster(nn.Module):
    """What follows a window of the past. Everything outside `memory` looks at whole windows."""

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
            half = config.width // 2 if config.told_apart else config.width
            self.places = nn.Parameter(torch.randn(config.blocks, half))
            self.names = nn.Parameter(torch.randn(config.series, half)) if config.told_apart else None
            self.head = nn.Linear(self.memory.width, config.segment * each)
        self.register_buffer("spread", torch.zeros(config.horizon, config.series))
        low = (1 - config.level) / 2
        self.register_buffer("levels", torch.tensor([0.5, low, 1 - low]), persistent=False)

    def forward(self, past: Tensor, future: Tensor | None = None) -> Tensor:
        """past: B L C → what is predicted for each point, its centre first: B H C P.

        With `future` (B H C) a recursive forecaster is fed what came instead of what it said.
        """
        config = self.config
        self._check(past)
        shift, scale = window_scale(past, config.norm_of_window)
        rows = self._fold((past - shift) / scale)  # R L c
        if config.ahead == "recursive":
            told = None if future is None else self._fold((future - shift) / scale)
            found = self._recur(rows, told)
        else:
            found = self._direct(rows)
        found = self._unfold(found[:, : config.horizon], len(past))
        return _stretch(found, shift, scale, config.intervals)

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

    def _recur(self, rows: Tensor, told: Tensor | None, blocks: int | None = None, draw: Any = None) -> Tensor:
        """R L c → R (blocks·w) n, feeding back what was said, or what came (`told`), or with `draw` a sample."""
        blocks = blocks or self.config.blocks
        steps = self._cut(rows)
        if told is not None:
            coming = self._cut(told[:, : (blocks - 1) * self.config.segment]) if blocks > 1 else steps[:, :0]
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
    def look(self, past: Tensor, horizon: int | None = None, *, seed: int = 0) -> Outlook:
        """The forecast with its interval, any number of points ahead.

        A recursive forecaster goes on feeding itself; a direct one takes what it said as its past and looks again,
        and beyond its own horizon has no interval.
        """
        horizon = horizon or self.config.horizon
        if self.config.ahead == "recursive":
            return self._look_on(past, horizon, seed)
        parts: list[Outlook] = []
        while sum(part.mean.shape[1] for part in parts) < horizon:
            near = self._interval(self(past))
            if parts:  # no interval knows of the errors of what was fed back
                near = Outlook(near.mean, *(torch.full_like(near.mean, math.nan) for _ in range(2)))
            parts.append(near)
            past = torch.cat([past, near.mean], dim=1)[:, -self.config.lookback :]
        return Outlook(*(torch.cat(part, dim=1)[:, :horizon] for part in zip(*parts, strict=True)))

    def _look_on(self, past: Tensor, horizon: int, seed: int) -> Outlook:
        config = self.config
        self._check(past)
        shift, scale = window_scale(past, config.norm_of_window)
        rows = self._fold((past - shift) / scale)
        blocks = math.ceil(horizon / config.segment)
        found = self._unfold(self._recur(rows, None, blocks)[:, :horizon], len(past))
        found = _stretch(found, shift, scale, config.intervals)
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
        return Outlook(found[..., 0], found[..., 0] - wide, found[..., 0] + wide)

    def _interval(self, found: Tensor) -> Outlook:
        """found: B H C P, in the scale of the data."""
        mean = found[..., 0]
        if self.config.intervals == "quantile":
            ends = found[..., 1:].sort(dim=-1).values
            return Outlook(mean, torch.minimum(ends[..., 0], mean), torch.maximum(ends[..., 1], mean))
        if self.config.intervals == "gaussian":
            wide = found[..., 1].exp() * self._reach()
        else:
            wide = torch.full_like(mean, math.nan)
            count = min(mean.shape[1], len(self.spread)) if self.spread.any() else 0
            wide[:, :count] = self.spread[:count].to(mean)
        return Outlook(mean, mean - wide, mean + wide)

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
        square: Any = 0
        cross: Any = 0
        total: Any = 0
        count = 0
        for past, future in windows:
            past, future = past.double(), future.double()
            shift, scale = window_scale(past, config.norm_of_window)
            x = self._cut(self._fold((past - shift) / scale))[:, -taps:].flatten(1)
            x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
            y = self._fold((future[:, :ahead] - shift) / scale).flatten(1)
            square, cross, total, count = square + x.T @ x, cross + x.T @ y, total + (y**2).sum(dim=0), count + len(x)
        penalty = torch.eye(len(square), dtype=square.dtype, device=square.device) * ridge * count
        penalty[-1, -1] = 0  # the constant is free
        # on the CPU by the pseudo-inverse: columns that never change make the matrix singular
        weights = torch.linalg.pinv((square + penalty).cpu(), rtol=1e-13, hermitian=True) @ cross.cpu()
        left = (
            total.cpu() - 2 * (weights * cross.cpu()).sum(dim=0) + (weights * (square.cpu() @ weights)).sum(dim=0)
        ) / count
        outputs = [weights.T]
        if config.intervals == "gaussian":
            log = torch.zeros_like(weights.T)
            log[:, -1] = left.clamp(min=NARROWEST**2).log() / 2
            outputs.append(log)
        found = torch.stack(outputs, dim=1).flatten(0, 1)  # point by point, its numbers side by side
        linear = cast(nn.Linear, layer.map)
        linear.weight.copy_(found[:, :-1])
        linear.bias.copy_(found[:, -1])

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


def window_scale(past: Tensor, kind: NormaliseName) -> tuple[Tensor, Tensor]:
    """The shift and scale of each window and series: B 1 C."""
    if kind == "last":
        shift = past[:, -1:]
    elif kind == "none":
        shift = torch.zeros_like(past[:, -1:])
    else:
        shift = past.mean(dim=1, keepdim=True)
    if kind != "window":
        return shift, torch.ones_like(shift)
    return shift, (past.var(dim=1, keepdim=True, correction=0) + 1e-5).sqrt()


def _stretch(found: Tensor, shift: Tensor, scale: Tensor, intervals: IntervalName) -> Tensor:
    """What was predicted (B H C P) in the scale of a window, in that of the data."""
    shift, scale = shift[..., None], scale[..., None]
    if intervals != "gaussian":
        return found * scale + shift
    return torch.cat([found[..., :1] * scale + shift, found[..., 1:] + scale.log()], dim=-1)
