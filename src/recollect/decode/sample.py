"""Writing with a language model: one token a row at a time, from logits to a choice."""

from collections.abc import Iterator
from typing import Any

from .choice import Config, choose
from .engine import Engine
from .position import Position, device_of, read

__all__ = ["Config", "Position", "choose", "device_of", "read", "write"]


def write(model: Any, position: Position, config: Config) -> Iterator[list[int]]:
    """Yield one token a row, `length` times; `position` moves along and can be saved at any time.

    Every row draws from its own generator, so a row's text does not depend on its neighbours.
    """
    room = max(map(len, position.written)) + config.length
    for block in Engine(model, len(position.written), room).blocks(position, config):
        yield from block
