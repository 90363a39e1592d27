"""Long prompts: what reading one costs where the state grows, and a line on stderr while it takes long."""

import sys
from time import monotonic

from ..core.language import localize
from ..core.limits import write_bytes
from ..core.settings import ContractError

PATIENCE = 5.0  # seconds before the first line, and between two
MOST_READ = 10**14  # bytes of a growing state that a prompt may go over: hours


def check_cost(tokens: int, slot_bytes: int) -> None:
    """Refuse a prompt that takes too long where each of its tokens goes over `slot_bytes` of every one before."""
    read = tokens * tokens // 2 * slot_bytes
    if read > MOST_READ:
        raise ContractError(
            f"generate: expected a prompt whose reading goes over at most {write_bytes(MOST_READ)} of state, found "
            f"{tokens:,} tokens, which go over {write_bytes(read)}, since this state grows with each; shorten the "
            "prompt"
        )


class Reading:
    """The progress of reading so many tokens."""

    def __init__(self, tokens: int) -> None:
        self.tokens, self.begun = tokens, monotonic()
        self.told = self.begun

    def tell(self, done: int) -> None:
        """Print how far it is, once it takes long."""
        now = monotonic()
        if now - self.told < PATIENCE or not done:
            return
        self.told = now
        left = (now - self.begun) * (self.tokens - done) / done
        said = f"reading the prompt: {done:,} of {self.tokens:,} tokens, {left:,.0f} s left"
        print(localize(said), file=sys.stderr)
