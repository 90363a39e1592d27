"""Writing with any model: its step and the choice of the next token, made again and again in fixed places.

    engine = Engine(model, rows=2, room=500)
    position = engine.read([[1, 2, 3], [4]])
    for block in engine.blocks(position, Config(length=100)):  # steps, each a token a row

On a GPU step and choice are captured once as a CUDA graph: state, logits and chances lie where the graph finds them,
tokens are gathered there, and the host reads them a block at a time. A step that waits for the host, as that of an
n-gram model does, cannot be captured and runs as it is. On a CPU a step is spelled out where `flat` knows the model.
"""

import copy
from collections.abc import Generator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..core import state as states
from ..core.contract import ContractError, Layer
from ..layers.position import Added
from .choice import Config, pick, seen_in
from .fixed import WARM_UPS, Fixed, Replaying, put
from .flat import Flat, flatten
from .flat_matrix import PACKINGS
from .position import Position, device_of, read

AHEAD = 64  # tokens of a row that a GPU may make before the host looks


class Whole:
    """A model's step by its own call."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def start(self, state: Any, room: int) -> None:
        self.state = state

    def __call__(self, token: Tensor) -> Tensor:
        logits, self.state = self.model(token[:, None], self.state)
        return logits[:, 0]

    def finish(self) -> Any:
        return self.state


class Engine:
    """Writes `rows` texts at once, each of at most `room` tokens, prompt included.

    `precision` is that of the weights: float32, bfloat16 or float16 on a GPU; float32, float16 or int8 on a CPU. None
    leaves them as they are. `exact` makes every step by the model's own call. `fuse` lets a GPU's compiler join the
    operations of that call first, which takes it some seconds.
    """

    def __init__(
        self,
        model: Any,
        rows: int,
        room: int,
        *,
        precision: str | None = None,
        exact: bool = False,
        fuse: bool = False,
    ) -> None:
        self.given, self.rows, self.room = model, rows, room
        self.device = device_of(model)
        self.model, packing = prepare(model, precision, self.device)
        self.flat = None if exact or fuse else flatten(self.model, packing)
        if packing and self.flat is None:
            raise ContractError(
                f"precision: expected {packing} with pre-norm blocks of attention, linear attention or ttt, or stacks "
                "of rnn, lstm or gru, in float32 and not exact, found another model; leave it out"
            )
        whole = torch.compile(self.model, dynamic=False) if fuse and self.device.type == "cuda" else self.model
        self.step = self.flat or Whole(whole)
        self.fixed: Fixed | None = None

    def read(self, prompts: Sequence[Sequence[int]]) -> Position:
        """Read prompts of any lengths ≥ 1, with room for what is to come."""
        return read(self.given, prompts, capacity=self.room - max(map(len, prompts), default=0))

    @torch.inference_mode()
    def blocks(self, position: Position, config: Config, ahead: int = 1) -> Generator[list[list[int]]]:
        """Write on from `position`, `length` steps in all: blocks of steps, each step one token a row.

        After each block, `position` stands behind its last token. On a GPU blocks grow from one step to `ahead`. Every
        row draws from its own generator, so a row's text does not depend on its neighbours.
        """
        longest = max(map(len, position.written))
        if len(position.written) != self.rows or longest + config.length > self.room:
            raise ContractError(
                f"engine: expected {self.rows} rows of at most {self.room} tokens, found {len(position.written)} rows "
                f"of up to {longest + config.length}; make an engine of that size"
            )
        run = self.run(position, config, longest)
        done, size = 0, 1
        try:
            while done < config.length:
                size = min(size, config.length - done)
                steps = run.steps(position, done, size)
                for tokens in steps:
                    for row, token in zip(position.written, tokens, strict=True):
                        row.append(token)
                position.drawn += 0 if config.greedy else size
                done += size
                yield steps
                size = min(2 * size, ahead if run.looks_ahead else 1)
        finally:
            run.leave(position)

    def run(self, position: Position, config: Config, longest: int) -> "Stepping | Replaying":
        """How the steps are made."""
        draws = chances(position, config)
        if self.device.type == "cuda":
            self.check(longest, config.length)
            if self.fixed is None:
                self.fixed = Fixed(self.step, self.state(), position.logits, self.room)
            if replay := self.fixed.captured(config):
                return Replaying(self.fixed, replay, self.given, draws)
        elif isinstance(self.step, Flat):
            if not self.step.takes(position.state, 0):  # its cache grows
                position.state = put(position.state, self.state())
            if self.step.takes(position.state, config.length):
                return Stepping(self.step, position, config, draws, self.room)
        return Stepping(Whole(self.model), position, config, draws, self.room)

    def state(self) -> Any:
        """An empty state with room, each of its tensors in storage of its own."""
        made = self.model.initial_state(self.rows, capacity=max(self.room, WARM_UPS + 1))
        laid = torch.preserve_format if self.device.type == "cpu" else torch.contiguous_format
        return states.map(lambda tensor: tensor.clone(memory_format=laid), made)

    def check(self, longest: int, length: int) -> None:
        """Learned positions end somewhere: a GPU that reads beyond would only say that something went wrong."""
        for module in self.model.modules():
            if isinstance(module, Added) and (problem := module.diagnose(torch.tensor([longest]), length)):
                raise ContractError(f"generate: {problem}")


def prepare(model: Any, precision: str | None, device: torch.device) -> tuple[Any, str | None]:
    """The model with its weights in that precision, and how a CPU is to pack them."""
    allowed = ("float32", *PACKINGS) if device.type == "cpu" else ("float32", "bfloat16", "float16")
    if precision is None:
        return model, None
    if precision not in allowed:
        raise ContractError(f"precision: expected one of {', '.join(allowed)} on {device.type}, found {precision!r}")
    if device.type == "cpu" and precision in PACKINGS:
        return model, precision
    dtype = getattr(torch, precision)
    if all(parameter.dtype == dtype for parameter in model.parameters()):
        return model, None
    if device.type == "cpu" or not isinstance(model, Layer):
        raise ContractError(f"precision: expected a network to be run in {precision}, found {type(model).__name__}")
    return copy.deepcopy(model).to(dtype), None


def chances(position: Position, config: Config) -> Tensor | None:
    """rows × length: a number from 0 to below 1 for each token to be drawn, a row's from a generator of its own."""
    if config.greedy:
        return None
    rows = [
        torch.rand(position.drawn + config.length, generator=torch.Generator().manual_seed(config.seed))
        for _ in position.written
    ]
    return torch.stack(rows)[:, position.drawn :].to(position.logits.device)


class Stepping:
    """Steps made one by one, each state a new one unless the model itself writes in place."""

    looks_ahead = False

    def __init__(self, step: Any, position: Position, config: Config, draws: Tensor | None, room: int) -> None:
        self.step, self.config, self.draws, self.room = step, config, draws, room
        self.seen = seen_in(position.written, position.logits) if config.penalty != 1 else None
        step.start(position.state, room)

    def steps(self, position: Position, done: int, count: int) -> list[list[int]]:
        if self.step.state is not position.state:  # the step, or the position, was elsewhere meanwhile
            self.step.start(position.state, self.room)
        found, logits = [], position.logits
        for i in range(done, done + count):
            token = pick(logits, self.config, self.seen, None if self.draws is None else self.draws[:, i])
            if self.seen is not None:
                self.seen.scatter_(1, token[:, None], True)
            logits = self.step(token)
            found.append(token.tolist())
        position.logits, position.state = logits, self.step.finish()
        return found

    def leave(self, position: Position) -> None:
        """Nothing is held."""
