"""Text runs: from settings to a trained run folder, and back from a folder to a model that can be used."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..config import SettingError, distribute
from ..core import laws
from ..core import state as states
from ..core.contract import ContractError, check_settings
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

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("data", "valid", "test"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(part, str) for part in value):
                raise ContractError(f"data: expected {name} to be names of files, found {value!r}")

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
        except (KeyError, TypeError, AttributeError, ValueError) as error:
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
    if "model" in parts["model"]:
        raise SettingError("--set: expected the model's name as --model, found it among the settings")
    settings = {"name": model} | parts["model"]
    if parts.get("layer"):
        settings["layer"] = parts["layer"]
    return TextRun(
        data=DataConfig(**{"data": tuple(data), "valid": tuple(valid), "tokenizer": tokenizer} | parts["data"]),
        task=text.Config(**parts["text"]),
        model=settings,
        train=Settings(**parts["train"]),
    )


def build_model(settings: dict[str, Any], vocab: int, inside: tuple[Path, ...] = ()) -> nn.Module:
    """The model that config.json names. A mixture is built from its runs; `inside` are those that it is part of."""
    settings = dict(settings)
    name = settings.pop("name", None)
    try:
        if name == "ngram":
            return ngram.Config(vocab=vocab, **settings).build()
        if name == "mixture":
            first, second = (load(path, inside=inside).model for path in settings["of"])
            return Mixture(first, second)
        if name not in language.KINDS:
            raise ContractError(f"model: expected one of {', '.join([*MODELS, 'mixture'])}, found {name!r}")
        return language.Config(vocab=vocab, model=name, **settings).build()
    except (KeyError, TypeError, AttributeError, RuntimeError, MemoryError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise ContractError(f"model: expected settings of {name!r}, found others ({reason})") from error


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
    init = None if init is None else str(Path(init).resolve())
    model = _begin(run, corpus.tokenizer.size, init)
    task = text.TextTask(run.task, corpus, device, run.train.seed)
    folder = RunFolder.create(out, run.to_json() | {"corpus": describe(corpus), "init": init})
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


def _begin(run: TextRun, vocab: int, init: str | None) -> nn.Module:
    """The model as a run starts with it: by its seed, or with another run's weights."""
    torch.manual_seed(run.train.seed)
    model = build_model(run.model, vocab)
    if init is not None:
        path = RunFolder.open(init).model_path
        checkpoint.load_weights(model, checkpoint.read_tensors(path)[0], path)
    return model


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
    place = folder.path / "tokenizer.json"
    corpus = run.data.load(data_dir, existing=tokenize.load(place) if place.exists() else None)
    if corpus.fingerprint != _fingerprint(content, folder.config_path):
        raise RunError(f"{out}: expected the text that the run began with, found another; start a new run")
    folder.clear_up()
    folder.last.parent.mkdir(exist_ok=True)  # it may have been killed before it made this
    tokenize.save(corpus.tokenizer, place)
    fresh = not folder.last.exists()  # killed before its first checkpoint: it begins again
    model = _begin(run, corpus.tokenizer.size, content.get("init") if fresh else None)
    task = text.TextTask(run.task, corpus, device, run.train.seed)
    if isinstance(model, ngram.Ngram):
        folder.cut_metrics(0)
        return count(model, task, folder, progress or Progress(quiet=True))
    trainer = Trainer(task, model, run.train, folder, torch.device(device), progress)
    if fresh:
        folder.cut_metrics(0)
    else:
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


def load(path: str | Path, device: str = "cpu", inside: tuple[Path, ...] = ()) -> Used:
    """The model of a run folder, with its best weights (of a run that has not finished: the best so far)."""
    folder = RunFolder.open(path)
    own = folder.path.resolve()
    if own in inside:
        raise RunError(f"{path}: expected a mixture of other runs, found one of itself")
    run = TextRun.from_json(folder.config(), folder.config_path)
    tokenizer = tokenize.load(folder.path / "tokenizer.json")
    model = build_model(run.model, tokenizer.size, (*inside, own))
    found = next((p for p in (folder.model_path, folder.best) if p.exists()), None)
    if found is None:
        raise RunError(f"{path}: expected weights (model.safetensors), found none; the run was stopped too early")
    tensors, _ = checkpoint.read_tensors(found)
    if isinstance(model, Mixture):
        share = tensors.get("share", torch.tensor([]))
        if share.numel() != 1 or not 0 < float(share) < 1:
            raise checkpoint.CheckpointError(f"{found}: expected the share of a mixture, found {share.tolist()}")
        model.share.fill_(float(share))
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


