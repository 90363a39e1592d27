"""A trained language model in use: generation, scores, steps. Nothing here imports torch before the model needs it."""

# what a program gives is checked whatever its type says, and torch declares some functions in part
# pyright: reportUnnecessaryIsInstance=false, reportUnknownMemberType=false

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from typing import Any

import numpy as np

from ...core.errors import RecollectError
from ...core.trained import Array, State, TrainedModel, check_options, check_text
from ...data import tokenizers
from ...data.tokenizers import Tokenizer
from ...runtime.engine import StepWriter
from ...runtime.sampling import Config
from ...runtime.stream import Writer, generate_text

PRECISIONS = ("float32", "float16", "int8")  # of weights, on a CPU
OPTIONS = (
    "prompt", "length", "temperature", "greedy", "top_k", "top_p", "penalty", "seed", "stop", "state_in", "state_out",
    "precision", "exact",
)  # fmt: skip
STEPWISE = 2_000  # tokens of a prompt or text from which reading them by chunks is worth importing torch


@dataclass(frozen=True)
class Score:
    """How likely a text is: its negative log-likelihood, of every token but the first."""

    nats: float
    tokens: int  # that were predicted
    by_token: tuple[tuple[str, float], ...]  # each token with its nats; the first has none and is left out

    @property
    def nats_per_token(self) -> float:
        """The mean over the tokens."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """The exponential of the mean."""
        return exp(min(self.nats_per_token, 700))

    @property
    def bits(self) -> float:
        """The sum in bits."""
        return self.nats / log(2)


class TextModel(TrainedModel):
    """A language model: it goes on with texts, says how likely they are, and reads them step by step."""

    methods = ("generate", "score", "next_tokens", "explain")

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """What turns text into the numbers that `step` takes, and back."""
        return tokenizers.load(self._source.artifacts / "tokenizer.json")

    def prepare(self, steps: int = 0) -> None:
        super().prepare(steps)
        _ = self.tokenizer

    def is_unknown(self, text: str) -> bool:
        """Whether a text has tokens, and none of them is in the vocabulary."""
        unknown = self.tokenizer.unknown
        return unknown is not None and bool(text) and bool((self._encode("is_unknown", text) == unknown).all())

    def generate(
        self,
        prompt: str | Sequence[str] = (),
        *,
        length: int = 300,
        temperature: float = 1.0,
        greedy: bool = False,
        top_k: int | None = None,
        top_p: float | None = None,
        penalty: float = 1.0,
        seed: int = 0,
        stop: str | Sequence[str] = (),
        state_in: str | None = None,
        state_out: str | None = None,
        precision: str | None = None,
        exact: bool = False,
        **others: Any,
    ) -> Iterator[str]:
        """The prompt and what follows it, piece by piece as it is written; of several prompts all texts at the end.

        Sampled at `temperature` from the `top_k` likeliest tokens, or the fewest that hold `top_p` of the probability,
        or always the likeliest (`greedy`). The same seed gives the same text. `state_in` and `state_out` are files of
        saved positions. `exact` writes by the model's own call alone.

            >>> model = recollect.load("demo-text")
            >>> first, again = ("".join(model.generate("KING:", length=30, seed=1)) for _ in range(2))
            >>> first == again
            True
        """
        check_options("generate", others, OPTIONS)
        settings = Config(
            length=length, greedy=greedy, temperature=temperature, top_k=top_k, top_p=top_p, penalty=penalty, seed=seed
        )
        prompts = [prompt] if isinstance(prompt, str) or not isinstance(prompt, Iterable) else list(prompt)
        stops = [stop] if isinstance(stop, str) or not isinstance(stop, Iterable) else list(stop)
        if not all(isinstance(each, str) for each in (*prompts, *stops)):
            raise RecollectError("generate: expected prompts and stops that are texts, found something else")
        written = sum(map(len, prompts)) + length * max(1, len(prompts))
        writer = self._writer(written, max(map(len, prompts), default=0), precision, exact)
        return generate_text(
            writer, self.tokenizer, prompts, settings, stops=stops, state_in=state_in, state_out=state_out
        )

    def _writer(self, steps: int, prompt: int, precision: str | None, exact: bool) -> Writer:
        """The exported step where it is there or worth making; for long prompts torch, which reads them in chunks."""
        if self._source.device == "cpu" and precision not in (None, *PRECISIONS):
            raise RecollectError(f"precision: expected one of {', '.join(PRECISIONS)} on cpu, found {precision!r:.40}")
        if exact and precision not in (None, "float32"):
            raise RecollectError(
                f"precision: expected float32 with exact, which runs the model's own call, found {precision}"
            )
        rounded = precision in PRECISIONS[1:] and self._source.device == "cpu"
        if not exact and (rounded or self._is_stepwise(prompt)):
            step = self._source.open_step(steps, precision if rounded else None)
            if step is not None:
                return StepWriter(step)
        from ...decode.stream import ModelWriter

        return ModelWriter(self._source.run.model, precision=precision, exact=exact)

    def _is_stepwise(self, tokens: int) -> bool:
        """Whether so many tokens are read step by step; an exported folder knows no other way."""
        return tokens <= STEPWISE or self._source.exported is not None

    def score(self, text: str) -> Score:
        """How likely the model finds a text: nats in all and of each token, every token but the first.

        >>> model = recollect.load("demo-text")
        >>> model.score("the king").nats < model.score("xq;zv kj").nats
        True
        """
        ids = self._encode("score", text)
        if len(ids) < 2:
            raise RecollectError(f"score: expected a text of at least two tokens, found {len(ids)}")
        step = self._source.open_step(len(ids)) if self._is_stepwise(len(ids)) else None
        nats = self._score_chunks(ids) if step is None else _score_steps(step, ids)
        names = [self.tokenizer.token(int(token)) for token in ids[1:]]
        return Score(float(nats.sum()), len(nats), tuple(zip(names, nats.tolist(), strict=True)))

    def _encode(self, where: str, text: str) -> Array:
        return self.tokenizer.encode(check_text(where, text)).astype(np.int64)

    def _score_chunks(self, ids: Array) -> Array:
        import torch

        model, state = self._source.run.model, None
        found: list[Array] = []
        row = torch.from_numpy(ids)[None].to(self._source.device)
        with torch.inference_mode():
            for at in range(0, len(ids) - 1, STEPWISE):
                until = min(at + STEPWISE, len(ids) - 1)
                losses, state = model.nll(row[:, at:until], row[:, at + 1 : until + 1], state)
                found.append(losses[0].double().cpu().numpy())
        return np.concatenate(found)

    def explain(self, text: str) -> dict[str, Array]:
        """What the layers did at the last token of a text, by name: gates, attention weights, and the like."""
        import torch

        from ...decode.position import read_prompts

        ids = self._encode("explain", text)
        if not len(ids):
            raise RecollectError("explain: expected a text of at least one token, found an empty one")
        model = self._source.run.model
        with torch.inference_mode():
            before = ids[:-1].tolist()
            state = read_prompts(model, [before]).state if before else model.initial_state(1)
            found = model.explain(state, torch.from_numpy(ids[-1:]).to(self._source.device))
        return {name: tensor[0].float().cpu().numpy() for name, tensor in found.items()}

    def next_tokens(self, text: str, count: int = 10) -> list[tuple[str, float]]:
        """The `count` likeliest next tokens after a text, with their probabilities."""
        if not isinstance(count, int) or count < 0:
            raise RecollectError(f"next_tokens: expected a count of at least 0, found {count!r:.40}")
        state: State = None
        logits = None
        for token in self._encode("next_tokens", text):
            logits, state = self.step(token, state)
        if logits is None:
            raise RecollectError("next_tokens: expected a text of at least one token, found an empty one")
        shares = np.exp(logits[0] - logits[0].max())
        shares /= shares.sum()
        best = np.argsort(-shares, kind="stable")[:count]
        return [(self.tokenizer.token(int(token)), float(shares[token])) for token in best]


def _score_steps(step: Any, ids: Array) -> Array:
    """The nats of every token but the first, one step at a time."""
    state, found = step.initial_state(1), np.empty(len(ids) - 1)
    for at, token in enumerate(ids[:-1]):
        logits, state = step(token[None], state)
        row = logits[0].astype(np.float64)
        found[at] = row.max() + np.log(np.exp(row - row.max()).sum()) - row[ids[at + 1]]
    return found


MODELS = {"text": TextModel}
