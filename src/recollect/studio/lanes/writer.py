"""Texts that lanes write on, all in step: each chooses its next token with the numbers of the same seed."""

import numpy as np
import torch

from ...runtime.sampling import Config, Draws, pick_tokens
from ...serve.refusals import Refusal
from .lane import summarize
from .track import Track


class Writer:
    """One lane that goes on with what its track has read. The track stays as it is."""

    def __init__(self, track: Track, config: Config) -> None:
        if not track.position:
            raise Refusal(409, "text: expected one of at least one token, found an empty one; type something first")
        self.lane, self.config = track.lane, config
        self.state = track.state_at(track.position)
        self.bits = track.bits_after(track.position)
        self.draws = None if config.greedy else Draws(config.seed)
        self.streamer = self.lane.tokenizer.streamer()
        for token in track.tokens[-8:]:  # the rest of a character that has begun
            self.streamer.push(token)
        self.left = config.length
        if self.lane.limit is not None:
            self.left = min(self.left, self.lane.limit - track.position)

    def next(self) -> tuple[str, float]:
        """The text that the next token adds, and how likely that token was."""
        assert self.bits is not None
        logits = self.bits[None] * np.float32(np.log(2))
        draws = None if self.draws is None else [self.draws.next()]
        token = int(pick_tokens(logits, self.config, None, draws)[0])
        share = float(2.0 ** self.bits[token])
        with torch.inference_mode():
            found, self.state = self.lane.model(torch.tensor([[token]]), self.state)
        self.bits = summarize(found[0, -1].float().numpy())[2]
        self.left -= 1
        return self.streamer.push(token), share
