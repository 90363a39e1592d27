"""Translation: write the target of a source, token by token.

Teacher forcing asks for each next token of the reference, given the reference so far. Free running lets the model
read what it wrote itself. Both are measured, and their distance.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...core import state as states
from ...core.contract import ContractError, Memory, check_settings
from ...core.task import Loss
from ...data.files import DataError
from ...decode.beam import Config as Search
from ...decode.translate import hypotheses, pad
from . import bleu
from .data import Parallel
from .pairs import SPLITS, Pairs, batches_by_tokens, batches_from

POSITIONS = 40  # of the target, that losses are told apart by


@dataclass(frozen=True, kw_only=True)
class Config:
    """`batch` counts tokens, padding too. `grain` pads both sides to the next multiple of it: fewer shapes of batches,
    as CUDA graphs want them. `sampling` is the share of inputs that are the model's own guesses. `consistency` above 0
    reads each batch twice, under two draws of dropout, and weighs how far the two predictions stand apart: the mean of
    the KL divergences both ways (R-Drop, Liang 2021, whose α is twice this).

    `choose` says what picks the best checkpoint: the loss on references (`nats`), or `bleu` of greedy translations
    of the first `eval_sentences`. `beam` and what follows are for measuring.
    """

    batch: int = 4096
    grain: int = 1
    smoothing: float = 0.1
    sampling: float = 0.0
    consistency: float = 0.0
    choose: Literal["nats", "bleu"] = "nats"
    eval_sentences: int | None = None
    beam: int = 5
    length_penalty: float = 0.6
    coverage: float = 0.0
    ratio: float = 2.0
    extra: int = 20

    def __post_init__(self) -> None:
        check_settings(self, least={"extra": 0})
        for name in ("smoothing", "sampling"):
            if not 0 <= getattr(self, name) < 1:
                raise ContractError(f"translation: expected {name} in [0, 1), found {getattr(self, name)}")
        if not 0 <= self.consistency < math.inf:
            raise ContractError(f"translation: expected consistency of at least 0, found {self.consistency}")
        self.search()

    def search(self, **changes: Any) -> Search:
        """The settings of beam search."""
        given = {name: getattr(self, name) for name in ("beam", "length_penalty", "coverage", "ratio", "extra")}
        return Search(**given | changes)

    def greedy(self) -> Search:
        return self.search(beam=1, length_penalty=0.0, coverage=0.0)


class Batch(NamedTuple):
    source: Tensor  # B S, each with its end
    lengths: Tensor  # B
    x: Tensor  # B T: begin, y₁, y₂, …
    y: Tensor  # B T: y₁, y₂, …, end, then padding
    tokens: int  # of the targets, ends counted
    number: int


class TranslationTask:
    """Pairs of sentences to translate."""

    name = "translation"
    repeats = True
    in_nats = True

    def __init__(self, config: Config, data: Parallel, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.config, self.data, self.seed = config, data, seed
        self.device = torch.device(device)
        self.metric = "nats_per_token" if config.choose == "nats" else "minus_bleu"

    def pairs(self, split: str) -> Pairs:
        found = getattr(self.data, split) if split in SPLITS else None
        if found is None:
            raise DataError(f"{self.data.name}: expected a {split} part, found none")
        return found

    # Training

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        pairs = self.pairs(split)
        for number, rows in enumerate(batches_from(pairs, self.config.batch, seed, start, self.config.grain), start):
            yield self.batch(pairs, rows, number)

    def batch(self, pairs: Pairs, rows: np.ndarray, number: int = 0) -> Batch:
        source, target = self.data.source, self.data.target
        given, written = [pairs.source_of(i) for i in rows], [pairs.target_of(i) for i in rows]
        longest, grain = 1 + max(map(len, given + written)), self.config.grain
        width = 0 if grain == 1 else -(-longest // grain) * grain
        read, lengths = pad([np.append(row, source.end) for row in given], source.pad, self.device, width)
        x, _ = pad([np.insert(row, 0, target.begin) for row in written], target.pad, self.device, width)
        y, _ = pad([np.append(row, target.end) for row in written], target.pad, self.device, width)
        return Batch(read, lengths, x, y, sum(len(row) + 1 for row in written), number)

    def loss(self, model: Any, batch: Batch, carry: Any = None) -> Loss:
        tokens, twice = batch.tokens, self.config.consistency > 0 and model.training
        if twice:
            batch = states.map(lambda part: torch.cat([part, part]), batch)
        memory = model.encode(batch.source, batch.lengths)
        if self.config.sampling and model.training:
            batch = batch._replace(x=self.guessed(model, batch, memory))
        logits = self.logits(model, batch, memory)
        real = batch.y != self.data.target.pad
        loss = self.losses(logits, batch.y, self.config.smoothing).sum() / real.sum()
        if twice:
            loss = loss + self.config.consistency * self.distance(logits, real)
        return Loss(loss, tokens)

    def distance(self, logits: Tensor, real: Tensor) -> Tensor:
        """Of the first half of the rows from the second: the mean of the KL divergences both ways, a real token."""
        one, other = logits.log_softmax(dim=-1).chunk(2)
        apart = ((one.exp() - other.exp()) * (one - other)).sum(dim=-1) / 2
        return (apart * real[: len(apart)]).sum() * 2 / real.sum()

    @torch.no_grad()
    def guessed(self, model: Any, batch: Batch, memory: Memory) -> Tensor:
        """The inputs with a share of them replaced by what the model would have written there."""
        logits, _ = model(batch.x, memory=memory)
        own = torch.cat([batch.x[:, :1], logits.argmax(dim=-1)[:, :-1]], dim=1)
        swapped = torch.rand(batch.x.shape, device=batch.x.device) < self.config.sampling
        return torch.where(swapped & (batch.x != self.data.target.pad), own, batch.x)

    def logits(self, model: Any, batch: Batch, memory: Memory) -> Tensor:
        """B T V, of at least single precision."""
        logits, _ = model(batch.x, memory=memory)
        return logits.float() if logits.dtype.itemsize < 4 else logits

    def losses(self, logits: Tensor, y: Tensor, smoothing: float = 0.0) -> Tensor:
        """−log p of each token of the target in nats, B T; 0 in the padding."""
        found = cross_entropy(
            logits.flatten(0, 1),
            y.flatten(),
            ignore_index=self.data.target.pad,
            reduction="none",
            label_smoothing=smoothing,
        )
        return found.view_as(y)

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return (*batch.x.shape, batch.source.shape[1])

    def flops(self, model: Any, *shape: int) -> float:
        rows, steps, source = shape
        rows *= 2 if self.config.consistency else 1
        return model.cost(rows, steps, source).flops + model.encoder_flops(rows, source)

    # Measuring

    def evaluate(self, model: Any, split: str) -> dict[str, Any]:
        """Nats per token of the references; with `choose=bleu` also BLEU of greedy translations."""
        found = self.forced(model, split)
        if self.config.choose == "bleu":
            count = self.config.eval_sentences
            scored = self.translated(model, split, self.config.greedy(), count)
            found |= {"bleu": scored["bleu"], "minus_bleu": -scored["bleu"]}
        return found

    @torch.no_grad()
    def forced(self, model: Any, split: str) -> dict[str, Any]:
        """Teacher forcing: every token of every reference, ends counted."""
        pairs, target = self.pairs(split), self.data.target
        total, count = 0.0, 0
        sums, counts = torch.zeros(POSITIONS, dtype=torch.float64), torch.zeros(POSITIONS, dtype=torch.float64)
        for rows in batches_by_tokens(pairs, self.config.batch):
            batch = self.batch(pairs, rows)
            logits = self.logits(model, batch, model.encode(batch.source, batch.lengths))
            losses = self.losses(logits, batch.y).double().cpu()
            real = (batch.y != target.pad).cpu()
            total, count = total + float(losses.sum()), count + batch.tokens
            near = min(POSITIONS, losses.shape[1])
            sums[:near] += losses[:, :near].sum(dim=0)
            counts[:near] += real[:, :near].sum(dim=0)
        nats = total / count
        seen = int((counts > 0).sum())
        return {
            "nats_per_token": nats,
            "perplexity": math.exp(min(nats, 700)),
            "tokens": count,
            "rule": "every token of every reference and its end, given the reference so far",
            "by_position": (sums[:seen] / counts[:seen]).tolist(),
        }

    def translated(self, model: Any, split: str, search: Search, count: int | None = None) -> dict[str, Any]:
        """BLEU, chrF and exact matches of translations of the first `count` sources (default: all)."""
        pairs, source, target = self.pairs(split), self.data.source, self.data.target
        count = len(pairs) if count is None else min(count, len(pairs))
        started = time.perf_counter()
        lists = hypotheses(model, source, target, [pairs.source_of(i) for i in range(count)], search)
        seconds = time.perf_counter() - started
        ids = [found[0].tokens for found in lists]
        raw = pairs.texts("target")
        wanted = [raw[i] for i in range(count)]
        plain, prepared = [target.decode(tokens) for tokens in ids], [target.decode_prepared(tokens) for tokens in ids]
        language = bleu.tokenizer_for(self.data.target_language)
        # what a preparation has tokenised is compared as it is, as the papers do; else sacreBLEU tokenises
        how = "none" if target.preparation.moses else language
        lowered = bleu.bleu(prepared, [target.prepared(line) for line in wanted], tokenizer=how, lower=True)
        cased = bleu.bleu(plain, wanted, tokenizer=language)
        characters = bleu.chrf(plain, wanted)
        words = [bleu.length(text) for text, _ in zip(pairs.texts("source"), range(count), strict=False)]
        exact = [mine == target.decode(pairs.target_of(i)) for i, mine in enumerate(plain)]
        return {
            "bleu": lowered["bleu"],
            "bleu_signature": lowered["signature"],
            "length_ratio": lowered["ratio"],
            "cased_bleu": cased["bleu"],
            "cased_signature": cased["signature"],
            "chrf": characters["chrf"],
            "chrf_signature": characters["signature"],
            "exact": sum(exact) / len(exact),
            "exact_by_length": share_by(words, exact),
            "by_length": bleu.by_length(plain, wanted, words, tokenizer=language, lower=True),
            "unfinished": sum(not found[0].finished for found in lists),
            "sentences": count,
            "seconds": seconds,
            "search": f"beam {search.beam}, length penalty {search.length_penalty}, coverage {search.coverage}",
        }

    @torch.no_grad()
    def free_running(self, model: Any, split: str, count: int = 500) -> dict[str, float]:
        """Nats per reference token when the model has read its own greedy text, as long as the reference, so far.

        Beside the same figure by teacher forcing, on the same sentences: how far its own text leads it away.
        """
        pairs = self.pairs(split)
        chosen = np.arange(min(count, len(pairs)))
        totals = {"forced": 0.0, "free": 0.0}
        tokens = 0
        for rows in np.array_split(chosen, max(1, len(chosen) // 50)):
            batch = self.batch(pairs, rows)
            memory = model.encode(batch.source, batch.lengths)
            state, x, own = model.initial_state(len(rows), memory=memory), batch.x[:, :1], []
            for _ in range(batch.x.shape[1]):
                own.append(x)
                logits, state = model(x, state)
                x = logits[:, -1:].argmax(dim=-1)
            for name, given in (("forced", batch.x), ("free", torch.cat(own, dim=1))):
                logits = self.logits(model, batch._replace(x=given), memory)
                totals[name] += float(self.losses(logits, batch.y).sum())
            tokens += batch.tokens
        return {name: total / tokens for name, total in totals.items()}

    def baselines(self, split: str) -> dict[str, float]:
        """Uniform guessing, and the frequencies of the target's training tokens (add-one smoothed)."""
        target = self.data.target
        train = self.pairs("train")
        counts = np.bincount(np.asarray(train.target), minlength=target.size) + 1.0
        counts[target.end] += len(train)
        nats = -np.log(counts / counts.sum())
        pairs = self.pairs(split)
        total = nats[np.asarray(pairs.target)].sum() + nats[target.end] * len(pairs)
        return {"uniform": math.log(target.size), "unigram": float(total / (len(pairs.target) + len(pairs)))}


def share_by(keys: list[int], right: list[bool]) -> dict[str, float]:
    """The share that is right among the sentences of each length."""
    found: dict[int, list[bool]] = {}
    for key, good in zip(keys, right, strict=True):
        found.setdefault(key, []).append(good)
    return {str(key): sum(found[key]) / len(found[key]) for key in sorted(found)}
