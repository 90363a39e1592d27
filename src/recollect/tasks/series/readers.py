"""How a forecaster reads the past: step by step, as the contract has it, or all of it at a glance."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, relu

from ...core.contract import ContractError, Cost, Layer, Memory, check_state
from ...layers import build_encoder, window
from ...models.body import initialise
from .plan import Plan


class Entry(nn.Module):
    """A step of the past as a vector."""

    def __init__(self, config: Plan) -> None:
        super().__init__()
        self.map = nn.Linear(config.inputs, config.width)
        self.kind = config.entry

    def forward(self, x: Tensor) -> Tensor:
        return {"linear": lambda y: y, "relu": relu, "gelu": gelu}[self.kind](self.map(x))


class Stepper(Layer[tuple]):
    """The memory of a forecaster, step by step: the contract's own form."""

    def __init__(self, config: Plan) -> None:
        super().__init__()
        self.dim = config.inputs
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
            check_state(self, state, x.shape[0])

    def forward(self, x: Tensor, state: tuple | None = None) -> tuple[Tensor, tuple]:
        """x: B T D → y: B T W."""
        y, state = self.body(self.enter(x), self.initial_state(x.shape[0], like=x) if state is None else state)
        return self.read(y), state

    def tail(self, x: Tensor, count: int = 1) -> tuple[Tensor, tuple]:
        """The outputs of the last `count` steps alone, from an empty state: B count W, and the state."""
        if not self.single:
            y, state = self(x)
            return y[:, -count:], state
        # a window's state is what it saw: to read every step before would be work for nothing
        start = self.initial_state(x.shape[0], like=x)
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

    def __init__(self, config: Plan) -> None:
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
        own = self.config.inputs + (self.config.out or 0)
        return Cost(2 * batch * steps * (self.config.layers * block + own * width), 0)
