"""Translation: write the target of a source, token by token.

Teacher forcing asks for each next token of the reference, given the reference so far. Free running lets the model
read what it wrote itself. Both are measured, and their distance.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from glob import escape
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...core import pieces
from ...core import state as states
from ...core.artifacts import artifact_path
from ...core.contract import Memory
from ...core.summary import DataSummary
from ...core.task import LoadedRun, Loss, RunConfig
from ...data.files import DataError, absolute_name
from ...data.known import TextSet, TranslationSet, sets_of
from ...data.tokenizers.sentences import SentenceTokenizer, TokenizerPair, load_pair, save_pair
from ...decode.beam import Config as Search
from ...decode.translate import hypotheses, pad
from ...models import seq2seq
from ..decoding import SAMPLES, DecodingTask, greedy_settings, guess_baselines, logits_of, search_settings, token_losses
from . import bleu, data, probe
from .data import Parallel, summarize
from .export import TranslationExports
from .pairs import SPLITS, Pairs, batches_by_tokens, batches_from
from .settings import Config, DataConfig

POSITIONS = 40  # of the target, with a mean loss each


class Batch(NamedTuple):
    source: Tensor  # B S, each with its end
    lengths: Tensor  # B
    x: Tensor  # B T: begin, y₁, y₂, …
    y: Tensor  # B T: y₁, y₂, …, end, then padding
    tokens: int  # of the targets, ends counted
    number: int


class TranslationTask(DecodingTask[Parallel, TokenizerPair]):
    """Pairs of sentences to translate."""

    name = "translation"
    data_config = DataConfig
    task_config = Config
    exports = TranslationExports()
    model_config = seq2seq.Config
    usual: ClassVar[Mapping[str, str]] = {
        "lr": "2e-3",
        "weight_decay": "0.01",
        "steps": "600",
        "batch": "2048",
        "width": "128",
    }
    request_options: ClassVar[Sequence[str]] = ("text",)
    refused: ClassVar[Mapping[str, str]] = {
        "bidirectional": "expected both_ways=true, by which an encoder reads from both ends, found bidirectional"
    }

    def __init__(self, config: Config, data: Parallel, device: torch.device | str = "cpu", seed: int = 0) -> None:
        super().__init__(config, data, device, seed)
        self.metric = "nats_per_token" if config.choose == "nats" else "minus_bleu"

    # Data and models

    @classmethod
    def load_data(cls, config: DataConfig, data_dir: str | None, artifacts: TokenizerPair | None = None) -> Parallel:
        settings = asdict(config)
        places = {name: list(settings.pop(name)) or None for name in ("data", "valid", "test")}
        settings["share"] = settings.pop("held_out")  # a model's `share` says which tables are one
        return data.load(places.pop("data"), **places, **settings, data_dir=data_dir, existing=artifacts)

    @classmethod
    def generated_rows(cls, config: DataConfig) -> int | None:
        return None if config.data else config.count

    @classmethod
    def artifacts_of(cls, data: Parallel) -> TokenizerPair:
        return data.source, data.target

    @classmethod
    def save_artifacts(cls, artifacts: TokenizerPair, folder: Path) -> None:
        save_pair(folder / "tokenizer.json", *artifacts)

    @classmethod
    def load_artifacts(cls, folder: Path) -> TokenizerPair:
        return load_pair(artifact_path(folder, "tokenizer.json"))

    @classmethod
    def describe_data(cls, data: Parallel) -> dict[str, Any]:
        counts = {"train": len(data.train), "valid": len(data.valid), "test": len(data.test) if data.test else 0}
        sizes = {"source": data.source.size, "target": data.target.size}
        about = {"name": data.name, "fingerprint": data.fingerprint, "pair": pair_of(data)}
        return about | counts | sizes | {"notes": data.notes}

    @classmethod
    def summarize_data(cls, data: Parallel) -> str:
        return (
            f"{len(data.train):,} pairs of {data.name}, {data.source_language} to {data.target_language}, "
            f"vocabularies {data.source.size:,} and {data.target.size:,}"
        )

    @classmethod
    def data_summary(cls, data: Parallel) -> DataSummary:
        return summarize(data)

    @classmethod
    def other_data(cls, config: DataConfig, data: Sequence[str], artifacts: TokenizerPair) -> DataConfig:
        """All of the other pairs are the part that is measured."""
        return replace(config, data=tuple(data), valid=tuple(data), test=tuple(data))

    @classmethod
    def model_sizes(cls, artifacts: TokenizerPair) -> dict[str, int]:
        source, target = artifacts
        return {"source": source.size, "target": target.size}

    @classmethod
    def target_tokenizer(cls, artifacts: TokenizerPair) -> SentenceTokenizer:
        return artifacts[1]

    @classmethod
    def resolve(cls, run: RunConfig, data: Parallel, params: int | None) -> RunConfig:
        model = cls.resolve_model(run.model, cls.artifacts_of(data), params)
        full = {place: tuple(map(absolute_place, getattr(run.data, place))) for place in ("data", "valid", "test")}
        return replace(run, data=replace(run.data, pair=pair_of(data), **full), model=model)

    @classmethod
    def law_example(cls, model: Any, artifacts: TokenizerPair) -> tuple[nn.Module, Tensor, Memory | None]:
        source, target = artifacts
        draw = torch.Generator().manual_seed(0)
        with torch.no_grad():
            memory = model.encode(torch.randint(source.size, (3, 7), generator=draw), torch.tensor([7, 3, 5]))
        return model, torch.randint(target.size, (3, 12), generator=draw), memory

    @classmethod
    def state_bytes(cls, model: Any, run: RunConfig) -> int:
        return model.cost(1, 20, 20).state_bytes

    # Training

    def pairs(self, split: str) -> Pairs:
        found = getattr(self.data, split) if split in SPLITS else None
        if found is None:
            raise DataError(f"{self.data.name}: expected a {split} part, found none")
        return found

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
        logits = logits_of(model, batch.x, memory)
        real = batch.y != self.data.target.pad
        loss = token_losses(logits, batch.y, self.data.target.pad, self.config.smoothing).sum() / real.sum()
        if twice:
            loss = loss + self.config.consistency * self.distance(logits, real)
        return Loss(loss, tokens, terms=real.sum())

    def distance(self, logits: Tensor, real: Tensor) -> Tensor:
        """Mean symmetric KL divergence between both halves of the rows, a token."""
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
            scored = self.translated(model, split, greedy_settings(self.config), count)
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
            logits = logits_of(model, batch.x, model.encode(batch.source, batch.lengths))
            losses = token_losses(logits, batch.y, target.pad).double().cpu()
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
            "pieces": {"exact": pieces.cut(exact)},
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
                losses = token_losses(logits_of(model, given, memory), batch.y, self.data.target.pad)
                totals[name] += float(losses.sum())
            tokens += batch.tokens
        return {name: total / tokens for name, total in totals.items()}

    def baselines(self, split: str) -> dict[str, float]:
        train, pairs = self.pairs("train"), self.pairs(split)
        return guess_baselines(self.data.target, train.target, len(train), pairs.target, len(pairs))

    def figures(self, model: nn.Module, split: str, **options: Any) -> dict[str, Any]:
        """BLEU by beam search, the loss on references, and how far the model's own text leads it away."""
        search = search_settings(self.config, **options.get("search", {}))
        forced = self.forced(model, split)
        found = self.translated(model, split, search)
        in_pieces = found.pop("pieces", {})
        how = "tokenised and lowercased" if self.data.target.preparation.moses else "lowercased"
        rule = f"{how}, {found['search']}, {found['sentences']:,} sentences; {found['bleu_signature']}"
        return {
            "metric": {"name": "bleu", "value": found["bleu"], "rule": rule},
            "translated": found,
            "forced": forced,
            "exposure": self.free_running(model, split),
            "baselines": self.baselines(split),
            "compared": self.compared(forced),
        } | ({"pieces": in_pieces} if options.get("pieces") else {})

    @classmethod
    def table(cls, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        scores, forced = found["translated"], found["forced"]
        columns = ("BLEU", "cased BLEU", "chrF", "exact", "perplexity", "nats/token", "sentences", "sentences/s")
        row = [
            f"{scores['bleu']:.2f}",
            f"{scores['cased_bleu']:.2f}",
            f"{scores['chrf']:.2f}",
            f"{100 * scores['exact']:.1f} %",
            f"{forced['perplexity']:.3f}",
            f"{forced['nats_per_token']:.4f}",
            f"{scores['sentences']:,}",
            f"{scores['sentences'] / scores['seconds']:,.0f}",
        ]
        lengths = "  ".join(
            f"{entry['above'] + 1}–{entry['upto'] or '…'}: {entry['bleu']:.1f} ({entry['sentences']})"
            for entry in scores["by_length"]
        )
        gap = found["exposure"]
        guesses = "  ".join(f"{name} {value:.4f}" for name, value in found["baselines"].items())
        below = [
            f"BLEU: {found['metric']['rule']}",
            f"cased BLEU: {scores['cased_signature']}   chrF: {scores['chrf_signature']}",
            f"BLEU by words of the source: {lengths}",
            f"nats/token having read the reference {gap['forced']:.4f}, having read its own text {gap['free']:.4f}",
            f"without learning, nats/token: {guesses}",
        ]
        return columns, [row], below

    @classmethod
    def headline(cls, found: dict[str, Any]) -> str:
        scored = f", BLEU {found['bleu']:.2f} (greedy)" if "bleu" in found else ""
        return f"validation {found['nats_per_token']:.4f} nats/token, perplexity {found['perplexity']:.3f}{scored}"

    # Inspection and races

    probe = staticmethod(probe.probe)

    def sample(self, run: LoadedRun[Parallel, TokenizerPair]) -> list[dict[str, str]]:
        """The first pairs of validation, each with the model's own translation."""
        source, target = run.artifacts
        pairs = self.pairs("valid")
        some = range(min(SAMPLES, len(pairs)))
        rows = [pairs.source_of(i) for i in some]
        lists = hypotheses(run.model, source, target, rows, greedy_settings(self.config))
        sources, references = pairs.texts("source"), pairs.texts("target")
        return [
            {"source": sources[i], "reference": references[i], "output": target.decode(found[0].tokens)}
            for i, found in zip(some, lists, strict=True)
        ]

    def declared_cost(self, run: LoadedRun[Parallel, TokenizerPair], length: int) -> tuple[float, float]:
        """Of a source and a translation of the same length."""
        own = run.model.cost(1, length, length)
        return own.flops + run.model.encoder_flops(1, length), own.state_bytes


def pair_of(data: Parallel) -> str:
    """The languages, such as en-de."""
    return f"{data.source_language}-{data.target_language}"


def absolute_place(name: str) -> str:
    """A file, folder or prefix of files by its full name, so that a run can be resumed from another folder."""
    path = Path(name)
    is_prefix = name not in sets_of(TextSet, TranslationSet) and any(path.parent.glob(f"{escape(path.name)}.*"))
    return str(path.absolute()) if is_prefix else absolute_name(name, sets_of(TextSet, TranslationSet))


def share_by(keys: list[int], right: list[bool]) -> dict[str, float]:
    """The share that is right among the sentences of each length."""
    found: dict[int, list[bool]] = {}
    for key, good in zip(keys, right, strict=True):
        found.setdefault(key, []).append(good)
    return {str(key): sum(found[key]) / len(found[key]) for key in sorted(found)}


TASKS = (TranslationTask,)
