"""Transcribe: write the characters that are said in a recording.

CTC says at every step which character is heard there, or none; the decoders of translation write the text character
by character and look at the sound as they do. The figures, by these rules:

    error      insertions, deletions and substitutions (Levenshtein) over the characters of the references, all rows
    accuracy   the share of recordings whose text has no mistake
    nats       −log p(text) over its characters (of decoders its end counts as one): by CTC the sum over all paths
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ...core import laws, pieces
from ...core.artifacts import artifact_path
from ...core.contract import ContractError, Memory
from ...core.summary import DataSummary
from ...core.task import LoadedRun, LoadRun, Loss, RunConfig, RunError, building, describe_model
from ...data.files import DataError, absolute_name
from ...data.tokenizers.sentences import SentenceTokenizer
from ...decode.beam import Config as Search
from ...layers import own_layers
from ...models import ctc, listen, seq2seq
from ..decoding import SAMPLES, DecodingTask, greedy_settings, logits_of, search_settings, token_losses
from . import data, errors, model, probe
from .batches import Batch, make_batch
from .export import TranscribeExports
from .laws import text_of_chunks
from .model import CTC
from .parts import Part, Plan
from .settings import TONES, Config, DataConfig
from .sources import SETS
from .transcribed import Artifacts, Transcribed, load_artifacts, save_artifacts, summarize
from .use import find_texts

FILE = "characters.json"
CANDIDATES = 50  # of the commonest training texts, tried as the one text for all recordings


class TranscribeTask(DecodingTask[Transcribed, Artifacts]):
    """Recordings to transcribe."""

    name = "transcribe"
    models = model.MODELS
    default = CTC
    data_config = DataConfig
    task_config = Config
    exports = TranscribeExports()
    model_config = listen.Config
    in_nats = False
    baseline_metric = None
    usual: ClassVar[Mapping[str, str]] = {
        "lr": "3e-3",
        "weight_decay": "0.01",
        "steps": "1500",
        "width": "96",
    }
    request_options: ClassVar[Sequence[str]] = ("sound",)
    refused: ClassVar[Mapping[str, str]] = {
        "bidirectional": "expected both_ways=true, by which sound is read from both ends, found bidirectional"
    }

    def __init__(self, config: Config, data: Transcribed, device: torch.device | str = "cpu", seed: int = 0) -> None:
        super().__init__(config, data, device, seed)
        self.metric = config.choose

    # Data and models

    @classmethod
    def check_model(cls, model: str) -> str:
        return CTC if model.lower() == CTC else super().check_model(model)

    @classmethod
    def model_settings(cls, model: str) -> dict[str, Any]:
        if model == CTC:
            return {"model": ctc.Config}
        return super().model_settings(model)

    @classmethod
    def unused_settings(cls, model: str) -> Sequence[str]:
        return ("cell", "layer") if model == CTC else super().unused_settings(model)

    @classmethod
    def load_data(cls, config: DataConfig, data_dir: str | None, artifacts: Artifacts | None = None) -> Transcribed:
        return data.load(config, data_dir=data_dir, artifacts=artifacts)

    @classmethod
    def generated_rows(cls, config: DataConfig) -> int | None:
        return config.letters * config.takes if not config.data or config.data[0] == TONES else None

    @classmethod
    def artifacts_of(cls, data: Transcribed) -> Artifacts:
        return data.artifacts

    @classmethod
    def save_artifacts(cls, artifacts: Artifacts, folder: Path) -> None:
        save_artifacts(artifacts, folder / FILE)

    @classmethod
    def load_artifacts(cls, folder: Path) -> Artifacts:
        return load_artifacts(artifact_path(folder, FILE))

    @classmethod
    def describe_data(cls, data: Transcribed) -> dict[str, Any]:
        counts = {split: len(part.recordings) for split, part in data.parts().items()} | {"join": data.join}
        about = {"characters": data.artifacts.tokenizer.tokenizer.size}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | about | {"notes": data.notes}

    @classmethod
    def summarize_data(cls, data: Transcribed) -> str:
        characters, name = data.artifacts.tokenizer.tokenizer.size - 1, data.name
        if data.join > 1:
            count = len(data.train.recordings)
            return f"{count:,} recordings of {name}, joined to strings of 1 to {data.join}, {characters} characters"
        return f"{len(data.train.recordings):,} recordings of {name}, {characters} characters"

    @classmethod
    def data_summary(cls, data: Transcribed) -> DataSummary:
        return summarize(data)

    @classmethod
    def other_data(cls, config: DataConfig, data: Sequence[str], artifacts: Artifacts) -> DataConfig:
        """All of another folder is the part that is measured; sets that have parts keep them."""
        return replace(config, data=tuple(data), join=None, speaker=None, whole=data[0] not in (TONES, *SETS))

    @classmethod
    def model_sizes(cls, artifacts: Artifacts) -> dict[str, int]:
        return model.sizes_of("", artifacts)

    @classmethod
    def target_tokenizer(cls, artifacts: Artifacts) -> SentenceTokenizer:
        return artifacts.tokenizer

    @classmethod
    def resolve(cls, run: RunConfig, data: Transcribed, params: int | None) -> RunConfig:
        folders = tuple(absolute_name(name, (TONES, *SETS)) for name in run.data.data)
        task = cls(run.task, data)
        return replace(
            run,
            data=replace(run.data, data=folders, join=data.join),
            task=replace(run.task, steps_each=task.median_steps()),
            model=cls.resolve_model(run.model, data.artifacts, params),
        )

    @classmethod
    def resolve_model(cls, settings: dict[str, Any], artifacts: Artifacts, params: int | None) -> dict[str, Any]:
        name = str(settings["name"])
        config = model.configure(settings, artifacts)
        if name == CTC:
            config = config if params is None else config.fitted(params)
        else:
            config = config.resolved()
            config = config if params is None else config.sized(params)
        return describe_model(name, config, list(model.sizes_of(name, artifacts)))

    @classmethod
    def build_model(cls, settings: dict[str, Any], artifacts: Artifacts, load_run: LoadRun) -> nn.Module:
        name = settings.get("name")
        if name not in cls.models and name not in own_layers():
            raise ContractError(f"model: expected one of {', '.join(cls.models)}, found {name!r}")
        with building(name):
            return model.configure(settings, artifacts).build()

    @classmethod
    def layer_of(cls, model: str) -> str:
        return "gru" if model == CTC else seq2seq.kind_of(model).layer

    @classmethod
    def law_example(cls, model: Any, artifacts: Artifacts) -> tuple[nn.Module, Tensor, Memory | None]:
        if isinstance(model, ctc.BothWays):
            raise RunError(
                "expected a model that goes step by step, found both_ways=true, which reads whole recordings and has "
                "no state; train one without"
            )
        frames = example_frames(artifacts, model.like().dtype)
        if not isinstance(model, seq2seq.Decoder):
            return model, frames, None
        with torch.no_grad():
            memory = model.encode(frames[:, :7], torch.tensor([7, 3, 5]))  # type: ignore[operator]
        draw = torch.Generator().manual_seed(0)
        return model, torch.randint(artifacts.tokenizer.size, (3, 12), generator=draw), memory

    @classmethod
    def list_laws(cls, definition: Any, run: LoadedRun[Transcribed, Artifacts]) -> Mapping[str, Any]:
        if isinstance(definition, ctc.BothWays):
            frames = example_frames(run.artifacts, torch.float64)
            reason = "both_ways=true reads whole recordings from both ends; it has no state"
            steps = frames.shape[1]
            return laws.list_row_laws(definition, frames, reason) | {
                "row": lambda: laws.encoder_row(definition, frames, [steps] * 3),
                "ragged": lambda: laws.encoder_row(definition, frames, [steps, steps - 2, steps - 4]),
            }
        return super().list_laws(definition, run)

    @classmethod
    def decoding_laws(
        cls, definition: Any, run: LoadedRun[Transcribed, Artifacts], x: Tensor, memory: Memory | None
    ) -> dict[str, Callable[[], float]]:
        if memory is None:
            return {"text of chunks": lambda: text_of_chunks(definition, x, run.artifacts.banned)}
        return super().decoding_laws(definition, run, x, memory)

    @classmethod
    def state_bytes(cls, model: Any, run: RunConfig) -> int:
        if isinstance(model, seq2seq.Decoder):
            return model.cost(1, 20, run.task.steps_each or 20).state_bytes
        return model.cost(1, run.task.steps_each or 20).state_bytes

    # Training

    def part(self, split: str) -> Part:
        found = self.data.parts().get(split)
        if found is None:
            raise DataError(f"{self.data.name}: expected a {split} part, found none")
        return found

    def median_steps(self) -> int:
        """The steps of a training row."""
        part = self.part("train")
        plan = part.draw(np.random.default_rng(0), 200) if part.plan is None else part.plan
        return max(1, self.data.artifacts.count(int(np.median(part.length_of(plan)))))

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        """Rows of similar length together, in an order that the seed decides; joined strings are new ones each time."""
        part, number, group = self.part(split), start, -1
        plan, rows = Plan(*[np.zeros(0, np.int64)] * 4), []
        while True:
            each = min(self.config.batch, len(part))
            count = self.config.bucket if part.drawn else len(part) // each
            if number // count != group:
                group = number // count
                plan, rows = self.plan(part, np.random.default_rng([seed, group]), each, count)
            draw = np.random.default_rng([seed, number, 1])
            yield self.batch(part, plan, rows[number % count], number, draw if split == "train" else None)
            number += 1

    def plan(self, part: Part, draw: np.random.Generator, each: int, count: int) -> tuple[Plan, list[np.ndarray]]:
        """Strings and which of them go into each of `count` batches: a group, or an epoch of a fixed plan."""
        plan = part.draw(draw, each * count) if part.plan is None else part.plan
        sizes = part.length_of(plan)
        order = draw.permutation(len(plan))[: each * count]
        bucket = np.arange(len(order)) // (each * self.config.bucket)
        order = order[np.lexsort((sizes[order], bucket))]
        return plan, list(draw.permutation(order.reshape(-1, each)))

    def batch(
        self, part: Part, plan: Plan, rows: Sequence[int] | np.ndarray, number: int = 0, draw: Any = None
    ) -> Batch:
        """Rows of a plan; with `draw` their sound is altered as training does."""
        return make_batch(self.data.artifacts, self.config, part, plan, rows, number, draw).to(self.device)

    def loss(self, model: Any, batch: Batch, carry: Any = None) -> Loss:
        found = self.losses(model, batch, self.config.smoothing)
        possible = found.isfinite()  # altered sound may have fewer steps than its text needs
        count = self.counts(model, batch)
        terms = count.where(possible, 0).sum()
        return Loss(found.where(possible, 0).sum() / terms.clamp(min=1), batch.tokens, terms=terms)

    def losses(self, model: Any, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """−log p of the text of each row in nats: B."""
        if isinstance(model, seq2seq.Decoder):
            memory = model.encode(batch.frames, batch.lengths)  # type: ignore[operator]
            logits = logits_of(model, batch.x, memory)
            return token_losses(logits, batch.y, self.data.artifacts.tokenizer.pad, smoothing).sum(dim=1)
        logp = ctc.log_probabilities(model, batch.frames, batch.lengths)
        return ctc.text_losses(logp, batch.lengths, batch.y, batch.sizes)

    def counts(self, model: Any, batch: Batch) -> Tensor:
        """The characters of each row, with the end that a decoder writes: B."""
        return batch.sizes + int(isinstance(model, seq2seq.Decoder))

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return (*batch.x.shape, batch.frames.shape[1])

    def reading_shape(self, model: Any, batch: Batch) -> tuple[int, int]:
        rows, steps, source = self.shape(batch)
        return (rows, steps) if isinstance(model, seq2seq.Decoder) else (rows, source)

    def flops(self, model: Any, *shape: int) -> float:
        rows, steps, source = shape
        if isinstance(model, seq2seq.Decoder):
            return model.cost(rows, steps, source).flops + model.encoder_flops(rows, source)  # type: ignore[operator]
        return model.cost(rows, source).flops

    # Measuring

    def fixed(self, split: str) -> tuple[Part, Plan]:
        """The strings that a split is measured on: of those drawn in training some that always are the same."""
        part = self.part(split)
        plan = part.draw(np.random.default_rng(0), self.config.eval_rows or 200) if part.plan is None else part.plan
        return part, plan

    def measured(self, split: str, count: int | None = None, longer: bool = False) -> tuple[Part, Plan, np.ndarray]:
        """The rows that are measured: the first `count`, those longer than any trained on apart."""
        part, plan = self.fixed(split)
        rows = np.arange(len(plan))
        if not longer and part.longer is not None:
            rows = rows[~part.longer]
        return part, plan, rows[:count]

    def batches_of(self, part: Part, plan: Plan, rows: np.ndarray) -> Iterator[tuple[np.ndarray, Batch]]:
        """The rows in batches of similar length, with their places among the rows."""
        order = np.argsort(-part.length_of(plan)[rows], kind="stable")
        for start in range(0, len(order), self.config.batch):
            places = order[start : start + self.config.batch]
            yield places, self.batch(part, plan, rows[places])

    @torch.no_grad()
    def texts(self, model: Any, split: str, search: Search, count: int | None = None, longer: bool = False) -> Any:
        """What the model writes, what was said, how many recordings that is, and whether training has such lengths."""
        part, plan, rows = self.measured(split, count, longer)
        artifacts, found = self.data.artifacts, [""] * len(rows)
        for places, batch in self.batches_of(part, plan, rows):
            lists = find_texts(model, artifacts, batch.frames, batch.lengths, search)
            for place, texts in zip(places, lists, strict=True):
                found[place] = artifacts.tokenizer.decode(texts[0].tokens) if texts else ""
        wanted = [artifacts.tokenizer.prepared(part.text_of(plan, int(row))) for row in rows]
        more = np.zeros(len(rows), bool) if part.longer is None else part.longer[rows]
        return found, wanted, plan.sizes()[rows], more

    @torch.no_grad()
    def forced(self, model: Any, split: str, count: int | None = None) -> dict[str, Any]:
        """Nats per character of the texts that were said; texts that no path of CTC can have are counted apart."""
        part, plan, rows = self.measured(split, count)
        total, characters, impossible = 0.0, 0, 0
        for _, batch in self.batches_of(part, plan, rows):
            losses = self.losses(model, batch).double()
            possible = losses.isfinite()
            total += float(losses[possible].sum())
            characters += int(self.counts(model, batch)[possible].sum())
            impossible += int((~possible).sum())
        nats = total / max(characters, 1)
        return {"nats": nats, "characters": characters, "impossible": impossible}

    def evaluate(self, model: Any, split: str) -> dict[str, Any]:
        """Character errors of greedy texts, and nats per character, of the first rows of a split."""
        found, wanted, _, _ = self.texts(model, split, greedy_settings(self.config), self.config.eval_rows)
        scores, forced = errors.score(found, wanted), self.forced(model, split, self.config.eval_rows)
        return {
            "error": scores["error"],
            "accuracy": scores["accuracy"],
            "nats": forced["nats"],
            "rows": len(found),
            "rule": f"{errors.RULE}; greedy texts of {len(found):,} recordings",
        }

    def baselines(self, split: str) -> dict[str, float]:
        """An empty text for every recording, and one text for all: the common training text that is best there."""
        if self.metric == "nats":
            return {"uniform": math.log(self.data.artifacts.labels - 1)}
        return {"empty": 1.0, "one for all": self.constant(split)["error"]}

    def constant(self, split: str) -> dict[str, Any]:
        part, plan, rows = self.measured(split, None)
        train, draws = self.fixed("train")
        prepare = self.data.artifacts.tokenizer.prepared
        common = Counter(prepare(train.text_of(draws, row)) for row in range(min(len(draws), 1_000)))
        ranked = sorted(common, key=lambda text: (-common[text], text))[:CANDIDATES]
        judges = [prepare(train.text_of(draws, row)) for row in range(min(len(draws), 100))]
        best = min(ranked, key=lambda text: errors.score([text] * len(judges), judges)["error"])
        wanted = [prepare(part.text_of(plan, int(row))) for row in rows]
        scores = errors.score([best] * len(wanted), wanted)
        return {"text": best, "error": scores["error"], "accuracy": scores["accuracy"]}

    def figures(self, model: nn.Module, split: str, **options: Any) -> dict[str, Any]:
        """Character errors by beam search, of strings as long as in training and by length, and the loss."""
        search = search_settings(self.config, **options.get("search", {}))
        started = time.perf_counter()
        found, wanted, sizes, longer = self.texts(model, split, search, longer=True)
        seconds = time.perf_counter() - started
        usual = [place for place in range(len(found)) if not longer[place]]
        scores = errors.score([found[n] for n in usual], [wanted[n] for n in usual])
        joined = self.data.join > 1
        lengths = sizes.tolist() if joined else [len(text) for text in wanted]
        forced = self.forced(model, split)
        what = f"strings of 1 to {self.data.join} recordings" if joined else "recordings"
        rule = f"{errors.RULE}; beam {search.beam}, {len(usual):,} {what}, {scores['characters']:,} characters"
        right = np.array([found[n] == wanted[n] for n in usual])
        return {
            "metric": {"name": "error", "value": scores["error"], "rule": rule},
            "transcribed": {
                "error": scores["error"],
                "accuracy": scores["accuracy"],
                "rows": len(usual),
                "by_length": errors.by_length(found, wanted, lengths, longer.tolist(), exact=joined),
                "seconds": seconds,
            },
            "forced": forced,
            "constant": self.constant(split),
            "baselines": self.baselines(split),
        } | ({"pieces": {"accuracy": pieces.cut(right)}} if options.get("pieces") else {})

    def metric_row(self, found: Mapping[str, Any]) -> dict[str, Any]:
        return {"name": "error", "value": found["error"], "rule": found["rule"]}

    @classmethod
    def table(cls, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        scores, constant = found["transcribed"], found["constant"]
        columns = ("texts", "character errors", "without a mistake", "nats/character", "recordings")
        nats = f"{found['forced']['nats']:.4f}"
        rows = [
            ["of the model", percent(scores["error"]), percent(scores["accuracy"]), nats, f"{scores['rows']:,}"],
            ["one for all", percent(constant["error"]), percent(constant["accuracy"]), "", f"{scores['rows']:,}"],
        ]
        below = [f"error: {found['metric']['rule']}", f"one for all: {constant['text']!r}"]
        lengths = "  ".join(
            f"{span(entry)}{'' if entry['trained'] else ' (longer than trained on)'}: {percent(entry['error'])}"
            for entry in scores["by_length"]
        )
        below.append(f"error by length: {lengths}")
        if count := found["forced"]["impossible"]:
            below.append(f"{count:,} texts have more characters than their recordings have steps; no path of CTC can")
        return columns, rows, below

    @classmethod
    def headline(cls, found: dict[str, Any]) -> str:
        return (
            f"validation error {percent(found['error'])} of the characters, {percent(found['accuracy'])} of the texts "
            f"without a mistake, {found['nats']:.4f} nats/character"
        )

    # Inspection and races

    probe = staticmethod(probe.probe)

    def sample(self, run: LoadedRun[Transcribed, Artifacts]) -> list[dict[str, Any]]:
        """The first recordings of validation by number, each with what was said and the model's own text."""
        found, wanted, _, _ = self.texts(run.model, "valid", greedy_settings(self.config), SAMPLES)
        return [
            {"source": f"recording {number + 1}", "reference": said, "output": text, "right": text == said}
            for number, (text, said) in enumerate(zip(found, wanted, strict=True))
        ]

    def declared_cost(self, run: LoadedRun[Transcribed, Artifacts], length: int) -> tuple[float, float]:
        """Of a sound of that many steps; a decoder's text is taken to be as long."""
        if isinstance(run.model, seq2seq.Decoder):
            own = run.model.cost(1, length, length)
            return own.flops + run.model.encoder_flops(1, length), own.state_bytes  # type: ignore[operator]
        own = run.model.cost(1, length)
        return own.flops, own.state_bytes


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def span(entry: Mapping[str, Any]) -> str:
    """`5`, or `11–20`."""
    low, high = entry["above"] + 1, entry["upto"]
    return f"{high}" if low == high else f"{low}–{high}"


def example_frames(artifacts: Artifacts, dtype: torch.dtype) -> Tensor:
    """Random steps of sound for the laws."""
    draw = torch.Generator().manual_seed(0)
    return torch.randn(3, 12, artifacts.inputs, generator=draw, dtype=dtype)


TASKS = (TranscribeTask,)
