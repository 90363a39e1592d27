"""Streamed text generation: whole characters, stop strings, and positions saved to files and continued."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..core import state as states
from ..core.contract import ContractError
from .engine import AHEAD, Engine
from .position import Position, device_of, read_prompts
from .sampling import Config


def generate_text(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    config: Config,
    *,
    stops: Sequence[str] = (),
    state_in: str | None = None,
    state_out: str | None = None,
    precision: str | None = None,
    exact: bool = False,
) -> Iterator[str]:
    """Yield the generated text piece by piece: of one prompt as it comes, of several all texts in one piece at the end.

    `precision` and `exact` are those of the engine. A position is read from `state_in` and written to `state_out`.
    """
    if state_in is not None:
        if prompts:
            raise ContractError("generate: expected either --prompt or --state-in, found both")
        position = _read_position(model, state_in, tokenizer.size, config.length)
    else:
        texts = [_encode_prompt(tokenizer, prompt) for prompt in prompts] or [_default_prompt(tokenizer)]
        position = read_prompts(model, texts, capacity=config.length)
    rows = len(position.written)
    streams = [tokenizer.streamer() for _ in range(rows)]
    for stream, tokens in zip(streams, position.written, strict=True):
        for token in tokens:  # later pieces depend on it: a space, the rest of a character
            stream.push(token)
    ends = [StopStrings(stops) for _ in range(rows)]
    texts_out = list(prompts) or [""] * rows
    ahead = 1 if stops and state_out is not None else AHEAD  # the saved position is right after the stop string
    going, here, left = list(range(rows)), position, config.length
    living: list[int] = []
    engine = Engine(model, rows, _longest(here) + left, precision=precision, exact=exact)
    if rows == 1 and prompts:
        yield prompts[0]
    while going and left:
        writing = engine.blocks(here, replace(config, length=left), ahead)
        for block in writing:
            for row, token in ((row, token) for tokens in block for row, token in zip(going, tokens, strict=True)):
                if not ends[row].met:
                    texts_out[row] += (piece := ends[row].push(streams[row].push(token)))
                    if rows == 1:
                        yield piece
            left -= len(block)
            living = [at for at, row in enumerate(going) if not ends[row].met]
            # finished rows leave once they are half of the batch, but not from a position that is saved
            if not living or (state_out is None and 2 * len(living) <= len(going)):
                break
        writing.close()
        going = [going[at] for at in living]
        if going and left:
            here = _select_rows(here, living)
            engine = Engine(model, len(going), _longest(here) + left, precision=precision, exact=exact)
    for row, end in enumerate(ends):
        unfinished = (
            "" if state_out is not None else streams[row].finish()
        )  # half a character is completed by the next run
        texts_out[row] += (rest := end.push(unfinished) + end.finish())
        if rows == 1:
            yield rest
    if rows > 1:
        yield "\n\n".join(texts_out)
    if state_out is not None:
        longest = _longest(position)
        written = torch.tensor([tokens + [-1] * (longest - len(tokens)) for tokens in position.written])
        drawn = torch.full((rows,), position.drawn)
        states.save((position.logits, position.state, written, drawn), state_out)


class StopStrings:
    """A filter that passes text up to the first stop string, and holds back what may become one."""

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise ContractError("generate: expected a --stop of at least one character, found an empty one")
        self.stops, self.held, self.met = stops, "", False

    def push(self, piece: str) -> str:
        """The part of the text so far that can be shown and was not."""
        if self.met:
            return ""
        self.held += piece
        cuts = [at for stop in self.stops if (at := self.held.find(stop)) >= 0]
        if cuts:
            passed, self.held, self.met = self.held[: min(cuts)], "", True
            return passed
        begun = [n for stop in self.stops for n in range(1, len(stop)) if self.held.endswith(stop[:n])]
        at = len(self.held) - max(begun, default=0)
        passed, self.held = self.held[:at], self.held[at:]
        return passed

    def finish(self) -> str:
        """The text held back that became no stop string."""
        passed, self.held = self.held, ""
        return passed


def _encode_prompt(tokenizer: Any, prompt: str) -> list[int]:
    ids = tokenizer.encode(prompt).tolist()
    if not ids:
        raise ContractError("generate: expected a prompt of at least one token, found an empty one")
    return ids


def _default_prompt(tokenizer: Any) -> list[int]:
    """The prompt where none is given: a line break, else a space, else the first token of the vocabulary."""
    for text in ("\n", " "):
        try:
            if ids := tokenizer.encode(text).tolist():
                return ids
        except ValueError:  # not in this vocabulary
            continue
    return [0]


def _longest(position: Position) -> int:
    return max(map(len, position.written))


def _select_rows(position: Position, rows: list[int]) -> Position:
    """The position of some of the rows."""
    at = torch.tensor(rows, device=position.logits.device)
    state, logits = states.select((position.state, position.logits), at)
    return Position(state, logits, [position.written[row] for row in rows], position.drawn)


@torch.no_grad()
def _read_position(model: Any, path: str, vocab: int, length: int) -> Position:
    """The position in a file, with room for `length` more tokens."""
    like, _ = model(torch.zeros(1, 1, dtype=torch.int64, device=device_of(model)))
    counts = torch.zeros(1, dtype=torch.int64)
    logits, state, tokens, drawn = states.load(path, (like[:, 0], model.initial_state(1), counts[:, None], counts))
    if logits.shape[1] != vocab or int(tokens.max()) >= vocab or not 0 <= int(drawn[0]) <= tokens.shape[1]:
        raise ContractError(
            f"{path}: expected a state over {vocab:,} tokens, found one over {logits.shape[1]:,} or others"
        )
    written = [[token for token in row if token >= 0] for row in tokens.tolist()]
    room = model.initial_state(len(written), capacity=length + max(len(row) for row in written))
    state = states.map(lambda new, old: _fit(old, new.shape[1]) if old.dim() > 1 else old, room, state)
    return Position(state, logits, written, int(drawn[0]))


def _fit(tensor: Tensor, slots: int) -> Tensor:
    """A copy with that many slots; slots beyond are not in use."""
    return states.fit(tensor[:, :slots], slots).clone()
