"""Language modelling: predict each token of a text from those before it.

Three rules for the same metric, always named with the figure:

    windows    the text is cut into windows of `context` tokens; each starts from nothing
    stateful   one pass over the whole text, the state carried from beginning to end
    sliding    each token is predicted from at least `context − stride` tokens before it
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...core import bptt as through_time
from ...core import state as states
from ...core.bptt import BpttName
from ...core.contract import ContractError, check_settings
from ...core.task import Loss
from ...data.files import DataError
from .data import Corpus

Rule = Literal["windows", "stateful", "sliding"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """`windows`: at random places, or one after the other with the state carried (`sequential`).

    `bptt` says how far gradients go inside a window (see core.bptt), `segment` how long its pieces are and
    `cut` the probability of the unbiased estimator. `vary` (sequential only) draws each window's length around
    `context`, as AWD-LSTM does. `eval_rule` is the rule by which validation chooses;
    `eval_tokens` looks only at so many tokens from the beginning of a split, and the rule then says so.
    """

    context: int = 128
    batch: int = 32
    windows: Literal["random", "sequential"] = "random"
    bptt: BpttName = "full"
    segment: int = 32
    cut: float = 0.5
    vary: bool = False
    smoothing: float = 0.0
    eval_rule: Rule = "windows"
    eval_batch: int = 64
    eval_tokens: int | None = None

    def __post_init__(self) -> None:
        check_settings(self, least={"eval_tokens": 2})
        if self.vary and self.windows != "sequential":
            raise ContractError("text: vary=True needs windows=sequential")
        if not 0 <= self.smoothing < 1 or not 0 < self.cut < 1:
            raise ContractError(
                f"text: expected smoothing in [0, 1) and cut in (0, 1), found {self.smoothing} and {self.cut}"
            )


class Batch(NamedTuple):
    x: Tensor  # B T
    y: Tensor  # B T
    fresh: bool  # True: start from nothing
    number: int
    scale: float = 1.0  # of the loss, for windows of varied length


def check_length(config: Config, name: str, split: str, tokens: np.ndarray) -> None:
    """Refuse a text that is too short to train on; measuring needs no whole window."""
    if len(tokens) < config.context + 1:
        raise DataError(
            f"{name}: expected at least {config.context + 1:,} tokens for {split} (one window of {config.context:,}), "
            f"found {len(tokens):,}; give more text or a smaller --context"
        )


class TextTask:
    """A corpus to predict."""

    name = "text"
    in_nats = True
    metric = "nats_per_token"

    def __init__(self, config: Config, corpus: Corpus, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.config, self.corpus, self.seed = config, corpus, seed
        self.device = torch.device(device)

    def tokens(self, split: str) -> np.ndarray:
        found = getattr(self.corpus, split, None)
        if found is None:
            raise DataError(f"{self.corpus.name}: expected a {split} part, found none")
        return found

    def measured(self, split: str) -> np.ndarray:
        """The tokens that an evaluation looks at."""
        found = self.tokens(split)[: self.config.eval_tokens]
        if len(found) < 2:
            raise DataError(f"{self.corpus.name}: expected at least 2 tokens to measure, found {len(found)}")
        return found

    # Training

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        check_length(self.config, self.corpus.name, split, self.tokens(split))
        yield from (
            self._sequential(split, seed, start)
            if self.config.windows == "sequential"
            else self._random(split, seed, start)
        )

    def _random(self, split: str, seed: int, start: int) -> Iterator[Batch]:
        tokens, steps, rows = self.tokens(split), self.config.context, self.config.batch
        number = start
        while True:
            draw = np.random.default_rng([seed, number])
            at = draw.integers(0, len(tokens) - steps, size=rows)
            window = np.stack([tokens[i : i + steps + 1] for i in at]).astype(np.int64)
            yield self._batch(window, True, number)
            number += 1

    def _sequential(self, split: str, seed: int, start: int) -> Iterator[Batch]:
        """The text as `batch` streams side by side; after its end it begins again, from nothing."""
        tokens, steps, rows = self.tokens(split), self.config.context, self.config.batch
        length = (len(tokens) - 1) // rows
        if length < 1:
            raise DataError(f"{self.corpus.name}: expected more than {rows:,} tokens for {rows} streams")
        streams = np.lib.stride_tricks.as_strided(
            tokens, (rows, length + 1), (length * tokens.itemsize, tokens.itemsize), writeable=False
        )
        number, at, epoch = 0, 0, 0
        draw = np.random.default_rng([seed, epoch])
        while True:
            if at >= length:
                at, epoch = 0, epoch + 1
                draw = np.random.default_rng([seed, epoch])
            want = steps
            if self.config.vary:
                base = steps if draw.random() < 0.95 else steps / 2
                want = max(5, round(draw.normal(base, 5)))
            end = min(at + want, length)
            if number >= start:
                window = streams[:, at : end + 1].astype(np.int64)
                yield self._batch(window, at == 0, number, (end - at) / steps if self.config.vary else 1.0)
            at, number = end, number + 1

    def _batch(self, window: np.ndarray, fresh: bool, number: int, scale: float = 1.0) -> Batch:
        tokens = torch.from_numpy(window)
        if self.device.type == "cuda":
            tokens = tokens.pin_memory().to(self.device, non_blocking=True)
        return Batch(tokens[:, :-1], tokens[:, 1:], fresh, number, scale)

    def loss(self, model: nn.Module, batch: Batch, carry: Any = None) -> Loss:
        value, state = through_time.mean(
            model,
            batch.x,
            batch.y,
            None if batch.fresh else carry,
            self._segments(batch),
            smoothing=self.config.smoothing,
        )
        kept = state if self.config.windows == "sequential" else None
        return Loss(value * batch.scale, batch.y.numel(), kept)

    def _segments(self, batch: Batch) -> list[through_time.Segment]:
        """Drawn by the batch's number, so that a resumed run draws the same."""
        config = self.config
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + batch.number) if config.bptt != "full" else None
        return through_time.plan(config.bptt, batch.x.shape[1], config.segment, config.cut, draw)

    @property
    def repeats(self) -> bool:
        return self.config.bptt == "full" and not self.config.vary

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return tuple(batch.x.shape)

    def flops(self, model: Any, *shape: int) -> float:
        return model.cost(*shape).flops

    # Measuring

    def evaluate(self, model: nn.Module, split: str, rule: Rule | None = None) -> dict[str, Any]:
        """Nats per token, perplexity and bits per byte over every token of a split but the first."""
        rule = rule or self.config.eval_rule
        losses = self.losses(model, split, rule)
        total, count = float(losses.sum()), losses.numel()
        nats = total / count
        text = self.corpus.text_bytes[split] * (count + 1) / len(self.tokens(split))
        found = {
            "nats_per_token": nats,
            "perplexity": math.exp(min(nats, 700)),
            "bits_per_byte": total / math.log(2) / text,
            "tokens": count,
            "rule": self.describe(rule, split),
        }
        if rule == "windows":
            found["by_position"] = self.by_position(losses)
        return found

    def losses(self, model: nn.Module, split: str, rule: Rule) -> Tensor:
        """The nats of every token of a split but the first, in order, float64."""
        return {"windows": self._by_windows, "stateful": self._stateful, "sliding": self._sliding}[rule](model, split)

    def describe(self, rule: Rule, split: str) -> str:
        there, read = len(self.tokens(split)), len(self.measured(split))
        limit = f", of the first {read:,} tokens" if read < there else ""
        return self._rules(self.config.context)[rule] + limit

    @staticmethod
    def _rules(context: int) -> dict[str, str]:
        return {
            "windows": f"windows of {context} tokens side by side, each from an empty state, every token but the first",
            "stateful": "one pass over the whole text, state carried, every token but the first",
            "sliding": f"windows of {context} tokens every {max(1, context // 2)}, each token at its best",
        }

    def by_position(self, losses: Tensor) -> list[float]:
        """Mean loss at each position of the window: how much a model gains from what it has read."""
        context = self.config.context
        whole = losses[: len(losses) // context * context]
        return whole.view(-1, context).mean(dim=0).tolist() if len(whole) else []

    @torch.no_grad()
    def _by_windows(self, model: nn.Module, split: str) -> Tensor:
        tokens, steps = self.measured(split), self.config.context
        count = len(tokens) - 1
        found = []
        starts = range(0, count, steps)
        whole = [at for at in starts if at + steps <= count]
        for i in range(0, len(whole), self.config.eval_batch):
            rows = np.stack([tokens[at : at + steps + 1] for at in whole[i : i + self.config.eval_batch]])
            found.append(self._nll(model, rows)[0].flatten())
        if count % steps:
            found.append(self._nll(model, tokens[None, starts[-1] : count + 1])[0].flatten())
        return torch.cat(found).double().cpu()

    @torch.no_grad()
    def _stateful(self, model: nn.Module, split: str, piece: int = 2048) -> Tensor:
        tokens, state, found = self.measured(split), None, []
        for at in range(0, len(tokens) - 1, piece):
            losses, state = self._nll(model, tokens[None, at : min(at + piece, len(tokens) - 1) + 1], state)
            found.append(losses.flatten())
        return torch.cat(found).double().cpu()

    @torch.no_grad()
    def _sliding(self, model: nn.Module, split: str) -> Tensor:
        tokens, steps = self.measured(split), self.config.context
        stride, count = max(1, steps // 2), len(tokens) - 1
        head = self._nll(model, tokens[None, : min(steps, count) + 1])[0].flatten()
        found = [head]
        starts = list(range(stride, max(0, count - steps) + 1, stride))
        for i in range(0, len(starts), self.config.eval_batch):
            rows = np.stack([tokens[at : at + steps + 1] for at in starts[i : i + self.config.eval_batch]])
            found.append(self._nll(model, rows)[0][:, -stride:].flatten())
        done = sum(len(part) for part in found)
        if done < count:
            last = self._nll(model, tokens[None, max(0, count - steps) : count + 1])[0].flatten()
            found.append(last[-(count - done) :])
        return torch.cat(found).double().cpu()

    def _nll(self, model: nn.Module, rows: np.ndarray, state: Any = None) -> tuple[Tensor, Any]:
        window = torch.from_numpy(np.ascontiguousarray(rows).astype(np.int64)).to(self.device)
        losses, state = model.nll(window[:, :-1], window[:, 1:], state)  # type: ignore[operator]
        return losses, states.detach(state)

    def baselines(self, split: str) -> dict[str, float]:
        """Uniform guessing, and the frequencies of the training text (add-one smoothed)."""
        size = self.corpus.tokenizer.size
        counts = np.bincount(np.asarray(self.tokens("train")), minlength=size) + 1.0
        unigram = -np.log(counts / counts.sum())[np.asarray(self.measured(split)[1:])].mean()
        return {"uniform": math.log(size), "unigram": float(unigram)}
