"""The job of translation: two parallel texts in, a model that translates lines out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from glob import escape
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..core.contract import ContractError, Memory, check_settings
from ..data import tokenizers
from ..data.known import TextSet, TranslationSet, sets_of
from ..data.tokenizers.sentences import SentenceTokenizer, load_pair, save_pair
from ..layers import known
from ..models import seq2seq
from ..tasks.translation import data as parallel
from ..tasks.translation import numbers
from ..tasks.translation import task as translation
from ..tasks.translation.data import LONGEST, SHARE, Parallel
from .folder import RunError
from .job import Job, Run, check_names, told

MODELS = ("fixed", "context", "attend", "conv", "transformer")
Sides = tuple[SentenceTokenizer, SentenceTokenizer]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the pairs are (none: numbers in words), and how they are cut up; see `data.parallel.load`.

    `columns` are those of a table that hold the source and the target, counted from 1.
    `joint` makes one vocabulary for both languages; `lower` and `moses` prepare the text before it is tokenised.
    `held_out` is the share of sentences for validation, and as much for the test, where the data has none.
    """

    data: tuple[str, ...] = ()
    pair: str | None = None
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    columns: tuple[int, ...] = (1, 2)
    tokenizer: str = "bpe"
    vocab: int | None = None
    joint: bool = False
    lower: bool = False
    moses: bool = False
    longest: int = LONGEST
    held_out: float = SHARE
    chain: int | None = None
    count: int = numbers.COUNT
    highest: int = numbers.HIGHEST

    def __post_init__(self) -> None:
        check_settings(self)
        check_names(self)
        known("tokenizer", self.tokenizer, tokenizers.CHOICES)
        if len(self.columns) != 2 or not all(type(column) is int and column > 0 for column in self.columns):
            raise ContractError(f"data: expected two columns counted from 1, such as 1,3, found {self.columns}")


class TranslationJob(Job[Parallel, Sides]):
    """Sequence to sequence on pairs of sentences."""

    name = "translation"
    models = MODELS
    default = "attend"
    data_config = DataConfig
    task_config = translation.Config
    usual: ClassVar[Mapping[str, str]] = {
        "lr": "2e-3",
        "weight_decay": "0.01",
        "steps": "600",
        "batch": "2048",
        "width": "128",
    }

    def homes(self, model: str) -> dict[str, type]:
        return {"model": seq2seq.Config}

    def idle(self, model: str) -> Sequence[str]:
        return () if model in seq2seq.RECURRENT else ("cell",)

    def read(self, config: DataConfig, data_dir: str | None, kept: Sides | None = None) -> Parallel:
        given = asdict(config)
        places = {name: list(given.pop(name)) or None for name in ("data", "valid", "test")}
        given["share"] = given.pop("held_out")  # a model's `share` says which tables are one
        return parallel.load(places.pop("data"), **places, **given, data_dir=data_dir, existing=kept)

    def keep(self, data: Parallel) -> Sides:
        return data.source, data.target

    def save(self, kept: Sides, folder: Path) -> None:
        save_pair(folder / "tokenizer.json", *kept)

    def recall(self, folder: Path) -> Sides:
        path = folder / "tokenizer.json"
        if not path.exists():
            raise RunError(f"{path}: expected this file in the run folder, found none")
        return load_pair(path)

    def describe(self, data: Parallel) -> dict[str, Any]:
        counts = {"train": len(data.train), "valid": len(data.valid), "test": len(data.test) if data.test else 0}
        sizes = {"source": data.source.size, "target": data.target.size}
        pair = f"{data.source_language}-{data.target_language}"
        return (
            {"name": data.name, "fingerprint": data.fingerprint, "pair": pair} | counts | sizes | {"notes": data.notes}
        )

    def greet(self, data: Parallel) -> str:
        return (
            f"{len(data.train):,} pairs of {data.name}, {data.source_language} to {data.target_language}, "
            f"vocabularies {data.source.size:,} and {data.target.size:,}"
        )

    def resolve(self, run: Run, data: Parallel, params: int | None) -> Run:
        settings = dict(run.model)
        name = settings.pop("name")
        config = seq2seq.Config(source=data.source.size, target=data.target.size, model=name, **settings).resolved()
        if params is not None:
            config = config.sized(params)
        full = {key: value for key, value in asdict(config).items() if key not in ("source", "target", "model")}
        pair = f"{data.source_language}-{data.target_language}"
        anchored = {name: tuple(map(anchor, getattr(run.data, name))) for name in ("data", "valid", "test")}
        return replace(run, data=replace(run.data, pair=pair, **anchored), model={"name": name} | full)

    def build(self, settings: dict[str, Any], kept: Sides, inside: tuple[Path, ...] = ()) -> nn.Module:
        settings = dict(settings)
        name = settings.pop("name", None)
        if name not in MODELS:
            raise ContractError(f"model: expected one of {', '.join(MODELS)}, found {name!r}")
        try:
            return seq2seq.Config(source=kept[0].size, target=kept[1].size, model=name, **settings).build()
        except (KeyError, TypeError, AttributeError, RuntimeError, MemoryError, OverflowError) as error:
            raise told(name, error) from error

    def task(self, run: Run, data: Parallel, device: str) -> translation.TranslationTask:
        return translation.TranslationTask(run.task, data, device, run.train.seed)

    def figures(
        self, model: nn.Module, task: translation.TranslationTask, split: str, **options: Any
    ) -> dict[str, Any]:
        """BLEU by beam search, the loss on references, and how far the model's own text leads it away."""
        search = task.config.search(**options.get("search", {}))
        forced = task.forced(model, split)
        found = task.translated(model, split, search)
        how = "tokenised and lowercased" if task.data.target.preparation.moses else "lowercased"
        rule = f"{how}, {found['search']}, {found['sentences']:,} sentences; {found['bleu_signature']}"
        return {
            "metric": {"name": "bleu", "value": found["bleu"], "rule": rule},
            "translated": found,
            "forced": forced,
            "exposure": task.free_running(model, split),
            "baselines": task.baselines(split),
        }

    def example(self, model: Any, kept: Sides) -> tuple[Tensor, Memory | None]:
        source, target = kept
        draw = torch.Generator().manual_seed(0)
        with torch.no_grad():
            memory = model.encode(torch.randint(source.size, (3, 7), generator=draw), torch.tensor([7, 3, 5]))
        return torch.randint(target.size, (3, 12), generator=draw), memory

    def state_bytes(self, model: Any, run: Run) -> int:
        return model.cost(1, 20, 20).state_bytes

    def table(self, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
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

    def headline(self, found: dict[str, Any]) -> str:
        scored = f", BLEU {found['bleu']:.2f} (greedy)" if "bleu" in found else ""
        return f"validation {found['nats_per_token']:.4f} nats/token, perplexity {found['perplexity']:.3f}{scored}"

    def elsewhere(self, config: DataConfig, data: Sequence[str], kept: Sides) -> DataConfig:
        """All of the other pairs are the part that is measured."""
        return replace(config, data=tuple(data), valid=tuple(data), test=tuple(data))


JOB = TranslationJob()


def anchor(name: str) -> str:
    """A file, folder or prefix by its full name, so that a run can be gone on with from another folder."""
    if name in sets_of(TextSet, TranslationSet):
        return name
    path = Path(name)
    there = path.exists() or any(path.parent.glob(f"{escape(path.name)}.*"))
    return str(path.absolute()) if there else name
