"""Sentences of random symbols to be copied by a translator: whatever it writes rightly came from the source.

With `both_ways` the target begins with a word that says from which end the source is to be copied. Then every place of
the source is written early in one half of the sentences and late in the other, so that where a symbol was read and
where it is written can be told apart.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.chart import Line
from ..models import seq2seq
from ..tasks.translation import data as parallel
from ..tasks.translation.task import Batch, TranslationTask
from ..tasks.translation.task import Config as TaskConfig
from ._own_data import fit
from ._shown import curve, gather

FORWARD, BACKWARD = ">", "<"


@dataclass(frozen=True, kw_only=True)
class Copying:
    """Sentences of `shortest` to `longest` symbols, each length as often as any other."""

    shortest: int
    longest: int
    both_ways: bool = False
    symbols: int = 8
    train: int = 30_000
    test: int = 200  # of each length

    @property
    def chance(self) -> float:
        return 1 / self.symbols

    def load(self, folder: str | Path, tokens: int, seed: int = 0, device: str = "cpu") -> TranslationTask:
        """The sentences as a task, batches of so many tokens; their files and the cache lie in `folder`."""
        draw = random.Random(seed)
        lengths = range(self.shortest, self.longest + 1)
        wanted = {
            "train": [draw.choice(lengths) for _ in range(self.train)],
            "test": [length for length in lengths for _ in range(self.test)],
        }
        paths = {split: Path(folder) / f"{split}.tsv" for split in wanted}
        for split, each in wanted.items():
            lines = (self._line(draw, length) for length in each)
            paths[split].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        data = parallel.load(
            [paths["train"]],
            valid=[paths["test"]],
            test=[paths["test"]],
            tokenizer="words",
            cache=Path(folder) / "cache",
        )
        return TranslationTask(TaskConfig(batch=tokens, smoothing=0.0), data, device, seed)

    def _line(self, draw: random.Random, length: int) -> str:
        words = [chr(ord("a") + draw.randrange(self.symbols)) for _ in range(length)]
        target = words
        if self.both_ways:
            back = draw.random() < 0.5
            target = [BACKWARD, *reversed(words)] if back else [FORWARD, *words]
        return f"{' '.join(words)}\t{' '.join(target)}"


class Written(NamedTuple):
    """What a model did with all sources of one length."""

    right: Tensor  # N L: whether the symbol at each place of the target was the likeliest
    influence: Tensor  # N L: how far the forecast there moves when the source is another one, from 0 to 1
    backward: Tensor  # N: whether the target was to be written from the source's end


def train(
    task: TranslationTask,
    model: str,
    *,
    width: int,
    steps: int,
    rate: float,
    seed: int,
    every: int | None = None,
    **settings: Any,
) -> Any:
    """A recurrent translator, the same in everything but in how it reads the source."""
    config = seq2seq.Config(
        source=task.data.source.size,
        target=task.data.target.size,
        model=model,  # type: ignore[arg-type]
        width=width,
        dropout=0.0,
        both_ways=False,
        **settings,
    )
    return fit(task, config, steps=steps, rate=rate, seed=seed, device=str(task.device), every=every)


@torch.no_grad()
def write(model: Any, task: TranslationTask, copying: Copying) -> dict[int, Written]:
    """Every test sentence by the length of its source, with the reference read so far."""
    found = {}
    first = int(copying.both_ways)  # the word that names the direction is given, not judged
    for length, batch in _by_length(task):
        memory = model.encode(batch.source, batch.lengths)
        other = model.encode(batch.source.roll(1, dims=0), batch.lengths)
        own, strange = (model(batch.x, memory=each)[0].softmax(dim=-1) for each in (memory, other))
        judged = slice(first, first + length)
        right = own.argmax(dim=-1) == batch.y
        moved = (own - strange).abs().sum(dim=-1) / 2
        back = torch.zeros(len(batch.y), dtype=torch.bool)
        if copying.both_ways:
            back = (batch.y[:, 0] == int(task.data.target.encode(BACKWARD)[0])).cpu()
        found[length] = Written(right[:, judged].float().cpu(), moved[:, judged].float().cpu(), back)
    return found


def _by_length(task: TranslationTask) -> Iterator[tuple[int, Batch]]:
    pairs = task.pairs("test")
    for length in np.unique(pairs.source_lengths):
        yield int(length), task.batch(pairs, np.flatnonzero(pairs.source_lengths == length))


def lines(found: Mapping[str, Sequence[Sequence[float]]], places: Sequence[int]) -> list[Line]:
    """A curve over places for each name, which has a row for each seed."""
    return [curve(name, gather(dict(zip(places, row, strict=True)) for row in rows)) for name, rows in found.items()]
