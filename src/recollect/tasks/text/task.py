"""Language modelling: predict each token of a text from those before it.

Three rules for the same metric, always named with the figure:

    windows    the text is cut into windows of `context` tokens; each starts from nothing
    stateful   one pass over the whole text, the state carried from beginning to end
    sliding    each token is predicted from at least `context − stride` tokens before it
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...core import bptt, pieces
from ...core import state as states
from ...core.artifacts import artifact_path
from ...core.contract import ContractError, Memory
from ...core.settings import known, refuse_both_ways
from ...core.summary import DataSummary
from ...core.task import LoadedRun, LoadRun, Loss, RunConfig, RunError, Solution, Task, building, describe_model
from ...data import tokenizers
from ...data.files import DataError, absolute_names
from ...data.known import TextSet, TranslationSet, sets_of
from ...data.tokenizers.base import Tokenizer
from ...decode import sampling, stream
from ...decode.verify import generation_laws
from ...layers import LAYERS
from ...models import language, ngram
from ...models.body import StackedModels, kind_of
from . import data, mixture, probe
from .data import Corpus
from .export import TextExports
from .mixture import Mixture, best_share
from .settings import Config, DataConfig, Rule

COUNTED = ("ngram",)
PART = 1 << 22  # tokens that are counted at once
PROMPT, WRITTEN = 48, 160  # tokens of a sample


class Batch(NamedTuple):
    x: Tensor  # B T
    y: Tensor  # B T
    fresh: bool  # True: start from nothing
    number: int
    scale: float = 1.0  # of the loss, for windows of varied length and parts of windows
    segments: tuple[bptt.Segment, ...] = ()  # of a part, where its gradients are scaled on their way back
    last: bool = True  # False: a part of a window, which the next part goes on with


def check_length(config: Config, name: str, split: str, tokens: np.ndarray) -> None:
    """Refuse a text that is too short to train on; measuring needs no whole window."""
    if len(tokens) < config.context + 1:
        raise DataError(
            f"{name}: expected at least {config.context + 1:,} tokens for {split} (one window of {config.context:,}), "
            f"found {len(tokens):,}; give more text or a smaller --context"
        )


class TextTask(StackedModels, Task[Corpus, Tokenizer]):
    """A corpus to predict: by networks that are trained, n-grams that are counted, mixtures of two runs."""

    name = "text"
    models = (*COUNTED, *language.KINDS)
    default = "transformer"
    data_config = DataConfig
    task_config = Config
    exports = TextExports()
    counted = unsized = COUNTED
    combined = ("mixture",)
    in_nats = True
    free_length = True
    request_options: ClassVar[Sequence[str]] = ("text",)
    refused: ClassVar[Mapping[str, str]] = refuse_both_ways("text, which is written from left to right")
    metric = "nats_per_token"

    # Data and models

    @classmethod
    def model_settings(cls, model: str) -> dict[str, Any]:
        if model in COUNTED:
            return {"model": ngram.Config}
        if model in cls.combined:
            return {"model": mixture.Config}
        return {"model": language.Config, "layer": LAYERS[kind_of(model).layer]}

    @classmethod
    def load_data(cls, config: DataConfig, data_dir: str | None, artifacts: Tokenizer | None = None) -> Corpus:
        settings = asdict(config)
        places = {name: list(settings.pop(name)) or None for name in ("data", "valid", "test")}
        return data.load(places.pop("data"), **places, **settings, data_dir=data_dir, existing=artifacts)

    @classmethod
    def artifacts_of(cls, data: Corpus) -> Tokenizer:
        return data.tokenizer

    @classmethod
    def save_artifacts(cls, artifacts: Tokenizer, folder: Path) -> None:
        tokenizers.save(artifacts, folder / "tokenizer.json")

    @classmethod
    def load_artifacts(cls, folder: Path) -> Tokenizer:
        return tokenizers.load(artifact_path(folder, "tokenizer.json"))

    @classmethod
    def describe_data(cls, data: Corpus) -> dict[str, Any]:
        counts = {"vocab": data.tokenizer.size, "train": len(data.train), "valid": len(data.valid)}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | {"notes": data.notes}

    @classmethod
    def summarize_data(cls, data: Corpus) -> str:
        return f"{len(data.train):,} training tokens of {data.name}, vocabulary {data.tokenizer.size:,}"

    @classmethod
    def data_summary(cls, data: Corpus) -> DataSummary:
        rows = {split: getattr(data, split) for split in ("train", "valid", "test")}
        splits = {
            split: {
                "lines": data.lines.get(split, 0),
                "tokens": len(tokens),
                "unknown": round(data.unknown_share.get(split, 0.0) * len(tokens)),
            }
            for split, tokens in rows.items()
            if tokens is not None
        }
        facts = {"vocabulary": data.tokenizer.size, "tokenizer": data.tokenizer.kind}
        return DataSummary(name=data.name, files=data.files, splits=splits, facts=facts, notes=data.notes)

    @classmethod
    def other_data(cls, config: DataConfig, data: Sequence[str], artifacts: Tokenizer) -> DataConfig:
        """All of another text is the part that is measured."""
        return replace(config, data=tuple(data), valid=tuple(data), test=())

    @classmethod
    def resolve(cls, run: RunConfig, data: Corpus, params: int | None) -> RunConfig:
        settings = dict(run.model)
        name = settings.pop("name")
        if name in cls.combined:
            return run
        for split, tokens in (("train", data.train), ("valid", data.valid)):
            check_length(run.task, data.name, split, tokens)
        run = replace(run, data=absolute_names(run.data, sets_of(TextSet, TranslationSet)))
        if name in COUNTED:
            return run
        config = language.Config(vocab=data.tokenizer.size, model=name, **settings)
        if params is not None:
            config = language.width_for(config, params)
        if name == "transformer" and run.task.windows == "sequential" and not config.layer.get("window"):
            raise ContractError(
                "text: attention with a carried state needs a window, or its cache grows without end; "
                "set window=N, or windows=random"
            )
        return replace(run, model=describe_model(name, config, ["vocab"]))

    @classmethod
    def build_model(cls, settings: dict[str, Any], artifacts: Tokenizer, load_run: LoadRun) -> nn.Module:
        """A mixture is built from its runs."""
        settings = dict(settings)
        name = settings.pop("name", None)
        with building(name):
            if name == "ngram":
                return ngram.Config(vocab=artifacts.size, **settings).build()
            if name == "mixture":
                first, second = (load_run(path).model for path in settings["of"])
                return Mixture(first, second)
            return language.Config(vocab=artifacts.size, model=cls.check_model(name), **settings).build()

    @classmethod
    def combine(cls, model: str, runs: Sequence[LoadedRun[Corpus, Tokenizer]]) -> RunConfig:
        """A mixture reads its text as the run of a network does, where one of the two counts."""
        a, b = runs
        if tokenizers.fingerprint(a.artifacts) != tokenizers.fingerprint(b.artifacts):
            raise RunError(
                f"mixture: expected two runs with one tokenizer, found {a.path} and {b.path} with different ones"
            )
        base = a.config if b.config.model["name"] in COUNTED else b.config
        settings = {"name": model, "of": [str(run.path.resolve()) for run in runs]}
        return replace(base, model=settings, task=replace(base.task, eval_rule="stateful"))

    @classmethod
    def law_example(cls, model: nn.Module, artifacts: Tokenizer) -> tuple[nn.Module, Tensor, Memory | None]:
        return model, torch.randint(artifacts.size, (3, 12), generator=torch.Generator().manual_seed(0)), None

    @classmethod
    def decoding_laws(
        cls, definition: Any, run: LoadedRun[Corpus, Tokenizer], x: Tensor, memory: Memory | None
    ) -> dict[str, Callable[[], float]]:
        return generation_laws(definition, run.model, x, run.steps)

    @classmethod
    def state_bytes(cls, model: Any, run: RunConfig) -> int:
        return model.cost(1, run.task.context).state_bytes

    # Training

    def tokens(self, split: str) -> np.ndarray:
        found = getattr(self.data, split, None)
        if found is None:
            raise DataError(f"{self.data.name}: expected a {split} part, found none")
        return found

    def measured(self, split: str) -> np.ndarray:
        """The tokens of an evaluation."""
        found = self.tokens(split)[: self.config.eval_tokens]
        if len(found) < 2:
            raise DataError(f"{self.data.name}: expected at least 2 tokens to measure, found {len(found)}")
        return found

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        check_length(self.config, self.data.name, split, self.tokens(split))
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
            raise DataError(f"{self.data.name}: expected more than {rows:,} tokens for {rows} streams")
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

    def backward_parts(self, batch: Batch) -> list[Batch]:
        """The window, divided at the cuts of `bptt`: by the batch's number, so that a resumed run draws the same."""
        config, length = self.config, batch.x.shape[1]
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + batch.number)
        segments = bptt.plan(config.bptt, length, config.segment, config.cut, draw)
        found, at = [], 0
        for part in bptt.between_cuts(segments):
            end = at + sum(segment.steps for segment in part)
            own = batch._replace(
                x=batch.x[:, at:end],
                y=batch.y[:, at:end],
                fresh=batch.fresh and at == 0,
                scale=batch.scale * ((end - at) / length),
                segments=part,
                last=end == length,
            )
            found.append(own)
            at = end
        return found

    def loss(self, model: nn.Module, batch: Batch, carry: Any = None) -> Loss:
        """The mean over what the batch holds, by its share of the window."""
        before = None if batch.fresh else carry
        segments = batch.segments or (bptt.Segment(batch.x.shape[1], 0.0),)
        value, state = bptt.mean(model, batch.x, batch.y, before, segments, smoothing=self.config.smoothing)
        read_on = self.config.windows == "sequential" or not batch.last
        return Loss(value * batch.scale, batch.y.numel(), state if read_on else None)

    @property
    def repeats(self) -> bool:
        return self.config.bptt in ("full", "truncated") and not self.config.vary

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return tuple(batch.x.shape)

    def flops(self, model: Any, *shape: int) -> float:
        return model.cost(*shape).flops

    def solve(self, model: Any, tokens: float | None) -> Solution | None:
        """An n-gram model is counted, on at most so many tokens; the share of a mixture is fitted on validation."""
        if isinstance(model, Mixture):
            model.to(self.device)
            losses = [self.losses(part, "valid", "stateful") for part in (model.first, model.second)]
            model.share.fill_(best_share(losses[0], losses[1]))
            share = float(model.share)
            return Solution(tokens=len(losses[0]), message=f"share of the first {share:.4f}", figures={"share": share})
        if not isinstance(model, ngram.Ngram):
            return None
        read = self.tokens("train")[: None if tokens is None else int(tokens)]
        model.train_on(read)
        model.to(self.device)
        entries = model.entries()
        return Solution(
            tokens=len(read),
            message=f"{entries:,} n-grams counted",
            note={"entries": entries},
            evaluation={"rule": "stateful"},
        )

    # Measuring

    def evaluate(self, model: nn.Module, split: str, rule: Rule | None = None) -> dict[str, Any]:
        """Nats per token, perplexity and bits per byte over every token of a split but the first."""
        chosen: Rule = rule or self.config.eval_rule
        losses = self.losses(model, split, chosen)
        total, count = float(losses.sum()), losses.numel()
        nats = total / count
        text = self.data.text_bytes[split] * (count + 1) / len(self.tokens(split))
        found = {
            "nats_per_token": nats,
            "perplexity": math.exp(min(nats, 700)),
            "bits_per_byte": total / math.log(2) / text,
            "tokens": count,
            "rule": self.describe_rule(chosen, split),
            "pieces": {"nats_per_token": pieces.cut(losses)},
        }
        if chosen == "windows":
            found["by_position"] = self.by_position(losses)
        return found

    def losses(self, model: nn.Module, split: str, rule: Rule) -> Tensor:
        """The nats of every token of a split but the first, in order, float64."""
        return {"windows": self._by_windows, "stateful": self._stateful, "sliding": self._sliding}[rule](model, split)

    def describe_rule(self, rule: Rule, split: str) -> str:
        there, read = len(self.tokens(split)), len(self.measured(split))
        known = self._rules(self.config.context)[rule]
        return f"{known}, of the first {read:,} tokens" if read < there else known

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
        size = self.data.tokenizer.size
        tokens, counts = self.tokens("train"), np.ones(size)
        for first in range(0, len(tokens), PART):  # counting widens them to eight bytes each
            counts += np.bincount(np.asarray(tokens[first : first + PART]), minlength=size)
        unigram = -np.log(counts / counts.sum())[np.asarray(self.measured(split)[1:])].mean()
        return {"uniform": math.log(size), "unigram": float(unigram)}

    def figures(self, model: nn.Module, split: str, **options: Any) -> dict[str, Any]:
        """By each of `rules`; the first is the run's figure."""
        rules: Sequence[Any] = options.get("rules") or [self.config.eval_rule]
        found = {rule: self.evaluate(model, split, rule) for rule in rules}
        by_position = {rule: figures.pop("by_position", None) for rule, figures in found.items()}
        in_pieces = [figures.pop("pieces") for figures in found.values()]
        main = found[rules[0]]
        return {
            "metric": self.metric_row(main),
            "rules": found,
            "by_position": by_position[rules[0]],
            "baselines": self.baselines(split),
        } | ({"pieces": in_pieces[0]} if options.get("pieces") else {})

    @classmethod
    def evaluation_rules(cls, name: str) -> list[str]:
        rules = list(get_args(Rule))
        return rules if name == "all" else [known("rule", name, [*rules, "all"])]

    @classmethod
    def table(cls, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        rows = [
            [name, f"{r['nats_per_token']:.4f}", f"{r['perplexity']:.3f}", f"{r['bits_per_byte']:.4f}", r["rule"]]
            for name, r in found["rules"].items()
        ]
        guesses = "  ".join(f"{name} {value:.4f}" for name, value in found["baselines"].items())
        below = [f"without learning, nats/token: {guesses}"]
        return ("rule", "nats/token", "perplexity", "bits/byte", "how"), rows, below

    @classmethod
    def headline(cls, found: dict[str, Any]) -> str:
        return (
            f"validation {found['nats_per_token']:.4f} nats/token, perplexity {found['perplexity']:.3f}, "
            f"{found['bits_per_byte']:.4f} bits/byte ({found['rule']})"
        )

    # Inspection and races

    probe = staticmethod(probe.probe)

    def sample(self, run: LoadedRun[Corpus, Tokenizer]) -> dict[str, str]:
        """The beginning of validation, gone on with."""
        prompt = run.artifacts.decode(self.tokens("valid")[:PROMPT].tolist())
        config = sampling.Config(length=WRITTEN, temperature=0.8)
        return {"prompt": prompt, "text": "".join(stream.generate_text(run.model, run.artifacts, [prompt], config))}

    @torch.no_grad()
    def step_by_step(self, run: LoadedRun[Corpus, Tokenizer]) -> dict[str, Any]:
        """Nats per token when the model is shown one token at a time, as when it writes; and shown whole windows.

        The two are the same for a model that sees only the past. Without a mask the second is worth nothing.
        """
        model, context = run.model, self.config.context
        tokens = torch.from_numpy(self.measured(self.reported).astype("int64"))
        rows = tokens[: (len(tokens) - 1) // context * context + 1].unfold(0, context + 1, context)
        losses: dict[str, list[Tensor]] = {"step_by_step": [], "all_at_once": []}
        for window in rows.to(self.device).split(self.config.eval_batch):
            x, y = window[:, :-1], window[:, 1:]
            state = model.initial_state(len(x))
            for name, (logits, _) in (("step_by_step", model.unroll(x, state)), ("all_at_once", model(x, state))):
                losses[name].append(cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").double().cpu())
        every = {name: torch.cat(parts) for name, parts in losses.items()}
        found: dict[str, Any] = {name: float(each.mean()) for name, each in every.items()}
        own = {"nats_per_token": pieces.cut(every["step_by_step"])}
        return found | {"uniform": math.log(run.artifacts.size), "pieces": own}


TASKS = (TextTask,)
