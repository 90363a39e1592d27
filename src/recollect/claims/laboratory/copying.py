"""Sentences of random symbols to be copied by a translator: whatever it writes rightly came from the source."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from ...core.chart import Chart, Line
from ...models import seq2seq
from ...tasks.translation import data as parallel
from ...tasks.translation.settings import Config as TaskConfig
from ...tasks.translation.task import Batch, TranslationTask
from ..claim import Effort
from .figures import curve
from .training import fit

FORWARD, BACKWARD = ">", "<"  # words of a target that say which end of the source is to be copied
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Copying:
    """Sentences of `shortest` to `longest` symbols, each length as often as any other."""

    shortest: int
    longest: int
    symbols: int = 8
    train: int = 30_000
    test: int = 200  # of each length

    @property
    def chance(self) -> float:
        return 1 / self.symbols

    @property
    def lengths(self) -> range:
        return range(self.shortest, self.longest + 1)

    def __str__(self) -> str:
        return f"{self.shortest} to {self.longest} symbols"

    def load(self, folder: str | Path, tokens: int, seed: int = 0, device: str = "cpu") -> TranslationTask:
        """The sentences as a task, batches of so many tokens; their files and the cache lie in `folder`."""
        draw = random.Random(seed)
        wanted = {
            "train": [draw.choice(self.lengths) for _ in range(self.train)],
            "test": [length for length in self.lengths for _ in range(self.test)],
        }
        paths = {split: Path(folder) / f"{split}.tsv" for split in wanted}
        for split, each in wanted.items():
            lines = (self.line(draw, length) for length in each)
            paths[split].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        data = parallel.load(
            [paths["train"]],
            valid=[paths["test"]],
            test=[paths["test"]],
            tokenizer="words",
            cache=Path(folder) / "cache",
        )
        return TranslationTask(TaskConfig(batch=tokens, smoothing=0.0), data, device, seed)

    def line(self, draw: random.Random, length: int) -> str:
        """A source and its target, parted by a tab."""
        words = [chr(ord("a") + draw.randrange(self.symbols)) for _ in range(length)]
        return f"{' '.join(words)}\t{' '.join(self.target(draw, words))}"

    def target(self, draw: random.Random, words: list[str]) -> list[str]:
        """What is to be written of a source."""
        return words


Sentences = TypeVar("Sentences", bound=Copying)


@dataclass(frozen=True, kw_only=True)
class Form(Generic[Sentences]):
    """The size of an experiment: of its quick form or its full one."""

    copying: Sentences
    width: int
    steps: int
    tokens: int  # of a batch
    rate: float
    seeds: int
    every: int = 0  # steps from one evaluation on the way to the next

    def __str__(self) -> str:
        return f"width {self.width}, {self.steps:,} steps of {self.tokens:,} tokens"


def quick_form(copying: Sentences, *, steps: int, every: int = 0, seeds: int = 3) -> Form[Sentences]:
    return Form(copying=copying, width=64, steps=steps, tokens=512, rate=5e-3, seeds=seeds, every=every)


def full_form(copying: Sentences, *, steps: int, every: int = 0) -> Form[Sentences]:
    return Form(copying=copying, width=256, steps=steps, tokens=4096, rate=2e-3, seeds=3, every=every)


def train(task: TranslationTask, form: Form[Any], *, seed: int, model: str, **settings: Any) -> Any:
    """A recurrent translator of one direction, without dropout."""
    config = seq2seq.Config(
        source=task.data.source.size,
        target=task.data.target.size,
        model=model,  # type: ignore[arg-type]
        width=form.width,
        dropout=0.0,
        both_ways=False,
        **settings,
    )
    every = form.every or form.steps
    device = str(task.device)
    return fit(task, config.build, steps=form.steps, rate=form.rate, seed=seed, device=device, eval_every=every)


def train_each(
    form: Form[Any],
    translators: Mapping[str, Mapping[str, Any]],
    effort: Effort,
    measure: Callable[[Any, TranslationTask], Result],
) -> dict[str, list[Result]]:
    """{name: [measure of each seed]} of translators with these settings, all on the same sentences."""
    return _each(form, translators, effort, lambda task, **settings: measure(train(task, form, **settings), task))


def _each(
    form: Form[Any],
    translators: Mapping[str, Mapping[str, Any]],
    effort: Effort,
    experiment: Callable[..., Result],
) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {name: [] for name in translators}
    with TemporaryDirectory() as folder:
        task = form.copying.load(folder, form.tokens, device=effort.device)
        for seed in effort.seed_range(form.seeds, form.seeds):
            for name, settings in translators.items():
                found[name].append(experiment(task, seed=seed, **settings))
    return found


@torch.no_grad()
def right(model: Any, batch: Batch) -> Tensor:
    """B T: whether the likeliest word at each place is that of the target, with the reference read so far."""
    return model(batch.x, memory=model.encode(batch.source, batch.lengths))[0].argmax(dim=-1) == batch.y


def choose(task: TranslationTask, rows: np.ndarray) -> Batch:
    """The test sentences for which `rows` is true."""
    return task.batch(task.pairs("test"), np.flatnonzero(rows))


def source_lengths(task: TranslationTask) -> np.ndarray:
    """The length of each test source."""
    return np.asarray(task.pairs("test").source_lengths)


def lines(found: Mapping[str, Sequence[Sequence[float]]], places: Sequence[int]) -> list[Line]:
    """A curve over places for each name, which has a row for each seed."""
    return [curve(name, dict(zip(places, zip(*rows, strict=True), strict=True))) for name, rows in found.items()]


# How errors fall while a translator learns. Models that end without an error are equal there, whatever it took them;
# the mean over training tells them apart.


class Course(NamedTuple):
    """The share of wrong symbols after each part of a training."""

    steps: Sequence[int]
    errors: Sequence[float]

    @property
    def mean(self) -> float:
        return float(np.mean(self.errors))

    @property
    def end(self) -> float:
        return self.errors[-1]


class Watched(TranslationTask):
    """A task whose evaluations count wrong symbols in the test sources of at least `shortest` symbols."""

    def __init__(self, task: TranslationTask, copying: Copying, shortest: int) -> None:
        super().__init__(task.config, task.data, task.device, task.seed)
        self.metric = "wrong"
        self.sentences = choose(task, source_lengths(task) >= shortest)
        words = [chr(ord("a") + i) for i in range(copying.symbols)]
        symbols = torch.tensor([int(task.data.target.encode(word)[0]) for word in words], device=task.device)
        self.judged = torch.isin(self.sentences.y, symbols)  # not the end
        self.noted: list[float] = []

    def evaluate(self, model: Any, split: str) -> dict[str, Any]:
        self.noted.append(float((~right(model, self.sentences))[self.judged].double().mean()))
        return {self.metric: self.noted[-1]}


def follow(task: TranslationTask, *, form: Form[Any], shortest: int, **settings: Any) -> Course:
    """Train a translator as `train` does, and evaluate it on the way."""
    watched = Watched(task, form.copying, shortest)
    train(watched, form, **settings)
    at = range(form.every, form.steps + 1, form.every)
    return Course(list(at), watched.noted[: len(at)])


def follow_each(
    form: Form[Any], translators: Mapping[str, Mapping[str, Any]], effort: Effort, shortest: int
) -> dict[str, list[Course]]:
    """{name: [course of each seed]} of translators with these settings, all on the same sentences."""
    return _each(form, translators, effort, partial(follow, form=form, shortest=shortest))


def course_chart(
    title: str, errors: Mapping[str, Sequence[Sequence[float]]], steps: Sequence[int], copying: Copying
) -> Chart:
    """The share of wrong symbols over training: {name: [errors of each seed]}."""
    lost = 1 - copying.chance
    axes = "steps of training", "share of wrong symbols"
    return Chart(title, *axes, lines(errors, steps), level=lost, level_name="guessing")
