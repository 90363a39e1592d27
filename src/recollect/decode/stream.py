"""Streamed text generation with a model: `runtime.stream` over the engine, and its positions in files."""

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..core import state as states
from ..core.limits import checked_allocation
from ..core.settings import ContractError
from ..core.tensors import check_like, describe
from ..runtime import stream
from ..runtime.position import Position
from ..runtime.sampling import Config
from .engine import Engine
from .position import PART, device_of, read_prompts


def generate_text(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    config: Config,
    *,
    precision: str | None = None,
    exact: bool = False,
    **ends: Any,
) -> Iterator[str]:
    """Yield the text that a model generates, piece by piece (see `runtime.stream`)."""
    return stream.generate_text(
        ModelWriter(model, precision=precision, exact=exact), tokenizer, prompts, config, **ends
    )


class ModelWriter:
    """Generation by the engine; `precision` and `exact` are its settings."""

    def __init__(self, model: Any, *, precision: str | None = None, exact: bool = False) -> None:
        self.model, self.precision, self.exact = model, precision, exact

    def read_prompts(self, prompts: Sequence[Sequence[int]], length: int) -> Position:
        position = read_prompts(self.model, prompts, capacity=length)
        check_scores(position.logits, "the run", "`recollect verify` tells what is wrong with its weights")
        return position

    def blocks(self, position: Position, config: Config, ahead: int) -> Generator[list[list[int]]]:
        rows, room = len(position.written), position.longest + config.length
        engine = Engine(self.model, rows, room, precision=self.precision, exact=self.exact)
        return engine.blocks(position, config, ahead)

    def select_rows(self, position: Position, rows: Sequence[int]) -> Position:
        at = torch.tensor(rows, device=position.logits.device)
        state, logits = states.select((position.state, position.logits), at)
        return Position(state, logits, [position.written[row] for row in rows], position.drawn)

    def save(self, position: Position, path: str) -> None:
        longest = position.longest
        written = torch.tensor([tokens + [-1] * (longest - len(tokens)) for tokens in position.written])
        drawn = torch.full((len(position.written),), position.drawn)
        states.save((position.logits, position.state, written, drawn), path)

    def load(self, path: str, vocab: int, length: int) -> Position:
        return _read_position(self.model, path, vocab, min(length, PART))


@torch.no_grad()
def _read_position(model: Any, path: str, vocab: int, length: int) -> Position:
    """The position in a file, with room for `length` more tokens."""
    found = states.read(path)
    logits, written, drawn = (found.pop(name, None) for name in ("0", "2", "3"))
    if logits is None or written is None or drawn is None:
        raise states.StateError(f"{path}: expected a state that generate --state-out wrote, found another file")
    texts = _read_written(path, written, vocab)
    scores, _ = model(torch.zeros(1, 1, dtype=torch.int64, device=device_of(model)))
    wanted = scores[:, 0].expand(len(texts), -1)
    counts = torch.zeros(len(texts), dtype=torch.int64)
    check_like(path, "a state of this run", {"logits": logits, "drawn": drawn}, {"logits": wanted, "drawn": counts})
    stray = next((name for name, tensor in {"the logits": logits, **found}.items() if not is_finite(tensor)), None)
    if stray is not None:
        raise states.StateError(f"{path}: expected finite numbers in {stray:.60}, found others; write the state anew")
    longest = max(map(len, texts))
    if not 0 <= int(drawn.min()) == int(drawn.max()) <= longest:
        raise states.StateError(f"{path}: expected one count of drawn tokens, up to {longest:,}, found others")
    own = {name.removeprefix("1").removeprefix("."): tensor for name, tensor in found.items()}
    state = states.restore(own, model, path, [len(text) for text in texts])
    with checked_allocation("generate", "lower --length"):
        room = model.initial_state(len(texts), capacity=length + longest)
    state = states.map(lambda new, old: _fit(old, new.shape[1]) if old.dim() > 1 else old, room, state)
    return Position(state, logits.to(wanted.device), texts, int(drawn[0]))


def is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


def check_scores(logits: Tensor, where: str, remedy: str) -> None:
    """Refuse to draw from scores that are no numbers: any token would do, and the text would look like a result."""
    if bool(logits.isnan().any()):
        raise ContractError(f"{where}: expected a score for each token, found some that are no number; {remedy}")


def _read_written(path: str, written: Tensor, vocab: int) -> list[list[int]]:
    """The text of each row; -1 stands after the end of the shorter ones."""
    if written.dtype != torch.int64 or written.dim() != 2 or not written.numel():
        raise states.StateError(f"{path}: expected the tokens of a text or more, found {describe(written)}")
    lengths = (written >= 0).sum(dim=1, keepdim=True)
    ends = torch.arange(written.shape[1]) >= lengths
    if not bool(((written == -1) == ends).all()) or int(written.max()) >= vocab or not int(lengths.min()):
        raise states.StateError(
            f"{path}: expected texts of at least one token each, numbered from 0 to {vocab - 1:,}, found others; "
            "use the run that wrote the state"
        )
    return [row[:length] for row, length in zip(written.tolist(), lengths[:, 0].tolist(), strict=True)]


def _fit(tensor: Tensor, slots: int) -> Tensor:
    """A copy with that many slots; slots beyond are not in use."""
    return states.fit(tensor[:, :slots], slots).clone()
