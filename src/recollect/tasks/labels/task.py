"""Labels: classify a whole sequence, a text or an image read pixel by pixel, after its last step.

The figures, by these rules:

    accuracy      the share of rows whose likeliest label is the right one
    F1            of a label: 2·hits / (2·hits + misses + false alarms); the mean over labels that occur or are given
    calibration   rows go into 15 bins by the probability of the answer; the mean distance between that and the share
                  of right answers in a bin, weighted by its rows (expected calibration error)

The tokens of a run are those that it has read, of images their steps, padding left out; older rows in results/ count
the texts and images instead.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...core import laws, pieces
from ...core.artifacts import write_artifact
from ...core.contract import ContractError, Memory
from ...core.summary import DataSummary
from ...core.task import LoadedRun, LoadRun, Loss, RunConfig, RunError, Solution, Task, building, describe_model
from ...data import tokenizers
from ...data.files import DataError, absolute_names
from ...layers import LAYERS
from ...models import classifier
from ...models.body import KINDS, StackedModels, kind_of
from . import bag, data, probe
from .cells import read_cells
from .export import LabelsExports
from .labelled import Artifacts, Labelled, Part, load_artifacts, summarize
from .recordings import are_sounds
from .rows import Batch, Rows, SoundRows
from .settings import Config, DataConfig
from .sources import NAMES, OPINIONS, SOUNDS, TONES, find_images

COUNTED = ("bag",)
BINS = 15
SHOWN = 12  # labels of a confusion matrix that fits a terminal


class LabelsTask(StackedModels, Task[Labelled, Artifacts]):
    """Labelled rows to classify: by networks that are trained, bags of words that are counted."""

    name = "labels"
    models = (*COUNTED, *KINDS)
    instead: Mapping[str, str] = {"bag of words": "--model bag"}
    default = "gru"
    data_config = DataConfig
    task_config = Config
    exports = LabelsExports()
    counted = unsized = COUNTED
    in_nats = True
    free_length = True
    request_options: ClassVar[Sequence[str]] = ("text",)
    refused: ClassVar[Mapping[str, str]] = {
        "bidirectional": "expected both_ways=true, by which a classifier reads rows from both ends, found bidirectional"
    }

    def __init__(self, config: Config, data: Labelled, device: torch.device | str = "cpu", seed: int = 0) -> None:
        super().__init__(config, data, device, seed)
        self.metric: str = config.choose
        self.parts: dict[str, Rows] = {}
        self.bag: bag.Bag | None = None

    # Data and models

    @classmethod
    def model_settings(cls, model: str) -> dict[str, Any]:
        if model in COUNTED:
            return {"model": bag.Config}
        return {"model": classifier.Config, "layer": LAYERS[kind_of(model).layer]}

    @classmethod
    def load_data(cls, config: DataConfig, data_dir: str | None, artifacts: Artifacts | None = None) -> Labelled:
        return data.load_config(config, data_dir, artifacts=artifacts)

    @classmethod
    def artifacts_of(cls, data: Labelled) -> Artifacts:
        return data.artifacts

    @classmethod
    def save_artifacts(cls, artifacts: Artifacts, folder: Path) -> None:
        if artifacts.tokenizer is not None:
            tokenizers.save(artifacts.tokenizer, folder / "tokenizer.json")
        write_artifact(folder, "labels.json", artifacts.to_json())

    @classmethod
    def load_artifacts(cls, folder: Path) -> Artifacts:
        return load_artifacts(folder)

    @classmethod
    def describe_data(cls, data: Labelled) -> dict[str, Any]:
        counts = {
            "classes": len(data.artifacts.classes),
            "train": len(data.train.labels),
            "valid": len(data.valid.labels),
        }
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | {"notes": data.notes}

    @classmethod
    def summarize_data(cls, data: Labelled) -> str:
        found = f"{len(data.train.labels):,} training rows of {data.name}, {len(data.artifacts.classes)} labels"
        return found if data.artifacts.tokenizer is None else f"{found}, vocabulary {data.artifacts.inputs:,}"

    @classmethod
    def data_summary(cls, data: Labelled) -> DataSummary:
        return summarize(data)

    @classmethod
    def other_data(cls, config: DataConfig, data: Sequence[str], artifacts: Artifacts) -> DataConfig:
        """All of other tables or recordings is what is measured; images and known sets have a test part.

        If the run's own tables have a header, theirs begin with one too, unless there stands a label that it knows.
        """
        own_test = len(data) == 1 and data[0] in ("mnist", *SOUNDS, TONES, OPINIONS)
        if own_test or find_images(data) is not None:
            return replace(config, data=tuple(data), valid=(), test=())
        if are_sounds(data, config.encoding):
            whole = {"data": tuple(data), "valid": tuple(data), "test": tuple(data)}
            return replace(config, **whole, test_speaker=None, valid_speaker=None)
        headed = config.header and all(
            _first_cells(name, config.encoding).isdisjoint(artifacts.classes) for name in data
        )
        return replace(config, data=tuple(data), valid=tuple(data), test=tuple(data), header=headed or None)

    @classmethod
    def resolve(cls, run: RunConfig, data: Labelled, params: int | None) -> RunConfig:
        length = int(np.median(data.train.lengths))
        run = replace(run, data=absolute_names(run.data, NAMES), task=replace(run.task, length=length))
        name = run.model["name"]
        if name in COUNTED:
            if data.artifacts.tokenizer is None:
                raise ContractError(f"model: expected one that reads numbers, found {name!r}, which counts words")
            if params is not None:
                raise ContractError(
                    f"params: expected a model with a width, found {name!r}, whose words decide its size"
                )
            return run
        config = configure_model(run.model, data.artifacts)
        if params is not None:
            config = config.sized(params, f"{name} with {config.layers} layers and {config.inputs:,} inputs")
        return replace(run, model=describe_model(name, config, ["inputs", "outputs", "tokens"]))

    @classmethod
    def build_model(cls, settings: dict[str, Any], artifacts: Artifacts, load_run: LoadRun) -> nn.Module:
        name = settings.get("name")
        with building(str(name)):
            if name in COUNTED:
                own = {key: value for key, value in settings.items() if key != "name"}
                return bag.Config(inputs=artifacts.inputs, outputs=len(artifacts.classes), **own).build()
            return configure_model(settings, artifacts).build()

    @classmethod
    def law_example(cls, model: Any, artifacts: Artifacts) -> tuple[nn.Module, Tensor, Memory | None]:
        if isinstance(model, classifier.BothWays):
            raise RunError(
                "expected a classifier that goes step by step, found both_ways=true, which reads whole rows and has no "
                "state; train one without"
            )
        return model, example_rows(artifacts), None

    @classmethod
    def list_laws(cls, definition: Any, run: LoadedRun[Labelled, Artifacts]) -> Mapping[str, laws.Law | laws.Exempt]:
        if isinstance(definition, classifier.BothWays):
            reason = "both_ways=true reads whole rows from both ends; it has no state"
            return laws.list_row_laws(definition, example_rows(run.artifacts), reason)
        return super().list_laws(definition, run)

    @classmethod
    def state_bytes(cls, model: Any, run: RunConfig) -> int:
        return model.cost(1, run.task.length or 1).state_bytes

    # Training

    def rows(self, split: str) -> Rows:
        if split not in self.parts:
            part, artifacts = self.part(split), self.data.artifacts
            sound = artifacts.sound is not None
            self.parts[split] = (
                SoundRows(part, self.device, artifacts, self.config) if sound else Rows(part, self.device)
            )
        return self.parts[split]

    def part(self, split: str) -> Part:
        if split not in ("train", "valid", "test"):
            raise DataError(f"{self.data.name}: expected a split out of train, valid, test, found {split!r}")
        found = getattr(self.data, split)
        if found is None:
            raise DataError(
                f"{self.data.name}: expected a {split} part, found none; measure a file with --data, or train with one "
                "(--set test=FILE)"
            )
        return found

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        """Every row once an epoch, but for a last batch that would be too small; in another order each time."""
        rows = self.rows(split)
        each = min(self.config.batch, len(rows))
        count = len(rows) // each
        number, epoch, plan, order = start, -1, np.zeros(0), torch.zeros(0)
        while True:
            if number // count != epoch:
                epoch = number // count
                plan = self.plan(rows.sizes, each, np.random.default_rng([seed, epoch]))
                order = torch.from_numpy(plan).to(self.device)
            place = number % count
            yield rows.take(plan[place], order[place], number, seed if split == "train" else None)
            number += 1

    def plan(self, sizes: np.ndarray, each: int, draw: np.random.Generator) -> np.ndarray:
        """The row numbers of an epoch's batches: batches, rows."""
        order = draw.permutation(len(sizes))[: len(sizes) // each * each]
        if sizes.min() == sizes.max():
            return order.reshape(-1, each)
        group = np.arange(len(order)) // (each * self.config.bucket)
        order = order[np.lexsort((sizes[order], group))]
        return draw.permutation(order.reshape(-1, each))

    def loss(self, model: nn.Module, batch: Batch, carry: Any = None) -> Loss:
        value = cross_entropy(answers(model, batch), batch.y, label_smoothing=self.config.smoothing)
        return Loss(value, batch.tokens, terms=len(batch.y))

    @property
    def repeats(self) -> bool:
        return self.rows("train").images

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return tuple(batch.x.shape[:2])

    def flops(self, model: Any, *shape: int) -> float:
        return model.cost(*shape).flops

    def solve(self, model: Any, tokens: float | None) -> Solution | None:
        """A bag of words is counted."""
        if not isinstance(model, bag.Bag):
            return None
        train = self.part("train")
        model.train_on(train.values, train.lengths, train.labels).to(self.device)
        words = len(train.values)
        return Solution(tokens=words, message=f"{words:,} words counted", note={"entries": model.entries()})

    # Measuring

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        """Accuracy, F1, calibration, nats and the confusion matrix (a row for each true label) over a split."""
        rows = self.rows(split)
        count = min(len(rows), self.config.eval_rows or len(rows))
        by_length = np.argsort(-rows.sizes[:count], kind="stable")
        losses, likeliest, sure = [], [], []
        for at in range(0, count, self.config.eval_batch):
            batch = rows.take(by_length[at : at + self.config.eval_batch])
            likely = answers(model, batch).float().log_softmax(dim=-1)
            losses.append(-likely.gather(1, batch.y[:, None])[:, 0])
            best = likely.max(dim=1)
            likeliest.append(best.indices)
            sure.append(best.values.exp())
        nats = torch.cat(losses).double().cpu().numpy()
        predicted = torch.cat(likeliest).cpu().numpy()
        true = self.part(split).labels[by_length]
        table = confusion(true, predicted, len(self.data.artifacts.classes))
        right = float((true == predicted).mean())
        return {
            "error": 1 - right,
            "nats": float(nats.mean()),
            "accuracy": right,
            "macro_f1": macro_f1(table),
            "calibration_error": calibration_error(true == predicted, torch.cat(sure).cpu().numpy()),
            "confusion": table.tolist(),
            "rows": count,
            "rule": self.describe_rule(count, len(rows)),
            "pieces": {"accuracy": pieces.cut((true == predicted)[np.argsort(by_length)])},
        }

    def describe_rule(self, count: int, total: int) -> str:
        limit = f"the first {count:,} of {total:,} rows" if count < total else f"all {total:,} rows"
        return f"{limit}, each judged by the answer after its last step; F1 is the mean over labels; {BINS} bins"

    def baselines(self, split: str) -> dict[str, float]:
        """The commonest label for all, and for texts naive Bayes over the bag of words."""
        return {name: found[self.metric] for name, found in self.guesses(split).items()}

    def guesses(self, split: str) -> dict[str, dict[str, float]]:
        """What the baselines reach, by each figure."""
        train, count = self.part("train"), len(self.data.artifacts.classes)
        shares = np.bincount(train.labels, minlength=count) + 1.0
        true = self.part(split).labels[: self.config.eval_rows]
        right = float((true == shares.argmax()).mean())
        nats = float(-np.log(shares / shares.sum())[true].mean())
        found = {"majority": {"error": 1 - right, "accuracy": right, "nats": nats}}
        if self.data.artifacts.tokenizer is not None:
            if self.bag is None:
                config = bag.Config(inputs=self.data.artifacts.inputs, outputs=count)
                self.bag = config.build().train_on(train.values, train.lengths, train.labels).to(self.device)
            full = self.evaluate(self.bag, split)
            found["bag of words"] = {name: full[name] for name in ("error", "accuracy", "nats")}
        return found

    def figures(self, model: nn.Module, split: str, **options: Any) -> dict[str, Any]:
        found = self.evaluate(model, split)
        guesses, kept = self.guesses(split), options.get("pieces")
        return {
            "metric": self.metric_row(found),
            **{name: value for name, value in found.items() if name != "rule" and (name != "pieces" or kept)},
            "classes": list(self.data.artifacts.classes),
            "baselines": {name: figures[self.metric] for name, figures in guesses.items()},
            "baseline_accuracy": {name: figures["accuracy"] for name, figures in guesses.items()},
        }

    @classmethod
    def table(cls, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
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

    @classmethod
    def headline(cls, found: dict[str, Any]) -> str:
        return (
            f"validation accuracy {100 * found['accuracy']:.2f} %, F1 {found['macro_f1']:.4f}, "
            f"{found['nats']:.4f} nats, calibration error {found['calibration_error']:.4f} ({found['rule']})"
        )

    # Inspection

    probe = staticmethod(probe.probe)


def answers(model: Any, batch: Batch) -> Tensor:
    """The logits of each row as a whole: B C."""
    return model.last(batch.x, batch.lengths)


def example_rows(artifacts: Artifacts) -> Tensor:
    """Random rows for the laws."""
    draw = torch.Generator().manual_seed(0)
    if artifacts.tokenizer is not None:
        return torch.randint(artifacts.inputs, (3, 12), generator=draw)
    return torch.rand(3, 12, artifacts.inputs, generator=draw, dtype=torch.float64)


def confusion(true: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """How often each label (row) was taken for each (column)."""
    return np.bincount(true.astype(np.int64) * classes + predicted, minlength=classes**2).reshape(classes, classes)


def macro_f1(table: np.ndarray) -> float:
    """The mean F1 of the labels that occur or were predicted."""
    hits = np.diag(table).astype(float)
    both = table.sum(axis=0) + table.sum(axis=1)  # 2·hits + misses + false alarms
    return float((2 * hits[both > 0] / both[both > 0]).mean()) if both.any() else math.nan


def calibration_error(right: np.ndarray, sure: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error: how far probabilities of answers are from shares of right ones, bin by bin."""
    place = np.clip(np.ceil(sure.astype(np.float64) * bins).astype(int) - 1, 0, bins - 1)  # (0, 1/bins], …
    gap = np.bincount(place, weights=right.astype(np.float64) - sure, minlength=bins)
    return float(np.abs(gap).sum() / len(sure))


def _first_cells(name: str, encoding: str | None) -> set[str]:
    """What stands in the first line of a table; nothing where there is no such file."""
    _, cells = next(read_cells(Path(name), encoding), (0, [])) if Path(name).is_file() else (0, [])
    return {cell.strip() for cell in cells}


def configure_model(settings: dict[str, Any], artifacts: Artifacts) -> classifier.Config:
    """The settings of a classifier that reads what `artifacts` describes."""
    own = dict(settings)
    name = own.pop("name", None)
    if own.get("pool") == "each":
        raise ContractError("labels: expected one answer a row by the pool last, mean or attention, found 'each'")
    with building(name):
        sizes = {
            "inputs": artifacts.inputs,
            "outputs": len(artifacts.classes),
            "tokens": artifacts.tokenizer is not None,
        }
        return classifier.Config(model=LabelsTask.check_model(name), **sizes, **own)


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


TASKS = (LabelsTask,)
