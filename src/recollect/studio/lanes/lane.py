"""A trained language model ready to read: its tokens, what can be seen of it, and one step."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...core import state as states
from ...core.trained import TrainedModel
from ...serve.refusals import Refusal
from .pictures import PROBE, explain, find_pictures, replace_value

LIKELIEST = 8  # next tokens that are told by name
SHARES = 1_024  # tokens of a vocabulary whose whole distribution is kept at each position
LARGEST = 1_000_000  # value that a number may be set to
SAMPLE = "the quick brown fox jumps over the lazy dog and then it sleeps. "


class Edit(NamedTuple):
    """A number of the state that is set after the token at `at`: of picture `key`, by its number there."""

    at: int
    key: str
    unit: int
    value: float


class Column(NamedTuple):
    """What is kept of one position: everything but the state itself."""

    values: dict[str, np.ndarray]  # by the key of the picture
    surprise: float  # bits of the token, given what came before; NaN for the first
    likeliest: np.ndarray  # ids of the next tokens
    shares: np.ndarray  # their probabilities
    bits: np.ndarray  # log2 of the share of every next token, where the vocabulary is small enough to keep it
    entropy: float  # bits

    @property
    def nbytes(self) -> int:
        arrays = (*self.values.values(), self.likeliest, self.shares, self.bits)
        return sum(array.nbytes for array in arrays) + 200


class Lane:
    """A model under the name of its run. Nothing of it changes while it reads."""

    def __init__(self, name: str, trained: TrainedModel) -> None:
        if "generate" not in trained.methods:
            raise Refusal(400, f"run: expected one of a text task, found {name}, of {trained.task}", param="run")
        self.name, self.kind = name, trained.model
        self.model, self.tokenizer = trained.module, trained.tokenizer  # type: ignore[attr-defined]
        self.limit = trained.limit
        self.params = sum(parameter.numel() for parameter in self.model.parameters())
        self.size = self.tokenizer.size
        probe = (self.encode(SAMPLE)[0] or [0]) * PROBE
        self.pictures = find_pictures(self.model, probe[:PROBE])
        self.by_key = {picture.key: picture for picture in self.pictures}
        self.wanted = {(picture.explained, picture.source) for picture in self.pictures}

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name, "model": self.kind, "params": self.params, "tokens": self.size,
            "tokenizer": self.tokenizer.kind, "entries": getattr(self.model, "entries", lambda: 0)(),
            "pictures": [picture.describe() for picture in self.pictures],
        }  # fmt: skip

    def encode(self, text: str) -> tuple[list[int], list[int]]:
        """The tokens of a text and the character before which each ends. What a vocabulary lacks is not read."""
        kept = list(range(len(text)))
        while True:
            try:
                tokens = self.tokenizer.encode("".join(text[i] for i in kept)).tolist()
                break
            except ValueError as error:  # of a closed vocabulary: it names the first character that it lacks
                lacking = getattr(error, "character", None)
                if lacking is None:
                    raise
                kept = [i for i in kept if text[i] != lacking]
        if len(tokens) == len(kept):
            return tokens, [i + 1 for i in kept]
        streamer, ends, at = self.tokenizer.streamer(), [], 0
        for token in tokens:
            at += len(streamer.push(token))
            ends.append(kept[min(at, len(kept)) - 1] + 1 if at else 0)
        if ends:
            ends[-1] = len(text)
        return tokens, ends

    def initial_state(self) -> Any:
        with torch.inference_mode():
            return self.model.initial_state(1)

    def step(self, state: Any, token: int, edits: Sequence[Edit] = ()) -> tuple[np.ndarray, Any, dict[str, np.ndarray]]:
        """The model's own call for one token: logits, the state after it, and what is to be seen of both."""
        with torch.inference_mode():
            explained = explain(self.model, state, token)
            logits, state = self.model(torch.tensor([[token]]), state)
            tensors = dict(states.named(state))
            for edit in edits:
                picture = self.by_key[edit.key]
                place = picture.place(tensors[picture.source], edit.unit)
                state = replace_value(state, picture.source, place, edit.value)
                tensors = dict(states.named(state))
            values = {
                picture.key: picture.take((explained if picture.explained else tensors)[picture.source])
                for picture in self.pictures
                if picture.kind != "matrix"
            }
        return logits[0, -1].float().numpy(), state, values

    def read_chunk(self, state: Any, tokens: Sequence[int]) -> Any:
        """The state after some more tokens, which are read at once."""
        with torch.inference_mode():
            return self.model(torch.tensor([list(tokens)]), state)[1]

    def view(self, state: Any, key: str) -> np.ndarray:
        """The numbers of a picture in a state."""
        picture = self.by_key[key]
        return picture.take(dict(states.named(state))[picture.source])

    def cost(self, steps: int) -> int:
        """FLOPs of so many steps, as the model declares them."""
        return int(self.model.cost(1, steps).flops) if steps else 0

    def check_edit(self, edit: Edit) -> None:
        """Refuse what is no number of the state."""
        picture = self.by_key.get(edit.key)
        if picture is None or picture.explained:
            raise Refusal(400, f"edit: expected a picture of the state of {self.name}, found another", param="edits")
        if not 0 <= edit.unit < int(np.prod(picture.shape)):
            raise Refusal(400, "edit: expected a number of the picture, found one beyond it", param="edits")
        if not abs(edit.value) <= LARGEST:
            raise Refusal(400, f"edit: expected a value of at most {LARGEST:,}, found more", param="edits")


def summarize(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """The likeliest tokens, their shares, log2 of the shares of all tokens, and the entropy in bits."""
    scores = logits.astype(np.float64)
    scores -= scores.max()
    bits = (scores - np.log(np.exp(scores).sum())) / np.log(2)
    shares = np.exp2(bits)
    best = np.argsort(-shares, kind="stable")[:LIKELIEST]
    return (
        best.astype(np.int32),
        shares[best].astype(np.float32),
        bits.astype(np.float32),
        float(-(shares * bits).sum()),
    )
