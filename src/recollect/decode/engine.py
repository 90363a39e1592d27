"""Text generation with any language model: a step of the model and the choice of the next token, repeated.

    engine = Engine(model, rows=2, room=500)
    position = engine.read_prompts([[1, 2, 3], [4]])
    for block in engine.blocks(position, Config(length=100)):  # steps, each a token a row

On a GPU step and choice are captured once as a CUDA graph on static buffers, and the host reads the tokens a block at a
time. A step that waits for the host, as that of an n-gram model does, cannot be captured and runs eagerly. On a CPU the
step is the model's own call; programs write faster there by the exported step (`recollect.load`).
"""

import copy
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..core import state as states
from ..core.contract import ContractError, Layer
from ..layers.position import Added
from ..runtime.position import Position
from .captured import WARM_UPS, CapturedRun, StaticStep, copy_state
from .flat.model import flatten
from .position import PART, device_of, read_prompts
from .sampling import Config, mask_written, pick_tokens


class ModelStep:
    """A model's step as its own call."""

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
    """Generates `rows` texts at once, each of at most `room` tokens, prompt included.

    Memory is taken for PART tokens at a time, so that `room` may be as large as one likes.

    `precision` is that of the weights: float32, bfloat16 or float16 on a GPU, float32 on a CPU. None leaves them as
    they are. `exact` makes every step the model's own call. `fuse` compiles that call for a GPU first, which takes some
    seconds.
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
        self.reserved = 0  # tokens of a row for which there is memory
        self.device = device_of(model)
        self.model = prepare_weights(model, precision, self.device)
        self.flat = None if exact or fuse or self.device.type == "cpu" else flatten(self.model)
        whole = torch.compile(self.model, dynamic=False) if fuse and self.device.type == "cuda" else self.model
        self.step = self.flat or ModelStep(whole)
        self.static: StaticStep | None = None

    def read_prompts(self, prompts: Sequence[Sequence[int]]) -> Position:
        """Read prompts of any lengths ≥ 1, with room for the tokens to come."""
        return read_prompts(self.given, prompts, capacity=self.room - max(map(len, prompts), default=0))

    @torch.inference_mode()
    def blocks(self, position: Position, config: Config, ahead: int = 1) -> Generator[list[list[int]]]:
        """Generate `length` tokens a row from `position`: blocks of steps, each step one token a row.

        After each block, `position` is that after its last token. On a GPU blocks grow from one step to `ahead`. Every
        row samples from its own generator, so a row's text does not depend on its neighbours.
        """
        longest = max(map(len, position.written))
        if len(position.written) != self.rows or longest + config.length > self.room:
            raise ContractError(
                f"engine: expected {self.rows} rows of at most {self.room} tokens, found {len(position.written)} rows "
                f"of up to {longest + config.length}; make an engine of that size"
            )
        for start in range(0, config.length, PART) or [0]:
            part = replace(config, length=min(PART, config.length - start))
            self.reserve(position, longest + start, part.length)
            yield from self.run_part(position, part, ahead, longest + start)

    def reserve(self, position: Position, longest: int, length: int) -> None:
        """See to memory for `length` more tokens."""
        if longest + length > self.reserved:
            more = self.reserved > 0
            self.reserved, self.static = min(self.room, longest + PART), None
            if more and self.device.type == "cpu":
                position.state = copy_state(position.state, self.empty_state())

    def run_part(self, position: Position, config: Config, ahead: int, longest: int) -> Generator[list[list[int]]]:
        """The blocks of at most PART tokens."""
        run = self.start_run(position, config, longest)
        done, size = 0, 1
        try:
            while done < config.length:
                size = min(size, config.length - done)
                steps = run.run_steps(position, done, size)
                for tokens in steps:
                    for row, token in zip(position.written, tokens, strict=True):
                        row.append(token)
                position.drawn += 0 if config.greedy else size
                done += size
                yield steps
                size = min(2 * size, ahead if run.runs_ahead else 1)
        finally:
            run.close(position)

    def start_run(self, position: Position, config: Config, longest: int) -> "EagerRun | CapturedRun":
        """The steps from `position` on, captured where they can be."""
        draws = draw_thresholds(position, config)
        if self.device.type == "cuda":
            self.check_positions(longest, config.length)
            if self.static is None:
                self.static = StaticStep(self.step, self.empty_state(), position.logits, self.reserved)
            if replay := self.static.capture_for(config):
                return CapturedRun(self.static, replay, self.given, draws)
        return EagerRun(ModelStep(self.model), position, config, draws, self.reserved)

    def empty_state(self) -> Any:
        """An initial state with capacity, each of its tensors in storage of its own."""
        made = self.model.initial_state(self.rows, capacity=max(self.reserved, WARM_UPS + 1))
        layout = torch.preserve_format if self.device.type == "cpu" else torch.contiguous_format
        return states.map(lambda tensor: tensor.clone(memory_format=layout), made)

    def check_positions(self, longest: int, length: int) -> None:
        """Refuse texts longer than learned positions reach, in the words of a CPU: a GPU would name no reason."""
        for module in self.model.modules():
            if isinstance(module, Added) and (problem := module.diagnose(torch.tensor([longest]), length)):
                raise ContractError(f"generate: {problem}")


def prepare_weights(model: Any, precision: str | None, device: torch.device) -> Any:
    """The model with its weights in that precision."""
    allowed = ("float32",) if device.type == "cpu" else ("float32", "bfloat16", "float16")
    if precision is None:
        return model
    if precision not in allowed:
        raise ContractError(f"precision: expected one of {', '.join(allowed)} on {device.type}, found {precision!r}")
    dtype = getattr(torch, precision)
    if all(parameter.dtype == dtype for parameter in model.parameters()):
        return model
    if device.type == "cpu" or not isinstance(model, Layer):
        raise ContractError(f"precision: expected a network to be run in {precision}, found {type(model).__name__}")
    return copy.deepcopy(model).to(dtype)


def draw_thresholds(position: Position, config: Config) -> Tensor | None:
    """rows × length: a uniform number for each token, a row's from a generator of its own; None if greedy."""
    if config.greedy:
        return None
    rows = [
        torch.rand(position.drawn + config.length, generator=torch.Generator().manual_seed(config.seed))
        for _ in position.written
    ]
    return torch.stack(rows)[:, position.drawn :].to(position.logits.device)


class EagerRun:
    """Generation step by step, without a graph."""

    runs_ahead = False

    def __init__(self, step: Any, position: Position, config: Config, draws: Tensor | None, room: int) -> None:
        self.step, self.config, self.draws, self.room = step, config, draws, room
        self.seen = mask_written(position.written, position.logits) if config.penalty != 1 else None
        step.start(position.state, room)

    def run_steps(self, position: Position, done: int, count: int) -> list[list[int]]:
        if self.step.state is not position.state:  # the step or the position was used elsewhere in between
            self.step.start(position.state, self.room)
        found, logits = [], position.logits
        for i in range(done, done + count):
            token = pick_tokens(logits, self.config, self.seen, None if self.draws is None else self.draws[:, i])
            if self.seen is not None:
                self.seen.scatter_(1, token[:, None], True)
            logits = self.step(token)
            found.append(token.tolist())
        position.logits, position.state = logits, self.step.finish()
        return found

    def close(self, position: Position) -> None:
        """Nothing to give back: the position has its own state."""


def generate_tokens(model: Any, position: Position, config: Config) -> Iterator[list[int]]:
    """Yield one token a row, `length` times; `position` moves along and can be saved at any time."""
    room = max(map(len, position.written)) + config.length
    for block in Engine(model, len(position.written), room).blocks(position, config):
        yield from block
