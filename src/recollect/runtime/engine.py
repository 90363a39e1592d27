"""Text generation with an exported step: prompts read, tokens chosen, positions saved, without torch."""

from collections.abc import Generator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.files import FileError, read_file, write_aside
from ..core.settings import ContractError
from .manifest import DTYPES
from .position import Position
from .reading import Reading, check_cost
from .sampling import Config, Draws, mask_written, pick_tokens
from .session import State, Step, join

LARGEST_FILE = 1 << 32  # bytes of a saved position
MARK = {"recollect": "state"}


class StepWriter:
    """Generates texts with a step; the rows of a position stand side by side in its state."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def read_prompts(self, prompts: Sequence[Sequence[int]], length: int) -> Position:
        """Prompts of one length are read together, those of others apart."""
        if not prompts or not all(prompts):
            raise ContractError("generate: expected prompts of at least one token each, found an empty one")
        groups: dict[int, list[int]] = {}
        for row, prompt in enumerate(prompts):
            groups.setdefault(len(prompt), []).append(row)
        read = [self._read_together([prompts[row] for row in rows]) for rows in groups.values()]
        order = np.argsort([row for rows in groups.values() for row in rows], kind="stable")
        state = read[0][0] if len(read) == 1 else join([state for state, _ in read]).select(order.tolist())
        logits = np.concatenate([logits for _, logits in read])[order]
        return Position(state, logits, [list(prompt) for prompt in prompts])

    def _read_together(self, prompts: Sequence[Sequence[int]]) -> tuple[State, NDArray[Any]]:
        state = self.step.initial_state(len(prompts))
        tokens = np.asarray(prompts, np.int64)
        vocab = self.step.y.shape[-1]
        if isinstance(vocab, int) and not 0 <= tokens.min() <= tokens.max() < vocab:
            raise ContractError(
                f"generate: expected tokens from 0 to {vocab - 1}, found {tokens.min()} to {tokens.max()}"
            )
        check_cost(tokens.size, slot_bytes(self.step))
        logits, reading = None, Reading(tokens.shape[1])
        for at, column in enumerate(tokens.T):
            logits, state = self.step(column, state)
            if at % 256 == 0:
                reading.tell(at)
        assert logits is not None
        return state, logits.copy()

    def blocks(self, position: Position, config: Config, ahead: int) -> Generator[list[list[int]]]:
        """Blocks of one step each."""
        draws = None if config.greedy else Draws(config.seed, position.drawn)
        logits, state = position.logits, position.state
        seen = mask_written(position.written, logits.shape[1]) if config.penalty != 1 else None
        for _ in range(config.length):
            tokens = pick_tokens(logits, config, seen, None if draws is None else draws.next())
            if seen is not None:
                seen[np.arange(len(tokens)), tokens] = True
            logits, state = self.step(tokens, state)
            chosen = tokens.tolist()
            for row, token in zip(position.written, chosen, strict=True):
                row.append(token)
            position.logits, position.state = logits, state
            position.drawn += draws is not None
            yield [chosen]

    def select_rows(self, position: Position, rows: Sequence[int]) -> Position:
        written = [position.written[row] for row in rows]
        return Position(position.state.select(rows), position.logits[list(rows)], written, position.drawn)

    def save(self, position: Position, path: str) -> None:
        """The same file as with torch: the logits, the state by the names of its fields, the texts."""
        from safetensors.numpy import save

        longest = position.longest
        written = np.array([tokens + [-1] * (longest - len(tokens)) for tokens in position.written], np.int64)
        drawn = np.full(len(position.written), position.drawn, np.int64)
        tensors = {"0": position.logits, "2": written, "3": drawn}
        tensors |= {f"1.{name}": array for name, array in position.state.named().items()}
        write_aside(path, save({name: np.ascontiguousarray(array) for name, array in tensors.items()}, MARK))

    def load(self, path: str, vocab: int, length: int) -> Position:
        found = read_arrays(path)
        logits, written, drawn = (found.pop(name, None) for name in ("0", "2", "3"))
        if logits is None or written is None or drawn is None:
            raise FileError(f"{path}: expected a state that generate --state-out wrote, found another file")
        texts = read_written(path, written, vocab)
        rows, longest = len(texts), max(map(len, texts))
        if logits.shape != (rows, vocab) or logits.dtype != np.float32:
            raise FileError(f"{path}: expected logits of ({rows}, {vocab}), found {logits.dtype} of {logits.shape}")
        if drawn.shape != (rows,) or drawn.dtype != np.int64 or not 0 <= drawn.min() == drawn.max() <= longest:
            raise FileError(f"{path}: expected one count of drawn tokens, up to {longest:,}, found others")
        check_finite(path, {"the logits": logits} | found)
        own = {name.removeprefix("1."): array for name, array in found.items()}
        return Position(restore(self.step, own, texts, path), logits, texts, int(drawn[0]))


def slot_bytes(step: Step) -> int:
    """Bytes of state that each token adds without end."""
    sizes = {own.name: [size for size in own.shape if isinstance(size, int)] for own in step.fields}
    return sum(prod(sizes[own.name]) * DTYPES[own.dtype] for own in step.fields if own.grows and own.most is None)


def read_arrays(path: str) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(read_file(path, LARGEST_FILE))
    except (SafetensorError, ValueError, TypeError, RuntimeError, KeyError) as error:
        if isinstance(error, FileError):
            raise
        reason = " ".join(str(error).split())[:200]
        raise FileError(f"{path}: expected a saved state (safetensors), found something else ({reason})") from None


def check_finite(path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse a state with a value that is no finite number: what follows would be noise."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise FileError(f"{path}: expected finite numbers in {name[:60]}, found others; write the state anew")


def read_written(path: str, written: NDArray[Any], vocab: int) -> list[list[int]]:
    """The text of each row; -1 stands after the end of the shorter ones."""
    if written.dtype != np.int64 or written.ndim != 2 or not written.size:
        raise FileError(f"{path}: expected the tokens of a text or more, found {written.dtype} of {written.shape}")
    lengths = (written >= 0).sum(axis=1)
    ends = np.arange(written.shape[1]) >= lengths[:, None]
    if not ((written == -1) == ends).all() or written.max() >= vocab or not lengths.min():
        raise FileError(
            f"{path}: expected texts of at least one token each, numbered from 0 to {vocab - 1:,}, found others; "
            "use the run that wrote the state"
        )
    return [row[:length].tolist() for row, length in zip(written, lengths, strict=True)]


def restore(step: Step, found: dict[str, NDArray[Any]], texts: list[list[int]], path: str) -> State:
    """A state from arrays by name, checked against the fields that the export declares."""
    rows, lengths = len(texts), [len(text) for text in texts]
    names = {own.name for own in step.fields}
    if set(found) != names:
        other = sorted(set(found) ^ names)[0][:60]
        raise FileError(f"{path}: expected the fields of this run's state, found that {other!r} differs")
    arrays = {}
    for own in step.fields:
        array = found[own.name]
        slots = own.limit_slots(max(lengths))
        wanted = [rows if size == "batch" else size for size in own.shape]
        laid = array.transpose(own.order) if array.ndim == len(own.order) else array
        if own.grows and laid.ndim == len(wanted) and laid.shape[own.slot_axis] >= slots:
            laid = laid[(slice(None),) * own.slot_axis + (slice(0, slots),)]
        wanted = [slots if size == "capacity" else size for size in wanted]
        if list(laid.shape) != wanted or str(array.dtype) != own.dtype:
            raise FileError(
                f"{path}: expected {own.name!r} as {own.dtype} of {tuple(wanted)}, found {array.dtype} of {laid.shape}"
            )
        if own.name.split(".")[-1] == "clock" and array.tolist() != lengths:
            raise FileError(f"{path}: expected {own.name!r} to count the steps of each row, found another count")
        arrays[own.name] = np.ascontiguousarray(laid)
    return State(step, rows, arrays, max(lengths))
