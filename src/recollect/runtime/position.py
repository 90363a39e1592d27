"""Where generation stands: the texts so far, and what goes on from them."""

from dataclasses import dataclass
from typing import Any


@dataclass
class Position:
    """The state after the texts so far, the logits of their next token, and the texts themselves."""

    state: Any
    logits: Any  # B V
    written: list[list[int]]
    drawn: int = 0  # uniform numbers that were drawn for each row

    @property
    def longest(self) -> int:
        return max(map(len, self.written))
