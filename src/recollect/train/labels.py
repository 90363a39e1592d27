"""The job of labelling: classifiers that are trained, bags of words that are counted; and labels for new lines."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..core.contract import ContractError, Memory, check_settings
from ..core.files import write_aside
from ..data import tokenizers
from ..data.files import DataError, lines
from ..layers import LAYERS, known
from ..models import classifier
from ..models.body import KINDS, kind_of
from ..tasks.labels import bag
from ..tasks.labels import data as sets
from ..tasks.labels import task as labels
from ..tasks.labels.labelled import Artifacts, Labelled, StepName
from ..tasks.labels.sources import SETS, find_images
from . import checkpoint
from .budget import Spent
from .folder import RunError, RunFolder
from .job import Job, Run, Used, check_names, told
from .progress import Progress, memory

COUNTED = ("bag",)
MODELS = (*COUNTED, *KINDS)
BLOCK = 4096  # lines that are looked at together when new ones are labelled
SHOWN = 12  # labels of a confusion matrix that fits a terminal


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the rows are: tables of text and label, a folder of IDX files, or a known set; and how they are read.

    `step` says what a step of an image is, `permute` seeds one order of the pixels for all images.
    """

    data: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    tokenizer: str = "words"
    vocab: int | None = None
    share: float = 0.1
    longest: int = 1_000
    label_column: str | None = None
    text_column: str | None = None
    header: bool | None = None
    step: StepName = "pixel"
    permute: int | None = None

    def __post_init__(self) -> None:
        check_settings(self, least={"permute": 0})
        check_names(self)
        known("tokenizer", self.tokenizer, tokenizers.CHOICES)

    def load(self, data_dir: str | None = None, kept: Artifacts | None = None) -> Labelled:
        return sets.load(**asdict(self), data_dir=data_dir, kept=kept)

    def anchored(self) -> "DataConfig":
        """The same files by their full names, so that a run can be gone on with from another folder."""

        def full(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(n if n in SETS or not Path(n).exists() else str(Path(n).absolute()) for n in names)

        return replace(self, data=full(self.data), valid=full(self.valid), test=full(self.test))


class LabelsJob(Job[Labelled, Artifacts]):
    """Telling sequences apart."""

    name = "labels"
    models = MODELS
    default = "gru"
    data_config = DataConfig
    task_config = labels.Config
    stacks = True
    counted = unsized = COUNTED

    def homes(self, model: str) -> dict[str, type]:
        if model in COUNTED:
            return {"model": bag.Config}
        return {"model": classifier.Config, "layer": LAYERS[kind_of(model).layer]}

    def read(self, config: DataConfig, data_dir: str | None, kept: Artifacts | None = None) -> Labelled:
        return config.load(data_dir, kept)

    def keep(self, data: Labelled) -> Artifacts:
        return data.kept

    def save(self, kept: Artifacts, folder: Path) -> None:
        if kept.tokenizer is not None:
            tokenizers.save(kept.tokenizer, folder / "tokenizer.json")
        write_aside(folder / "labels.json", (json.dumps(kept.to_json(), ensure_ascii=False) + "\n").encode())

    def recall(self, folder: Path) -> Artifacts:
        path = folder / "labels.json"
        content = RunFolder(folder).read_json("labels.json")
        try:
            texts = content["shape"] is None
            if texts and not (folder / "tokenizer.json").exists():
                raise RunError(f"{folder / 'tokenizer.json'}: expected this file in the run folder, found none")
            return Artifacts.from_json(content, tokenizers.load(folder / "tokenizer.json") if texts else None)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise RunError(f"{path}: expected the labels of a run, found something else ({error!r})") from error
        except (RunError, DataError):
            raise
        except ValueError as error:
            raise RunError(f"{path}: expected the labels of a run, found something else ({error})") from error

    def describe(self, data: Labelled) -> dict[str, Any]:
        counts = {"classes": len(data.kept.classes), "train": len(data.train.labels), "valid": len(data.valid.labels)}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | {"notes": data.notes}

    def greet(self, data: Labelled) -> str:
        found = f"{len(data.train.labels):,} training rows of {data.name}, {len(data.kept.classes)} labels"
        return found if data.kept.tokenizer is None else f"{found}, vocabulary {data.kept.inputs:,}"

    def resolve(self, run: Run, data: Labelled, params: int | None) -> Run:
        run = replace(run, data=run.data.anchored(), task=replace(run.task, length=int(np.median(data.train.lengths))))
        name = run.model["name"]
        if name in COUNTED:
            if data.kept.tokenizer is None:
                raise ContractError(f"model: expected one that reads numbers, found {name!r}, which counts words")
            if params is not None:
                raise ContractError(
                    f"params: expected a model with a width, found {name!r}, whose words decide its size"
                )
            return run
        config = configure_model(run.model, data.kept)
        if params is not None:
            config = config.sized(params, f"{name} with {config.layers} layers and {config.inputs:,} inputs")
        full = asdict(config)
        for given in ("inputs", "outputs", "tokens", "model"):
            full.pop(given)
        return replace(run, model={"name": name} | full)

    def build(self, settings: dict[str, Any], kept: Artifacts, inside: tuple[Path, ...] = ()) -> nn.Module:
        name = settings.get("name")
        try:
            if name in COUNTED:
                own = {key: value for key, value in settings.items() if key != "name"}
                return bag.Config(inputs=kept.inputs, outputs=len(kept.classes), **own).build()
            return configure_model(settings, kept).build()
        except (KeyError, TypeError, AttributeError, RuntimeError, MemoryError, OverflowError) as error:
            raise told(str(name), error) from error

    def task(self, run: Run, data: Labelled, device: str) -> labels.LabelsTask:
        return labels.LabelsTask(run.task, data, device)

    def figures(self, model: nn.Module, task: labels.LabelsTask, split: str, **options: Any) -> dict[str, Any]:
        found = task.evaluate(model, split)
        guesses = task.guesses(split)
        return {
            "metric": {"name": task.metric, "value": found[task.metric], "rule": found["rule"]},
            **{name: value for name, value in found.items() if name != "rule"},
            "classes": list(task.data.kept.classes),
            "baselines": {name: figures[task.metric] for name, figures in guesses.items()},
            "baseline_accuracy": {name: figures["accuracy"] for name, figures in guesses.items()},
        }

    def example(self, model: Any, kept: Artifacts) -> tuple[Tensor, Memory | None]:
        draw = torch.Generator().manual_seed(0)
        if kept.tokenizer is not None:
            return torch.randint(kept.inputs, (3, 12), generator=draw), None
        return torch.rand(3, 12, kept.inputs, generator=draw, dtype=torch.float64), None

    def state_bytes(self, model: Any, run: Run) -> int:
        return model.cost(1, run.task.length or 1).state_bytes

    def table(self, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        row = [
            f"{100 * found['accuracy']:.2f} %",
            f"{found['macro_f1']:.4f}",
            f"{found['nats']:.4f}",
            f"{found['calibration_error']:.4f}",
            f"{found['rows']:,}",
        ]
        guesses = "  ".join(f"{name} {100 * value:.2f} %" for name, value in found["baseline_accuracy"].items())
        below = [f"rule: {found['metric']['rule']}", f"accuracy without a network: {guesses}"]
        return ("accuracy", "F1", "nats", "calibration error", "rows"), [row], [*below, *_confusion(found)]

    def headline(self, found: dict[str, Any]) -> str:
        return (
            f"validation accuracy {100 * found['accuracy']:.2f} %, F1 {found['macro_f1']:.4f}, "
            f"{found['nats']:.4f} nats, calibration error {found['calibration_error']:.4f} ({found['rule']})"
        )

    def elsewhere(self, config: DataConfig, data: Sequence[str], kept: Artifacts) -> DataConfig:
        """All of other tables is the part that is measured; images come with a test part of their own.

        If the run's own tables have a header, theirs begin with one too, unless there stands a label that it knows.
        """
        if list(data) == ["mnist"] or find_images(data) is not None:
            return replace(config, data=tuple(data), valid=(), test=())
        headed = config.header and all(_first_cells(name).isdisjoint(kept.classes) for name in data)
        return replace(config, data=tuple(data), valid=tuple(data), test=tuple(data), header=headed or None)

    def fit(
        self, task: Any, model: nn.Module, run: Run, folder: RunFolder, device: str, progress: Progress, again: bool
    ) -> dict[str, Any]:
        if not isinstance(model, bag.Bag):
            return super().fit(task, model, run, folder, device, progress, again)
        folder.cut_metrics(0)
        train, spent = task.part("train"), Spent()
        model.train_on(train.values, train.lengths, train.labels).to(device)
        took = spent.at_once(len(train.values))
        found = task.evaluate(model, "valid")
        checkpoint.write_tensors(folder.model_path, checkpoint.weights(model), {"entries": model.entries()})
        folder.log(took | {"valid": found[task.metric], "memory": memory(task.device)})
        progress.say(f"{len(train.values):,} words counted")
        return found


JOB = LabelsJob()


def _first_cells(name: str) -> set[str]:
    """What stands in the first line of a table; nothing where there is no such file."""
    first = next(iter(lines(name)), "") if Path(name).is_file() else ""
    return {cell.strip() for cell in first.split("\t")}


def configure_model(settings: dict[str, Any], kept: Artifacts) -> classifier.Config:
    """The settings of a classifier that reads what `kept` describes."""
    own = dict(settings)
    name = own.pop("name", None)
    if own.get("pool") == "each":
        raise ContractError("labels: expected one answer a row by the pool last, mean or attention, found 'each'")
    try:
        sizes = {"inputs": kept.inputs, "outputs": len(kept.classes), "tokens": kept.tokenizer is not None}
        return classifier.Config(model=JOB.takes(name), **sizes, **own)
    except (KeyError, TypeError, AttributeError) as error:
        raise told(name, error) from error


def _confusion(found: dict[str, Any]) -> list[str]:
    """The confusion matrix in lines, or where it is too wide what is taken for what most often."""
    names, table = found["classes"], found["confusion"]
    if len(names) <= SHOWN:
        shown = [name if len(name) <= 12 else name[:11] + "…" for name in names]
        width = max(len(f"{max(map(max, table)):,}"), *map(len, shown)) + 2
        left = max(map(len, shown))
        rows = [f"{shown[i]:<{left}}" + "".join(f"{n:>{width},}" for n in row) for i, row in enumerate(table)]
        head = " " * left + "".join(f"{name:>{width}}" for name in shown)
        return ["rows: the true label; columns: the answer", head, *rows]
    wrong = [(n, names[i], names[j]) for i, row in enumerate(table) for j, n in enumerate(row) if n and i != j]
    worst = sorted(wrong, key=lambda entry: -entry[0])[:SHOWN]
    return ["taken for another most often:", *(f"  {a} for {b}: {n:,}" for n, a, b in worst)]


class Answer(NamedTuple):
    label: str
    probability: float


def classify(used: Used[Artifacts], lines: Iterable[str], *, batch: int = 256) -> Iterator[Answer | None]:
    """The label of each line and its probability, in order; None for a line with nothing in it.

    A run on images reads lines of rows·columns numbers from 0 to 255, with blanks or commas between.
    """
    kept, device = used.kept, next(iter(used.model.state_dict().values())).device
    source, at = iter(lines), 0
    while block := list(islice(source, BLOCK)):
        coded = [_code(kept, line, at + number) for number, line in enumerate(block, start=1)]
        at += len(block)
        filled = [number for number, row in enumerate(coded) if len(row)]
        filled.sort(key=lambda number: -len(coded[number]))
        found: dict[int, Answer] = {}
        for start in range(0, len(filled), batch):
            some = filled[start : start + batch]
            with torch.no_grad():
                sure, best = _answers(used.model, kept, [coded[n] for n in some], device).max(dim=1)
            names = [kept.classes[label] for label in best.tolist()]
            found |= dict(zip(some, map(Answer, names, sure.tolist()), strict=True))
        yield from (found.get(number) for number in range(len(block)))


def _code(kept: Artifacts, line: str, number: int) -> np.ndarray:
    """A line as a model reads it: tokens, or the numbers of an image."""
    text = line.strip()
    if kept.tokenizer is not None:
        return kept.encode(text) if text else np.zeros(0)
    if not text:
        return np.zeros(0)
    assert kept.shape is not None
    try:
        pixels = np.array([float(word) for word in text.replace(",", " ").split()])
    except ValueError as error:
        raise DataError(f"expected numbers from 0 to 255 in line {number:,}, found something else ({error})") from None
    wanted = kept.shape[0] * kept.shape[1]
    if len(pixels) != wanted or not ((pixels >= 0) & (pixels <= 255)).all():
        raise DataError(
            f"expected the {wanted} pixels of an image of {kept.shape[0]} × {kept.shape[1]}, from 0 to 255, in line "
            f"{number:,}, found {len(pixels)} numbers{'' if len(pixels) != wanted else ', some outside'}"
        )
    return kept.lay_out(pixels.reshape(1, *kept.shape))[0]


def _answers(model: Any, kept: Artifacts, rows: list[np.ndarray], device: torch.device) -> Tensor:
    """Probabilities: B C. The first of the rows is the longest."""
    if kept.tokenizer is None:
        x = torch.from_numpy(np.stack(rows)).float().to(device) / 255
        return model(x)[0][:, -1].softmax(dim=-1)
    x = np.zeros((len(rows), len(rows[0])), np.int64)
    for place, row in enumerate(rows):
        x[place, : len(row)] = row
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return model.last(torch.from_numpy(x).to(device), lengths).float().softmax(dim=-1)
