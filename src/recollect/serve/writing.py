"""What one request writes: how its tokens are chosen, and its text as whole characters up to a stop string."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..runtime.sampling import Config, Draws, mask_written, pick_tokens
from ..runtime.stream import StopStrings


class Writing:
    """The text that one request writes, after the tokens `before` it.

    `drawn` numbers of the seed were used up by what was written before, so that a text in two parts is that in one.
    """

    def __init__(
        self, tokenizer: Any, config: Config, *, stops: Sequence[str] = (), before: Sequence[int], drawn: int = 0
    ) -> None:
        self.config, self.left, self.reason = config, config.length, ""
        self.kind = config.greedy, config.temperature, config.top_k, config.top_p, config.penalty
        self.draws = None if config.greedy else Draws(config.seed, drawn)
        self.seen = mask_written([before], tokenizer.size)[0] if config.penalty != 1 else None
        self.streamer, self.ends = tokenizer.streamer(), StopStrings(stops)
        for token in before:  # later pieces depend on it: a space, the rest of a character
            self.streamer.push(token)
        self.tokens: list[int] = []
        self.parts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def accept(self, token: int) -> str:
        """The part of the text that a token completes."""
        self.tokens.append(token)
        self.left -= 1
        if self.seen is not None:
            self.seen[token] = True
        piece = self.ends.push(self.streamer.push(token))
        self.parts.append(piece)
        if self.ends.met:
            self.reason = "stop"
        elif not self.left:
            self.reason = "length"
        return piece

    def finish(self, *, whole: bool) -> str:
        """What was held back; half a character too, where nothing goes on after it (`whole`)."""
        rest = self.ends.push(self.streamer.finish() if whole else "") + self.ends.finish()
        self.parts.append(rest)
        return rest


def choose(writings: Sequence[Any], logits: Any) -> list[int | None]:
    """The next token of each, from the logits of its row; None where these are no numbers.

    Those that choose in the same way are chosen for together, each by a number of its own seed.
    """
    groups: dict[Any, list[int]] = {}
    for place, writing in enumerate(writings):
        groups.setdefault(writing.kind, []).append(place)
    found: list[int | None] = [None] * len(writings)
    for places in groups.values():
        some = [writings[place] for place in places]
        rows = logits if len(groups) == 1 else logits[places]
        seen = None if some[0].seen is None else np.stack([each.seen for each in some])
        draws = None if some[0].draws is None else [each.draws.next() for each in some]
        tokens = pick_tokens(rows, some[0].config, seen, draws).tolist()
        broken = np.isnan(rows).any(axis=1).tolist()
        for place, token, bad in zip(places, tokens, broken, strict=True):
            found[place] = None if bad else token
    return found