def result(path: str, *, split: str, rules: Sequence[Any], device: str, data_dir: str | None = None) -> dict[str, Any]:
    """The row of a finished run for results/: its figure by the first rule, the others beside it."""
    found = measure(path, split=split, rules=rules, device=device, data_dir=data_dir)
    folder = RunFolder.open(path)
    config, manifest, metrics = folder.config(), folder.read_json("manifest.json"), folder.metrics()
    main = found["rules"][rules[0]]
    last = next((row for row in reversed(metrics) if "loss" in row), {})
    used = load(path, "cpu")
    return {
        "schema": 1,
        "task": "text",
        "data": found["data"],
        "split": split,
        "model": config["model"]["name"],
        "settings": {name: config[name] for name in ("text", "model", "train")},
        "seed": config["train"]["seed"],
        "metric": {"name": "nats_per_token", "value": main["nats_per_token"], "rule": main["rule"]},
        "rules": {rule: {k: v for k, v in r.items() if k != "by_position"} for rule, r in found["rules"].items()},
        "by_position": main.get("by_position"),
        "baselines": found["baselines"],
        "params": found["params"],
        "entries": used.model.entries() if isinstance(used.model, ngram.Ngram) else None,
        "tokens": last.get("tokens"),
        "flops": last.get("flops"),
        "seconds": last.get("seconds"),
        "peak_bytes": None,
        "state_bytes": used.model.cost(1, config["text"]["context"]).state_bytes,  # type: ignore[operator]
        "curve": [[row["step"], row["valid"]] for row in metrics if "valid" in row],
        "commit": manifest["commit"],
        "command": manifest["command"],
        "machine": manifest["machine"],
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
    for stream, tokens in zip(streams, position.written, strict=True):
        for token in tokens:  # what comes next may depend on it: a space, the rest of a character
            stream.push(token)
    ends = [Until(stops) for _ in range(rows)]
    texts_out = list(prompts) or [""] * rows
    if rows == 1 and prompts:
        yield prompts[0]
    for tokens in sample.write(model, position, config):
        for row, end in enumerate(ends):
            if not end.met:
                texts_out[row] += (piece := end.push(streams[row].push(tokens[row])))
                if rows == 1:
                    yield piece
        if all(end.met for end in ends):
            break
    for row, end in enumerate(ends):
        unfinished = "" if state_out is not None else streams[row].finish()  # half a character comes with the next run
        texts_out[row] += (rest := end.push(unfinished) + end.finish())
        if rows == 1:
            yield rest
    if rows > 1:
        yield "\n\n".join(texts_out)
    if state_out is not None:
        longest = max(len(tokens) for tokens in position.written)
        written = torch.tensor([tokens + [-1] * (longest - len(tokens)) for tokens in position.written])
        drawn = torch.full((rows,), position.drawn)
        states.save((position.logits, position.state, written, drawn), state_out)


class Until:
    """Text up to the first of some stop strings; what may yet become one is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise RunError("generate: expected a --stop of at least one character, found an empty one")
        self.stops, self.held, self.met = stops, "", False

    def push(self, piece: str) -> str:
        if self.met:
            return ""
        self.held += piece
        cuts = [at for stop in self.stops if (at := self.held.find(stop)) >= 0]
        if cuts:
            passed, self.held, self.met = self.held[: min(cuts)], "", True
            return passed
        begun = [n for stop in self.stops for n in range(1, len(stop)) if self.held.endswith(stop[:n])]
        at = len(self.held) - max(begun, default=0)
        passed, self.held = self.held[:at], self.held[at:]
        return passed

    def finish(self) -> str:
        """What was held back for nothing."""
        passed, self.held = self.held, ""
        return passed


def _ids(tokenizer: Any, prompt: str) -> list[int]:
    ids = tokenizer.encode(prompt).tolist()
    if not ids:
        raise RunError("generate: expected a prompt of at least one token, found an empty one")
    return ids


@torch.no_grad()
def _read_position(model: Any, path: str, vocab: int, length: int) -> sample.Position:
    """A saved state goes on as if it had never been in a file, with room for `length` more tokens."""
    like, _ = model(torch.zeros(1, 1, dtype=torch.int64, device=sample.device_of(model)))
    counts = torch.zeros(1, dtype=torch.int64)
    logits, state, tokens, drawn = states.load(path, (like[:, 0], model.initial_state(1), counts[:, None], counts))
    if logits.shape[1] != vocab or int(tokens.max()) >= vocab or not 0 <= int(drawn[0]) <= tokens.shape[1]:
        raise RunError(f"{path}: expected a state over {vocab:,} tokens, found one over {logits.shape[1]:,} or others")
    written = [[token for token in row if token >= 0] for row in tokens.tolist()]
    room = model.initial_state(len(written), capacity=length + max(len(row) for row in written))
    state = states.map(lambda new, old: _fit(old, new.shape[1]) if old.dim() > 1 else old, room, state)
    return sample.Position(state, logits, written, int(drawn[0]))


def _fit(tensor: Tensor, slots: int) -> Tensor:
    """A copy with so many slots; what lies beyond those in use is empty and may go."""
    return states.fit(tensor[:, :slots], slots).clone()


def describe(corpus: Corpus) -> dict[str, Any]:
    return {
        "name": corpus.name,
        "fingerprint": corpus.fingerprint,
        "vocab": corpus.tokenizer.size,
        "train": len(corpus.train),
        "valid": len(corpus.valid),
        "notes": corpus.notes,
    }


def _fingerprint(content: dict[str, Any], path: Path) -> str:
    try:
        return content["corpus"]["fingerprint"]
    except (KeyError, TypeError) as error:
        raise RunError(f"{path}: expected the text's fingerprint in the config, found none") from error


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
