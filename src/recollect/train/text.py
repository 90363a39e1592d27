"""Text runs: from settings to a trained run folder, and back from a folder to a model that can be used."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..config import distribute
from ..core import laws
from ..core import state as states
from ..core.contract import ContractError
from ..data import corpus as corpora
from ..data import tokenize
from ..data.corpus import Corpus
from ..decode import sample
from ..layers import LAYERS, known
from ..models import language, ngram
from ..models.mixture import Mixture, best_share
from ..tasks import text
from . import checkpoint
from .folder import RunError, RunFolder
from .loop import Trainer
from .progress import Progress
from .settings import Settings

COUNTED = ("ngram",)
MODELS = (*COUNTED, *language.KINDS)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the text is: files, folders or a known set's name (none: Python's own library), and how it is cut up."""

    data: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    tokenizer: str = "chars"
    vocab: int | None = None
    share: float = 0.1

    def load(self, data_dir: str | None = None, existing: Any = None) -> Corpus:
        return corpora.load(
            list(self.data) or None,
            tokenizer=self.tokenizer,
            vocab=self.vocab,
            valid=list(self.valid) or None,
            test=list(self.test) or None,
            share=self.share,
            data_dir=data_dir,
            existing=existing,
        )


@dataclass(frozen=True, kw_only=True)
class TextRun:
    """Everything that a text run is made from: the resolved config.json."""

    data: DataConfig
    task: text.Config
    model: dict[str, Any]  # {"name": …} and the settings of that model
    train: Settings

    def to_json(self) -> dict[str, Any]:
        return {"task": "text"} | {
            "data": asdict(self.data),
            "text": asdict(self.task),
            "model": self.model,
            "train": asdict(self.train),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any], path: Path) -> "TextRun":
        try:
            data: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in content["data"].items()}
            return cls(
                data=DataConfig(**data),
                task=text.Config(**content["text"]),
                model=dict(content["model"]),
                train=Settings(**content["train"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{path}: expected the config of a text run, found something else ({error})") from error


def configure(
    texts: dict[str, str], *, model: str, data: Sequence[str], valid: Sequence[str], tokenizer: str
) -> TextRun:
    """A run from settings as they come from flags; each finds its own home, and misspelt ones a suggestion."""
    known("model", model, MODELS)
    known("tokenizer", tokenizer, tokenize.CHOICES)
    homes: dict[str, type] = {"train": Settings, "text": text.Config, "data": DataConfig}
    if model in COUNTED:
        homes |= {"model": ngram.Config}
    else:
        homes |= {"model": language.Config, "layer": LAYERS[language.KINDS[model].layer]}
    parts = distribute(texts, homes)
    settings = {"name": model} | parts["model"]
    if parts.get("layer"):
        settings["layer"] = parts["layer"]
    return TextRun(
        data=DataConfig(data=tuple(data), valid=tuple(valid), tokenizer=tokenizer, **parts["data"]),
        task=text.Config(**parts["text"]),
        model=settings,
        train=Settings(**parts["train"]),
    )


def build_model(settings: dict[str, Any], vocab: int, folder: Path | None = None) -> nn.Module:
    """The model that config.json names. A mixture is built from the runs that its folder holds."""
    settings = dict(settings)
    name = settings.pop("name", None)
    if name == "ngram":
        return ngram.Config(vocab=vocab, **settings).build()
    if name == "mixture":
        parts = [load(Path(path)) for path in settings["of"]]
        return Mixture(parts[0].model, parts[1].model)
    if name not in language.KINDS:
        raise ContractError(f"model: expected one of {', '.join([*MODELS, 'mixture'])}, found {name!r}")
    return language.Config(vocab=vocab, model=name, **settings).build()


def train(
    run: TextRun,
    out: str,
    *,
    device: str = "cpu",
    data_dir: str | None = None,
    params: int | None = None,
    init: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train a new run into the folder `out`. Returns its evaluation."""
    progress = progress or Progress(quiet=True)
    corpus = run.data.load(data_dir)
    for note in corpus.notes:
        progress.say(f"note: {note}")
    run = _resolve(run, corpus, params)
    torch.manual_seed(run.train.seed)
    model = build_model(run.model, corpus.tokenizer.size)
    task = text.TextTask(run.task, corpus, device, run.train.seed)
    if init is not None:
        tensors, _ = checkpoint.read_tensors(RunFolder.open(init).model_path)
        checkpoint.load_weights(model, tensors, RunFolder.open(init).model_path)
    folder = RunFolder.create(out, run.to_json() | {"corpus": describe(corpus)})
    tokenize.save(corpus.tokenizer, folder.path / "tokenizer.json")
    size = language.parameters(model)
    progress.say(
        f"{run.model['name']}  {size:,} parameters  {len(corpus.train):,} training tokens of {corpus.name}, "
        f"vocabulary {corpus.tokenizer.size:,}  on {device}"
    )
    if isinstance(model, ngram.Ngram):
        return count(model, task, folder, progress)
    trainer = Trainer(task, model, run.train, folder, torch.device(device), progress)
    return trainer.run()


def resume(
    out: str,
    *,
    device: str = "cpu",
    data_dir: str | None = None,
    longer: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Go on with a stopped run where its last checkpoint stands."""
    folder = RunFolder.open(out)
    content = folder.config()
    run = TextRun.from_json(content, folder.config_path)
    if longer is not None:
        run = replace(run, train=replace(run.train, steps=longer))
        folder.write_json("config.json", content | run.to_json())
    tokenizer = tokenize.load(folder.path / "tokenizer.json")
    corpus = run.data.load(data_dir, existing=tokenizer)
    if corpus.fingerprint != content["corpus"]["fingerprint"]:
        raise RunError(f"{out}: expected the text that the run began with, found another; start a new run")
    model = build_model(run.model, tokenizer.size)
    task = text.TextTask(run.task, corpus, device, run.train.seed)
    if isinstance(model, ngram.Ngram):
        return count(model, task, folder, progress or Progress(quiet=True))
    trainer = Trainer(task, model, run.train, folder, torch.device(device), progress)
    if folder.last.exists():
        trainer.resume()
    return trainer.run()


def count(model: ngram.Ngram, task: text.TextTask, folder: RunFolder, progress: Progress) -> dict[str, Any]:
    """An n-gram model is counted, not trained, and then is a run like any other."""
    model.train_on(task.tokens("train"))
    found = task.evaluate(model, "valid", "stateful")
    checkpoint.write_tensors(folder.model_path, checkpoint.weights(model), {"entries": model.entries()})
    folder.log({"step": 1, "tokens": len(task.tokens("train")), "valid": found[task.metric]})
    progress.say(f"{model.entries():,} n-grams counted")
    return found


def mix(first: str, second: str, out: str, *, device: str = "cpu", data_dir: str | None = None) -> dict[str, Any]:
    """A mixture of two trained runs: one weight, fitted on validation."""
    a, b = load(Path(first), device), load(Path(second), device)
    if tokenize.fingerprint(a.tokenizer) != tokenize.fingerprint(b.tokenizer):
        raise RunError(f"mixture: expected two runs with one tokenizer, found {first} and {second} with different ones")
    run = a.run if b.run.model["name"] in COUNTED else b.run
    corpus = run.data.load(data_dir, existing=a.tokenizer)
    task = text.TextTask(replace(run.task, eval_rule="stateful"), corpus, device)
    losses = [task.losses(used.model, "valid", "stateful") for used in (a, b)]
    share = best_share(losses[0], losses[1])
    model = Mixture(a.model, b.model, share)
    settings = {"name": "mixture", "of": [str(Path(first).resolve()), str(Path(second).resolve())]}
    mixed = replace(run, model=settings, task=task.config)
    folder = RunFolder.create(out, mixed.to_json() | {"corpus": describe(corpus)})
    tokenize.save(corpus.tokenizer, folder.path / "tokenizer.json")
    checkpoint.write_tensors(folder.model_path, {"share": model.share}, {})
    return task.evaluate(model, "valid") | {"share": float(model.share)}


@dataclass
class Used:
    """A trained run, ready to be used."""

    run: TextRun
    model: nn.Module
    tokenizer: Any
    folder: RunFolder


def load(path: str | Path, device: str = "cpu") -> Used:
    """The model of a run folder, with its best weights (or the last ones, of a run that has not finished)."""
    folder = RunFolder.open(path)
    run = TextRun.from_json(folder.config(), folder.config_path)
    tokenizer = tokenize.load(folder.path / "tokenizer.json")
    model = build_model(run.model, tokenizer.size)
    found = next((p for p in (folder.model_path, folder.best) if p.exists()), None)
    if found is None:
        raise RunError(f"{path}: expected weights (model.safetensors), found none; the run was stopped too early")
    tensors, _ = checkpoint.read_tensors(found)
    if isinstance(model, Mixture):
        model.share.copy_(tensors["share"])
    else:
        checkpoint.load_weights(model, tensors, found)
    return Used(run, model.to(device).eval(), tokenizer, folder)


def measure(
    path: str,
    *,
    split: str,
    rules: Sequence[Any],
    data: Sequence[str] = (),
    device: str = "cpu",
    data_dir: str | None = None,
) -> dict[str, Any]:
    """The metrics of a run by each rule, on its own data or on other text."""
    used = load(path, device)
    source = replace(used.run.data, data=tuple(data), valid=(), test=()) if data else used.run.data
    corpus = source.load(data_dir, existing=used.tokenizer)
    task = text.TextTask(used.run.task, corpus, device)
    return {
        "run": str(path),
        "data": corpus.name,
        "split": split,
        "params": language.parameters(used.model),
        "rules": {rule: task.evaluate(used.model, split, rule) for rule in rules},
        "baselines": task.baselines(split),
    }


def verify(path: str) -> dict[str, float]:
    """The laws on trained weights, in float64, on random tokens."""
    used = load(path)
    model = used.model.double()
    tokens = torch.randint(used.tokenizer.size, (3, 12), generator=torch.Generator().manual_seed(0))
    return laws.check(model, tokens)  # type: ignore[arg-type]


def write(
    used: Used,
    prompts: Sequence[str],
    config: sample.Config,
    *,
    stops: Sequence[str] = (),
    state_in: str | None = None,
    state_out: str | None = None,
) -> Iterator[str]:
    """The text of a run, piece by piece: of one prompt as it comes, of several one after the other."""
    tokenizer, model = used.tokenizer, used.model
    if state_in is not None:
        if prompts:
            raise RunError("generate: expected either --prompt or --state-in, found both")
        position = _read_position(model, state_in, tokenizer.size, config.length)
    else:
        texts = list(prompts) or ["\n"]
        position = sample.read(model, [_ids(tokenizer, p) for p in texts], capacity=config.length)
    rows = len(position.written)
    streams = [tokenizer.streamer() for _ in range(rows)]
    texts_out = [""] * rows
    open_rows = set(range(rows))
    if rows == 1 and prompts:
        yield prompts[0]
    for tokens in sample.write(model, position, config):
        for row in sorted(open_rows):
            piece = streams[row].push(tokens[row])
            texts_out[row] += piece
            cut = min((i for stop in stops if (i := texts_out[row].find(stop)) >= 0), default=None)
            if cut is not None:
                piece = piece[: max(0, len(piece) - (len(texts_out[row]) - cut))]
                texts_out[row] = texts_out[row][:cut]
                open_rows.discard(row)
            if rows == 1:
                yield piece
        if not open_rows:
            break
    for row in open_rows:
        texts_out[row] += (rest := streams[row].finish())
        if rows == 1:
            yield rest
    if rows > 1:
        yield "\n\n".join(prompt + text for prompt, text in zip(prompts, texts_out, strict=True))
    if state_out is not None:
        states.save((position.logits, position.state), state_out)


def _ids(tokenizer: Any, prompt: str) -> list[int]:
    ids = tokenizer.encode(prompt).tolist()
    if not ids:
        raise RunError("generate: expected a prompt of at least one token, found an empty one")
    return ids


def _read_position(model: Any, path: str, vocab: int, length: int) -> sample.Position:
    """A saved state goes on as if it had never been in a file."""
    like = (torch.zeros(1, vocab), model.initial_state(1))
    logits, state = states.load(path, like)
    return sample.Position(state, logits, [[] for _ in logits])


def describe(corpus: Corpus) -> dict[str, Any]:
    return {
        "name": corpus.name,
        "fingerprint": corpus.fingerprint,
        "vocab": corpus.tokenizer.size,
        "train": len(corpus.train),
        "valid": len(corpus.valid),
        "notes": corpus.notes,
    }


def _resolve(run: TextRun, corpus: Corpus, params: int | None) -> TextRun:
    """The model's settings in full, with the width that `params` asks for."""
    settings = dict(run.model)
    name = settings.pop("name")
    if name in COUNTED:
        return run
    config = language.Config(vocab=corpus.tokenizer.size, model=name, **settings)
    if params is not None:
        config = language.width_for(config, params)
    full = asdict(config)
    full.pop("vocab")
    full.pop("model")
    return replace(run, model={"name": name} | full)
