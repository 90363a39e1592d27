"""Streamed text generation: whole characters, stop strings, and positions saved to files and continued."""

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..core.files import FileError
from ..core.settings import ContractError
from .position import Position
from .sampling import Config

AHEAD = 64  # tokens of a row that a GPU may generate before the host reads them


class Writer(Protocol):
    """What generates tokens: a model with torch, or an exported step."""

    def read_prompts(self, prompts: Sequence[Sequence[int]], length: int) -> Position:
        """The position after prompts of any lengths ≥ 1, with `length` tokens to come."""
        ...

    def blocks(self, position: Position, config: Config, ahead: int) -> Generator[list[list[int]]]:
        """Blocks of steps, each step one token a row; after each block `position` is that after its last token."""
        ...

    def select_rows(self, position: Position, rows: Sequence[int]) -> Position:
        """The position of some of the rows."""
        ...

    def save(self, position: Position, path: str) -> None: ...

    def load(self, path: str, vocab: int, length: int) -> Position:
        """The position in a file, with `length` more tokens to come."""
        ...


def generate_text(
    writer: Writer,
    tokenizer: Any,
    prompts: Sequence[str],
    config: Config,
    *,
    stops: Sequence[str] = (),
    state_in: str | None = None,
    state_out: str | None = None,
) -> Iterator[str]:
    """Yield the generated text piece by piece: of one prompt as it comes, of several all texts in one piece at the end.

    A position is read from `state_in` and written to `state_out`.
    """
    if state_in is not None:
        if prompts:
            raise ContractError("generate: expected either --prompt or --state-in, found both")
        if not os.path.lexists(state_in):
            raise FileError(f"{state_in}: expected a state that generate --state-out wrote, found no file there")
        position = writer.load(state_in, tokenizer.size, config.length)
    else:
        texts = [encode_prompt(tokenizer, prompt) for prompt in prompts] or [default_prompt(tokenizer)]
        position = writer.read_prompts(texts, config.length)
    rows = len(position.written)
    streams = [tokenizer.streamer() for _ in range(rows)]
    for stream, tokens in zip(streams, position.written, strict=True):
        for token in tokens:  # later pieces depend on it: a space, the rest of a character
            stream.push(token)
    ends = [StopStrings(stops) for _ in range(rows)]
    texts_out = [[text] for text in prompts or [""] * rows]  # of several rows: one is yielded as it comes
    ahead = 1 if stops and state_out is not None else AHEAD  # the saved position is right after the stop string
    going, here, left = list(range(rows)), position, config.length
    living: list[int] = []
    if rows == 1 and prompts:
        yield prompts[0]
    while going and left:
        writing = writer.blocks(here, replace(config, length=left), ahead)
        for block in writing:
            for row, token in ((row, token) for tokens in block for row, token in zip(going, tokens, strict=True)):
                if not ends[row].met:
                    piece = ends[row].push(streams[row].push(token))
                    if rows == 1:
                        yield piece
                    elif piece:
                        texts_out[row].append(piece)
            left -= len(block)
            living = [at for at, row in enumerate(going) if not ends[row].met]
            # finished rows leave once they are half of the batch, but not from a position that is saved
            if not living or (state_out is None and 2 * len(living) <= len(going)):
                break
        writing.close()
        going = [going[at] for at in living]
        if going and left:
            here = writer.select_rows(here, living)
    for row, end in enumerate(ends):
        unfinished = (
            "" if state_out is not None else streams[row].finish()
        )  # half a character is completed by the next run
        texts_out[row].append(rest := end.push(unfinished) + end.finish())
        if rows == 1:
            yield rest
    if rows > 1:
        yield "\n\n".join(map("".join, texts_out))
    if state_out is not None:
        writer.save(position, state_out)


MOST_STOPS, LONGEST_STOP = 1_000, 10_000  # stop strings, and characters of one


class StopStrings:
    """A filter that passes text up to the first stop string, and holds back what may become one."""

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise ContractError("generate: expected a --stop of at least one character, found an empty one")
        if len(stops) > MOST_STOPS:
            raise ContractError(f"generate: expected at most {MOST_STOPS:,} times --stop, found {len(stops):,}")
        if (longest := max(map(len, stops), default=0)) > LONGEST_STOP:
            raise ContractError(
                f"generate: expected a --stop of at most {LONGEST_STOP:,} characters, found one of {longest:,}"
            )
        self.searches, self.held, self.met = [Search(stop) for stop in stops], "", False

    def push(self, piece: str) -> str:
        """The part of the text so far that can be shown and was not."""
        if self.met:
            return ""
        before = len(self.held)
        self.held += piece
        ends = [(before + end, search) for search in self.searches if (end := search.push(piece)) is not None]
        if ends:
            cut = min(end - len(search.stop) for end, search in ends)
            passed, self.held, self.met = self.held[:cut], "", True
            return passed
        at = len(self.held) - max((search.begun for search in self.searches), default=0)
        passed, self.held = self.held[:at], self.held[at:]
        return passed

    def finish(self) -> str:
        """The text held back that became no stop string."""
        passed, self.held = self.held, ""
        return passed


class Search:
    """The search for one string in a text that comes in pieces, in time that grows with the text alone (Knuth 1977)."""

    def __init__(self, stop: str) -> None:
        self.stop, self.begun = stop, 0  # how many characters of it the text so far ends with
        self.shorter = [0]  # of each prefix: the longest shorter one that it ends with
        for char in stop[1:]:
            self.shorter.append(self._extend(self.shorter[-1], char))

    def push(self, piece: str) -> int | None:
        """Where in the piece the string first ends, or None."""
        for at, char in enumerate(piece, 1):
            self.begun = self._extend(self.begun, char)
            if self.begun == len(self.stop):
                return at
        return None

    def _extend(self, begun: int, char: str) -> int:
        while begun and self.stop[begun] != char:
            begun = self.shorter[begun - 1]
        return begun + (self.stop[begun] == char)


def encode_prompt(tokenizer: Any, prompt: str) -> list[int]:
    ids = tokenizer.encode(prompt).tolist()
    if not ids:
        raise ContractError("generate: expected a prompt of at least one token, found an empty one")
    return ids


def default_prompt(tokenizer: Any) -> list[int]:
    """The prompt where none is given: a line break, else a space, else the first token of the vocabulary."""
    for text in ("\n", " "):
        try:
            if ids := tokenizer.encode(text).tolist():
                return ids
        except ValueError:  # not in this vocabulary
            continue
    return [0]
