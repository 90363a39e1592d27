"""Budgets: steps, tokens, seconds or FLOPs, whichever is spent first."""

import time
from dataclasses import dataclass, field

from ..core.settings import at_least
from .settings import Settings


@dataclass
class Spent:
    """What a run has used so far; `seconds` goes on over interruptions."""

    step: int = at_least(0, default=0)
    tokens: int = at_least(0, default=0)
    flops: float = 0.0
    seconds: float = 0.0
    _since: float = field(default_factory=time.monotonic, init=False)

    def tick(self) -> None:
        now = time.monotonic()
        self.seconds += now - self._since
        self._since = now

    def skip(self) -> None:
        """What passed since the last tick does not count."""
        self._since = time.monotonic()

    def at_once(self, tokens: int) -> dict[str, float]:
        """What counting or solving takes, which has no steps, for the log."""
        self.step, self.tokens = 1, tokens
        self.tick()
        return self.to_json()

    def share(self, settings: Settings) -> float:
        """How much of the tightest budget is used, from 0 to 1."""
        shares = [0.0]
        if settings.total_steps is not None:
            shares.append(self.step / settings.total_steps)
        if settings.tokens is not None:
            shares.append(self.tokens / settings.tokens)
        if settings.seconds is not None:
            shares.append(self.seconds / settings.seconds)
        if settings.flops is not None:
            shares.append(self.flops / settings.flops)
        return max(shares)

    def to_json(self) -> dict[str, float]:
        return {"step": self.step, "tokens": self.tokens, "flops": self.flops, "seconds": self.seconds}
