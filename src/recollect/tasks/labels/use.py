"""A trained classifier put to use: labels for new lines."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...core.task import LoadedRun
from ...data.files import DataError
from .labelled import Artifacts

BLOCK = 4096  # lines that are read before they are sorted into batches


class Answer(NamedTuple):
    label: str
    probability: float


def classify(run: LoadedRun[Any, Artifacts], lines: Iterable[str], *, batch: int = 256) -> Iterator[Answer | None]:
    """The label of each line and its probability, in order; None for a line with nothing in it.

    A run on images reads lines of rows·columns numbers from 0 to 255, with blanks or commas between.
    """
    artifacts, device = run.artifacts, next(iter(run.model.state_dict().values())).device
    source, at = iter(lines), 0
    while block := list(islice(source, BLOCK)):
        coded = [_code(artifacts, line, at + number) for number, line in enumerate(block, start=1)]
        at += len(block)
        filled = [number for number, row in enumerate(coded) if len(row)]
        filled.sort(key=lambda number: -len(coded[number]))
        found: dict[int, Answer] = {}
        for start in range(0, len(filled), batch):
            some = filled[start : start + batch]
            with torch.no_grad():
                sure, best = _answers(run.model, artifacts, [coded[n] for n in some], device).max(dim=1)
            names = [artifacts.classes[label] for label in best.tolist()]
            found |= dict(zip(some, map(Answer, names, sure.tolist()), strict=True))
        yield from (found.get(number) for number in range(len(block)))


def _code(artifacts: Artifacts, line: str, number: int) -> np.ndarray:
    """A line as a model reads it: tokens, or the numbers of an image."""
    text = line.strip()
    if artifacts.tokenizer is not None:
        return artifacts.encode(text) if text else np.zeros(0)
    if not text:
        return np.zeros(0)
    assert artifacts.shape is not None
    try:
        pixels = np.array([float(word) for word in text.replace(",", " ").split()])
    except ValueError as error:
        raise DataError(f"expected numbers from 0 to 255 in line {number:,}, found something else ({error})") from None
    rows, columns = artifacts.shape
    wanted = rows * columns
    if len(pixels) != wanted or not ((pixels >= 0) & (pixels <= 255)).all():
        raise DataError(
            f"expected the {wanted} pixels of an image of {rows} × {columns}, from 0 to 255, in line "
            f"{number:,}, found {len(pixels)} numbers{'' if len(pixels) != wanted else ', some outside'}"
        )
    return artifacts.lay_out(pixels.reshape(1, *artifacts.shape))[0]


def _answers(model: Any, artifacts: Artifacts, rows: list[np.ndarray], device: torch.device) -> Tensor:
    """Probabilities: B C. The first of the rows is the longest."""
    if artifacts.tokenizer is None:
        x = torch.from_numpy(np.stack(rows)).float().to(device) / 255
        return model(x)[0][:, -1].softmax(dim=-1)
    x = np.zeros((len(rows), len(rows[0])), np.int64)
    for place, row in enumerate(rows):
        x[place, : len(row)] = row
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return model.last(torch.from_numpy(x).to(device), lengths).float().softmax(dim=-1)
