"""The job of language modelling: networks that are trained, n-grams that are counted, mixtures of two runs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from ..core.contract import ContractError, Memory, check_settings
from ..data import tokenizers
from ..data.known import TextSet, TranslationSet, sets_of
from ..data.tokenizers.base import Tokenizer
from ..layers import LAYERS, known
from ..models import language, ngram
from ..models.body import kind_of
from ..tasks.text import data as corpora
from ..tasks.text import task as text
from ..tasks.text.data import Corpus
from ..tasks.text.mixture import Mixture, best_share
from . import checkpoint
from .budget import Spent
from .folder import RunError, RunFolder
from .job import Job, Run, check_names, told
from .progress import Progress, memory

COUNTED = ("ngram",)
MODELS = (*COUNTED, *language.KINDS)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the text is: files, folders or a known set's name (none: Python's own library), and how it is cut up.

    `letters` reads small letters a to z and blanks alone.
    """

    data: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    tokenizer: str = "chars"
    vocab: int | None = None
    share: float = 0.1
    letters: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        check_names(self)
        known("tokenizer", self.tokenizer, tokenizers.CHOICES)

    def load(self, data_dir: str | None = None, existing: Any = None) -> Corpus:
        return corpora.load(
            list(self.data) or None,
            tokenizer=self.tokenizer,
            vocab=self.vocab,
            valid=list(self.valid) or None,
            test=list(self.test) or None,
            share=self.share,
            letters=self.letters,
            data_dir=data_dir,
            existing=existing,
        )

    def anchored(self) -> "DataConfig":
        """The same files by their full names, so that a run can be gone on with from another folder."""

        def full(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(
                n if n in sets_of(TextSet, TranslationSet) or not Path(n).exists() else str(Path(n).absolute())
                for n in names
            )

        return replace(self, data=full(self.data), valid=full(self.valid), test=full(self.test))


class TextJob(Job[Corpus, Tokenizer]):
    """Language modelling."""

    name = "text"
    models = MODELS
    default = "transformer"
    data_config = DataConfig
    task_config = text.Config
    stacks = True
    counted = unsized = COUNTED

    def homes(self, model: str) -> dict[str, type]:
        if model in COUNTED:
            return {"model": ngram.Config}
        return {"model": language.Config, "layer": LAYERS[kind_of(model).layer]}

    def read(self, config: DataConfig, data_dir: str | None, kept: Tokenizer | None = None) -> Corpus:
        return config.load(data_dir, existing=kept)

    def keep(self, data: Corpus) -> Tokenizer:
        return data.tokenizer

    def save(self, kept: Tokenizer, folder: Path) -> None:
        tokenizers.save(kept, folder / "tokenizer.json")

    def recall(self, folder: Path) -> Tokenizer:
        path = folder / "tokenizer.json"
        if not path.exists():
            raise RunError(f"{path}: expected this file in the run folder, found none")
        return tokenizers.load(path)

    def describe(self, data: Corpus) -> dict[str, Any]:
        counts = {"vocab": data.tokenizer.size, "train": len(data.train), "valid": len(data.valid)}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | {"notes": data.notes}

    def greet(self, data: Corpus) -> str:
        return f"{len(data.train):,} training tokens of {data.name}, vocabulary {data.tokenizer.size:,}"

    def resolve(self, run: Run, data: Corpus, params: int | None) -> Run:
        for split, tokens in (("train", data.train), ("valid", data.valid)):
            text.check_length(run.task, data.name, split, tokens)
        run = replace(run, data=run.data.anchored())
        settings = dict(run.model)
        name = settings.pop("name")
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
        full = asdict(config)
        full.pop("vocab")
        full.pop("model")
        return replace(run, model={"name": name} | full)

    def build(self, settings: dict[str, Any], kept: Tokenizer, inside: tuple[Path, ...] = ()) -> nn.Module:
        return build_model(settings, kept.size, inside)

    def task(self, run: Run, data: Corpus, device: str) -> text.TextTask:
        return text.TextTask(run.task, data, device, run.train.seed)

    def figures(self, model: nn.Module, task: text.TextTask, split: str, **options: Any) -> dict[str, Any]:
        """By each of `rules`; the first is the run's figure."""
        rules: Sequence[Any] = options.get("rules") or [task.config.eval_rule]
        found = {rule: task.evaluate(model, split, rule) for rule in rules}
        by_position = {rule: figures.pop("by_position", None) for rule, figures in found.items()}
        main = found[rules[0]]
        return {
            "metric": {"name": task.metric, "value": main[task.metric], "rule": main["rule"]},
            "rules": found,
            "by_position": by_position[rules[0]],
            "baselines": task.baselines(split),
        }

    def example(self, model: nn.Module, kept: Tokenizer) -> tuple[Tensor, Memory | None]:
        return torch.randint(kept.size, (3, 12), generator=torch.Generator().manual_seed(0)), None

    def state_bytes(self, model: Any, run: Run) -> int:
        return model.cost(1, run.task.context).state_bytes

    def table(self, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        rows = [
            [name, f"{r['nats_per_token']:.4f}", f"{r['perplexity']:.3f}", f"{r['bits_per_byte']:.4f}", r["rule"]]
            for name, r in found["rules"].items()
        ]
        guesses = "  ".join(f"{name} {value:.4f}" for name, value in found["baselines"].items())
        below = [f"without learning, nats/token: {guesses}"]
        return ("rule", "nats/token", "perplexity", "bits/byte", "how"), rows, below

    def headline(self, found: dict[str, Any]) -> str:
        return (
            f"validation {found['nats_per_token']:.4f} nats/token, perplexity {found['perplexity']:.3f}, "
            f"{found['bits_per_byte']:.4f} bits/byte ({found['rule']})"
        )

    def rules(self, name: str) -> list[str]:
        rules = list(get_args(text.Rule))
        return rules if name == "all" else [known("rule", name, [*rules, "all"])]

    def elsewhere(self, config: DataConfig, data: Sequence[str], kept: Tokenizer) -> DataConfig:
        """All of another text is the part that is measured."""
        return replace(config, data=tuple(data), valid=tuple(data), test=())

    def fill(self, model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
        if not isinstance(model, Mixture):
            return super().fill(model, tensors, path)
        share = tensors.get("share", torch.tensor([]))
        if share.numel() != 1 or not 0 < float(share) < 1:
            raise checkpoint.CheckpointError(f"{path}: expected the share of a mixture, found {share.tolist()}")
        model.share.fill_(float(share))
        return None

    def fit(
        self, task: Any, model: nn.Module, run: Run, folder: RunFolder, device: str, progress: Progress, again: bool
    ) -> dict[str, Any]:
        if isinstance(model, Mixture):
            raise RunError(
                f"{folder.path}: expected a run that can go on, found a mixture, which is fitted at once; make another "
                "one with --model mixture"
            )
        if not isinstance(model, ngram.Ngram):
            return super().fit(task, model, run, folder, device, progress, again)
        folder.cut_metrics(0)
        return count(model, task, folder, progress, run.train.tokens)


JOB = TextJob()


def build_model(settings: dict[str, Any], vocab: int, inside: tuple[Path, ...] = ()) -> nn.Module:
    """The model that config.json names. A mixture is built from its runs; `inside` are those that it is part of."""
    settings = dict(settings)
    name = settings.pop("name", None)
    try:
        if name == "ngram":
            return ngram.Config(vocab=vocab, **settings).build()
        if name == "mixture":
            first, second = (JOB.load(path, inside=inside).model for path in settings["of"])
            return Mixture(first, second)
        return language.Config(vocab=vocab, model=JOB.takes(name), **settings).build()
    except (KeyError, TypeError, AttributeError, RuntimeError, MemoryError, OverflowError) as error:
        raise told(name, error) from error


def count(
    model: ngram.Ngram, task: text.TextTask, folder: RunFolder, progress: Progress, budget: float | None = None
) -> dict[str, Any]:
    """An n-gram model is counted, not trained, and then is a run like any other. A budget in tokens cuts its text."""
    spent = Spent()
    read = task.tokens("train")[: None if budget is None else int(budget)]
    model.train_on(read)
    model.to(task.device)
    took = spent.at_once(len(read))
    found = task.evaluate(model, "valid", "stateful")
    checkpoint.write_tensors(folder.model_path, checkpoint.weights(model), {"entries": model.entries()})
    folder.log(took | {"valid": found[task.metric], "memory": memory(task.device)})
    progress.say(f"{model.entries():,} n-grams counted")
    return found


def mix(first: str, second: str, out: str, *, device: str = "cpu", data_dir: str | None = None) -> dict[str, Any]:
    """A mixture of two trained runs: one weight, fitted on validation."""
    a, b = JOB.load(first, device), JOB.load(second, device)
    if tokenizers.fingerprint(a.kept) != tokenizers.fingerprint(b.kept):
        raise RunError(f"mixture: expected two runs with one tokenizer, found {first} and {second} with different ones")
    run = a.run if b.run.model["name"] in COUNTED else b.run
    corpus = run.data.load(data_dir, existing=a.kept)
    task = text.TextTask(replace(run.task, eval_rule="stateful"), corpus, device)
    losses = [task.losses(used.model, "valid", "stateful") for used in (a, b)]
    share = best_share(losses[0], losses[1])
    model = Mixture(a.model, b.model, share)
    settings = {"name": "mixture", "of": [str(Path(first).resolve()), str(Path(second).resolve())]}
    mixed = replace(run, model=settings, task=task.config)
    folder = RunFolder.create(out, JOB.to_json(mixed) | {"corpus": JOB.describe(corpus)})
    JOB.save(corpus.tokenizer, folder.path)
    checkpoint.write_tensors(folder.model_path, {"share": model.share}, {})
    return task.evaluate(model, "valid") | {"share": float(model.share)}
