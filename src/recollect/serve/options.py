"""How a text is to be written, as requests say it in the words of OpenAI's completions."""

import secrets
from dataclasses import dataclass
from typing import Any

from ..core.settings import at_least
from ..core.typed import show
from ..runtime.sampling import Config
from .limits import Limits
from .refusals import Refusal

MAX_TOKENS, MOST_STOPS, LONGEST_STOP = 16, 16, 1_000  # the first is OpenAI's default
SEEDS = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class WritingOptions:
    """The fields of a request that say how to write. A field that is null is as if it were left out."""

    max_tokens: int | None = at_least(0, default=None)
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    penalty: float | None = None
    seed: int | None = at_least(0, default=None, most=SEEDS)
    stop: str | tuple[str, ...] | None = None
    stream: bool | None = None

    def length(self, limits: Limits) -> int:
        """How many tokens are to be written."""
        length = MAX_TOKENS if self.max_tokens is None else self.max_tokens
        if length > limits.tokens:
            message = f"max_tokens: expected at most {limits.tokens:,}, found {show(length)}"
            raise Refusal(400, message, param="max_tokens")
        return length

    def config(self, limits: Limits, number: int = 0) -> Config:
        """The settings of generation; each further choice of a request has the next seed."""
        seed = self.first_seed() + number
        if seed > SEEDS:
            raise Refusal(400, f"seed: expected at most {SEEDS}, found {show(seed)}", param="seed")
        temperature = 1.0 if self.temperature is None else self.temperature
        given: dict[str, Any] = {"temperature": temperature} if temperature else {"greedy": True}
        penalty = 1.0 if self.penalty is None else self.penalty
        return Config(
            length=self.length(limits), top_k=self.top_k, top_p=self.top_p, penalty=penalty, seed=seed, **given
        )

    def first_seed(self) -> int:
        """The seed; any, where none is given, and the same each time it is asked for."""
        if self.seed is None:
            object.__setattr__(self, "seed", secrets.randbelow(2**31))
        assert self.seed is not None
        return self.seed

    def stops(self) -> tuple[str, ...]:
        """The strings before which a text ends."""
        found = (self.stop,) if isinstance(self.stop, str) else self.stop or ()
        if len(found) > MOST_STOPS or not all(0 < len(each) <= LONGEST_STOP for each in found):
            raise Refusal(
                400, f"stop: expected at most {MOST_STOPS} strings of 1 to {LONGEST_STOP:,} characters, found others",
                param="stop",
            )  # fmt: skip
        return found
