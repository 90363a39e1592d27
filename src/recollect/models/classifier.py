"""A classifier: a sequence of tokens or numbers in, an answer after each step out, any layer of the lineage between.

STATE   that of its layers, and of the pool: nothing (last), the sum so far (mean), a weighted sum (attention)
UPDATE  theirs; the pool takes the top layer's output in
READ    answer = W·(the pool's reading) + b: after step t, what it would say had the sequence ended there

The answer for a whole sequence is that of its last step. With the pool `each` every step has its own answer, as in
tests of memory that ask in the middle.

`both_ways` reads each row from both ends, by two stacks of layers whose outputs stand side by side. Such a model sees
whole rows only: it has no state, and one answer for each row.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ..core import ragged
from ..core.contract import ContractError, Cost, Layer, Memory, Nothing, check_state
from ..layers.encoder import BidirectionalConfig
from .body import BodyConfig, initialise

PoolName = Literal["last", "mean", "attention", "each"]
LIMIT = 10.0  # of an attention pool's scores


@dataclass(frozen=True, kw_only=True)
class Settings(BodyConfig):
    """`spread` is the deviation at which the vectors of tokens start. At 1 they are far apart from the first step on,
    which suits few tokens and short trainings; at .02, as language models have it, they are soon moved and do not drown
    learned places, which start there: a large vocabulary wants that.

    With `both_ways` a second stack of layers, as wide as the first, reads each row from its end.
    """

    spread: float = 1.0
    both_ways: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.spread > 0:
            raise ContractError(f"classifier: expected spread above 0, found {self.spread}")


@dataclass(frozen=True, kw_only=True)
class Config(Settings):
    """`inputs` is the size of the vocabulary, or with `tokens=False` the number of numbers at each step."""

    inputs: int
    outputs: int
    tokens: bool = True
    pool: PoolName = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.both_ways and self.pool == "each":
            raise ContractError(
                "classifier: expected one answer a row with both_ways, found pool=each, whose answers come step by step"
            )

    def build(self) -> Any:
        """A Classifier; with `both_ways` a BothWays."""
        return BothWays(self) if self.both_ways else Classifier(self)

    def entry(self) -> nn.Module:
        """What the inputs of a step enter by: vectors of tokens, or a map of numbers."""
        if not self.tokens:
            return nn.Linear(self.inputs, self.width)
        table = nn.Embedding(self.inputs, self.width)
        with torch.no_grad():
            table.weight.mul_(self.spread)
        return table

    def answers(self, width: int) -> nn.Linear:
        """From what a pool has read to an answer."""
        head = nn.Linear(width, self.outputs)
        nn.init.zeros_(head.bias)
        return head

    def check_input(self, x: Tensor) -> None:
        """Refuse all but tokens, or numbers, of rows with at least one step."""
        wanted = "tokens of shape (batch, steps ≥ 1)"
        fits = x.dim() == 2 and not x.is_floating_point()
        if not self.tokens:
            wanted = f"numbers of shape (batch, steps ≥ 1, {self.inputs})"
            fits = x.dim() == 3 and x.shape[2] == self.inputs and x.is_floating_point()
        if not fits or x.shape[1] == 0:
            raise ContractError(f"classifier: expected {wanted}, found {x.dtype} {tuple(x.shape)}")


class Sum(NamedTuple):
    """What a pool has gathered. A mean is an attention whose scores are all 0."""

    weight: Tensor  # B, Σ exp(score)
    value: Tensor  # B W, Σ exp(score)·y


class State(NamedTuple):
    body: tuple
    pool: Sum | Nothing


class Classifier(Layer[State]):
    """Classification of sequences by a stack of any layers."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.enter = config.entry()
        self.body = config.stack(width).build()
        initialise(self.body, config)
        self.pools = config.pool in ("mean", "attention")
        if config.pool == "attention":
            self.score = nn.Linear(self.body.width, 1)
        self.head = config.answers(self.body.width)
        self.dim, self.width = config.inputs, config.outputs

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> State:
        body = self.body.initial_state(batch, memory, like, capacity)
        if not self.pools:
            return State(body, Nothing())
        zero = self.like(like).new_zeros(batch, dtype=torch.promote_types(self.like(like).dtype, torch.float32))
        return State(body, Sum(zero, zero[:, None].repeat(1, self.body.width)))

    def check(self, x: Tensor, state: State | None) -> None:
        self.config.check_input(x)
        if state is not None:
            check_state(self, state, x.shape[0])

    def diagnose(self, x: Tensor, state: State) -> str | None:
        if self.config.tokens and x.numel() and not 0 <= int(x.min()) <= int(x.max()) < self.dim:
            return f"expected tokens from 0 to {self.dim - 1}, found {int(x.min())} to {int(x.max())}"
        return None

    def forward(self, x: Tensor, state: State | None = None, memory: Memory | None = None) -> tuple[Tensor, State]:
        """x: B T tokens, or B T D numbers → answers B T C."""
        state = self.initial_state(x.shape[0], memory) if state is None else state
        y, body = self.body(self.enter(x), state.body)
        return self.answer(y, body, state)

    def unroll(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, body = self.body.unroll(self.enter(x), state.body)
        return self.answer(y, body, state)

    def ragged(self, x: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
        y, body = self.body.ragged(self.enter(x), lengths, state.body)
        return self.answer(y, body, state, ragged.mask(lengths, x.shape[1]))

    def last(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The answer about each row as a whole: B C. Without lengths every row has all steps of x."""
        if lengths is None:
            return self(x)[0][:, -1]
        y, _ = ragged.run(self, x, lengths)
        return y[torch.arange(x.shape[0], device=x.device), (lengths - 1).clamp(min=0)]

    def answer(self, y: Tensor, body: tuple, state: State, valid: Tensor | None = None) -> tuple[Tensor, State]:
        """y: B T W → B T C; where `valid` is False nothing goes into the pool."""
        if not isinstance(state.pool, Sum):
            return self.head(y), State(body, state.pool)
        before = state.pool
        values = y.to(before.value.dtype)
        shares = torch.ones_like(values[..., 0])
        if self.config.pool == "attention":
            shares = attention_shares(self.score(y)[..., 0].to(values.dtype))
        if valid is not None:
            shares, values = shares.masked_fill(~valid, 0), values.masked_fill(~valid[..., None], 0)
        weight = before.weight[:, None] + shares.cumsum(dim=1)
        value = before.value[:, None] + (shares[..., None] * values).cumsum(dim=1)
        read = value / weight.clamp(min=torch.finfo(weight.dtype).tiny)[..., None]
        return self.head(read.to(y.dtype)), State(body, Sum(weight[:, -1].clone(), value[:, -1].clone()))

    def explain(self, state: State, x: Tensor) -> dict[str, Tensor]:
        return self.body.explain(state.body, self.enter(x))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        body = self.body.cost(batch, steps, source)
        each = self.head.weight.numel() + (self.body.width if self.config.pool == "attention" else 0)
        each += 0 if self.config.tokens else self.dim * self.config.width
        with torch.no_grad():
            pool = self.initial_state(1).pool
        pool_bytes = sum(t.numel() * t.element_size() for t in pool)
        return Cost(body.flops + 2 * batch * steps * each, body.state_bytes + batch * pool_bytes)


class BothWays(nn.Module):
    """Classification of whole rows by two stacks of layers, one from each end."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.enter = config.entry()
        self.body = BidirectionalConfig(dim=config.width, layer=config.stack(config.width)).build()
        initialise(self.body, config)
        if config.pool == "attention":
            self.score = nn.Linear(self.body.width, 1)
        self.head = config.answers(self.body.width)
        self.dim, self.width = config.inputs, config.outputs

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x: B T tokens, or B T D numbers → the answer about each row: B C."""
        self.config.check_input(x)
        if lengths is not None:  # before the input enters, since 0·NaN would reach the gradient of its weights
            lengths = ragged.check_lengths(lengths, x, least=1)
            padding = ~ragged.mask(lengths, x.shape[1])
            x = x.masked_fill(padding.reshape(*padding.shape, *[1] * (x.dim() - 2)), 0)
        values, valid, _, _ = self.body(self.enter(x), lengths)  # B T 2W
        if self.config.pool == "last":
            return self.head(self.ends(values, lengths))
        sums = values.to(torch.promote_types(values.dtype, torch.float32))
        shares = torch.ones_like(sums[..., 0])
        if self.config.pool == "attention":
            shares = attention_shares(self.score(values)[..., 0].to(sums.dtype))
        shares = shares.masked_fill(~valid, 0)[..., None]
        return self.head(((shares * sums).sum(dim=1) / shares.sum(dim=1)).to(values.dtype))

    def ends(self, values: Tensor, lengths: Tensor | None) -> Tensor:
        """The output of each direction after its last step, side by side: B 2W."""
        onward, back = values.chunk(2, dim=-1)
        if lengths is None:
            return torch.cat([onward[:, -1], back[:, 0]], dim=-1)
        rows = torch.arange(len(values), device=values.device)
        return torch.cat([onward[rows, lengths - 1], back[:, 0]], dim=-1)

    def last(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The answer about each row as a whole, as other classifiers give it: B C."""
        return self(x, lengths)

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        flops = sum(way[0].cost(batch, steps, source).flops for way in (self.body.forwards, self.body.backwards))
        each = 0 if self.config.tokens else self.dim * self.config.width
        each += self.body.width if self.config.pool == "attention" else 0
        return Cost(flops + 2 * batch * (steps * each + self.head.weight.numel()), 0)


def attention_shares(scores: Tensor) -> Tensor:
    """exp of scores kept between ±LIMIT, so that running sums neither overflow nor lose what came early."""
    return (LIMIT * torch.tanh(scores / LIMIT)).exp()
