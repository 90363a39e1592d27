"""A run opened for the instruments: its model beside rows of its own validation data, or of what is given."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.contract import ContractError
from ..data.text import Unreachable
from ..decode.beam import Hypothesis
from ..decode.engine import Engine
from ..decode.position import device_of
from ..decode.sampling import Config as Drawing
from ..decode.translate import hypotheses, pad
from ..models.forecaster_memory import Stepper
from ..tasks import captions
from ..train import captions as caption_job
from ..train import jobs
from ..train.folder import RunError
from ..train.job import Job, Used
from .subject import Subject, Whole


@dataclass(frozen=True, kw_only=True)
class Ask:
    """How much of the data is looked at, or what in its place: a `text`, or an `image`. None: as the run has it."""

    rows: int = 1
    steps: int | None = None
    text: str | None = None
    image: str | None = None


@dataclass
class Opened:
    """A run, and its data once they are needed."""

    path: str
    job: Job[Any, Any]
    used: Used[Any]
    device: str = "cpu"
    data_dir: str | None = None
    missing: str | None = None  # why its data could not be had, where it reads something else

    @cached_property
    def data(self) -> Any:
        return self.job.read(self.used.run.data, self.data_dir, self.used.kept)

    @cached_property
    def task(self) -> Any:
        return self.job.task(self.used.run, self.data, self.device)

    @property
    def notes(self) -> list[str]:
        """What should be known of the data, if they were needed."""
        changed = self.job.changed(self.used, self.data) if "data" in vars(self) else None
        missing = self.missing and f"a text of the model's own is read, since its data are not at hand: {self.missing}"
        return [note for note in (changed, missing) if note]

    @property
    def name(self) -> str:
        return f"{self.used.run.model['name']} ({Path(self.path).name})"

    def subject(self, ask: Ask) -> Subject:
        """The run's model beside rows of data."""
        if self.job.name == "ratings":
            raise RunError(
                f"{self.path}: expected a model that reads a sequence, found ratings; ask for directions or nearest"
            )
        for flag, value in (("rows", ask.rows), ("steps", ask.steps)):
            if value is not None and value < 1:
                raise ContractError(f"--{flag}: expected at least 1, found {value}")
        if ask.text is not None and self.job.name not in TEXTS:
            raise ContractError(f"--text: expected a run of {', '.join(TEXTS)}, found one of {self.job.name}")
        if ask.image is not None and self.job.name != "captions":
            raise ContractError(f"--image: expected a run of captions, found one of {self.job.name}")
        return SUBJECTS.get(self.job.name, of_memory)(self, ask)


TEXTS = ("text", "labels", "translation")


def open_run(path: str | Path, *, device: str = "cpu", data_dir: str | None = None) -> Opened:
    job = jobs.job_of(path)
    return Opened(str(path), job, job.load(path, device), device, data_dir)


def spread(count: int, rows: int) -> np.ndarray:
    """So many of `count` places, evenly from the first to the last."""
    return np.unique(np.linspace(0, count - 1, min(rows, count)).astype(np.int64))


def of_text(run: Opened, ask: Ask) -> Subject:
    tokenizer, model = run.used.kept, run.used.model
    if ask.text is not None:
        windows = tokenizer.encode(ask.text)[None].astype(np.int64)
        if windows.shape[1] < 2:
            raise ContractError(f"--text: expected at least two tokens, found {windows.shape[1]}")
        about = "the given text"
    else:
        steps = ask.steps or run.used.run.task.context
        try:
            tokens, whose = run.task.tokens("valid"), "validation"
            steps = min(steps, len(tokens) - 1)
            starts = spread(len(tokens) - steps, ask.rows)
            windows = np.stack([tokens[at : at + steps + 1] for at in starts]).astype(np.int64)
        except Unreachable as error:
            run.missing, whose = str(error), "its own writing"
            windows = own_writing(model, ask.rows, steps + 1)
        about = f"{len(windows)} windows of {steps} tokens of {whose}"
    whole = torch.from_numpy(windows).to(run.device)
    x, y = whole[:, :-1], whole[:, 1:]
    names = [tokenizer.token(int(token)) for token in windows[0]]
    return Subject(
        model=model,
        x=x,
        y=y,
        places=range(x.shape[1]),
        inputs=names[:-1],
        outputs=names[1:],
        encode=tokenizer.encode,
        stepper=model,
        steps=x,
        data=about,
    )


def own_writing(model: Any, rows: int, length: int) -> np.ndarray:
    """Texts that the model draws, rows × length; each begins with another token, and the same ones every time."""
    begins = spread(model.config.vocab, rows)[:, None]
    if length == 1:
        return begins
    engine = Engine(model, len(begins), length)
    position = engine.read_prompts(begins.tolist())
    for _ in engine.blocks(position, Drawing(length=length - 1)):
        pass
    return np.array(position.written, dtype=np.int64)


def of_labels(run: Opened, ask: Ask) -> Subject:
    kept, model = run.used.kept, run.used.model
    if ask.text is not None:
        if kept.tokenizer is None:
            raise ContractError("--text: expected a run that reads texts, found one that reads images")
        x = torch.from_numpy(kept.encode(ask.text).astype(np.int64))[None].to(run.device)
        if not x.shape[1]:
            raise ContractError("--text: expected at least one token, found none")
        label = model(x, model.initial_state(1))[0][:, -1].argmax(dim=-1)  # what it says, since nobody tells
        about = "the given text, judged by the model's own answer"
    else:
        rows = run.task.rows("valid")
        steps = min(ask.steps or run.used.run.task.length or int(np.median(rows.sizes)), int(rows.sizes.max()))
        long = np.flatnonzero(rows.sizes >= steps)
        some = long[spread(len(long), ask.rows)]
        batch = rows.take(some)
        x, label = batch.x[:, :steps], batch.y
        about = f"the first {steps} steps of {len(some)} rows of validation"
    steps = x.shape[1]
    tokens = x[0].tolist()
    names = [str(t + 1) for t in range(steps)] if kept.tokenizer is None else [kept.tokenizer.token(t) for t in tokens]
    return Subject(
        model=model,
        x=x,
        y=label[:, None].expand(-1, steps),
        places=range(steps),
        inputs=names,
        outputs=[f"{kept.classes[int(label[0])]} after {t + 1}" for t in range(steps)],
        encode=None if kept.tokenizer is None else kept.encode,
        stepper=model,
        steps=x,
        data=about,
    )


def of_memory(run: Opened, ask: Ask) -> Subject:
    """A test of memory: what is asked is what the test asks; rows end with their last question."""
    test, model = run.data, run.used.model
    batch = next(run.task.batches("valid", 0))
    at, y = batch.at[:, -test.judged :], batch.y[:, -test.judged :]  # its questions come last
    order = at[0].argsort()
    at, y = at[:, order], y[:, order]
    same = (at == at[:1]).all(dim=1).nonzero()[:, 0][: ask.rows]
    end = int(at[0, -1]) + 1
    if ask.steps not in (None, end):
        raise ContractError(f"--steps: expected the {end} steps of a row of {test.kind}, found {ask.steps}; leave it")
    x, y = batch.x[same, :end], y[same]
    numbers = x.is_floating_point()
    shown = (f"{row[0]:.2f}{'*' if row[-1] else ''}" if numbers else test.word(row) for row in x[0].tolist())
    return Subject(
        model=model,
        x=x,
        y=y[..., None] if numbers else y,
        places=at[0].tolist(),
        inputs=list(shown),
        outputs=[f"{value:.2f}" if numbers else test.word(value) for value in y[0].tolist()],
        chances=test.tokens,
        stepper=model,
        steps=x,
        data=f"{len(x)} rows of validation, {test.name}",
    )


def of_series(run: Opened, ask: Ask) -> Subject:
    forecaster, task = run.used.model, run.task
    if ask.steps is not None:
        raise ContractError(f"--steps: expected the look-back of the run, found {ask.steps}; leave it")
    origins = task.origins("valid")
    batch = task.window([origins[int(i)] for i in spread(len(origins), ask.rows)])
    stepper = steps = None
    if isinstance(forecaster.memory, Stepper):
        stepper, steps = forecaster.memory, forecaster.steps_of(batch.x)
    lookback, horizon = batch.x.shape[1], batch.y.shape[1]
    return Subject(
        model=Whole(forecaster),
        x=batch.x,
        y=batch.y,
        places=range(horizon),
        inputs=[str(t - lookback + 1) for t in range(lookback)],
        outputs=[f"+{h + 1}" for h in range(horizon)],
        chances=False,
        ahead=True,
        stepper=stepper,
        steps=steps,
        data=f"{len(batch.x)} windows of validation",
    )


def of_translation(run: Opened, ask: Ask) -> Subject:
    source, target = run.used.kept
    if ask.text is not None:
        ids, best = translated(run, ask.text)
        rows, written = [ids], [np.array(best.tokens, np.int64)]
        about = "the given text, and the model's own translation of it"
    else:
        pairs = run.task.pairs("valid")
        some = _of_length(pairs.target_lengths + 1, ask)
        rows, written = [pairs.source_of(i) for i in some], [pairs.target_of(i) for i in some]
        about = f"{len(some)} pairs of validation"
    read, lengths = pad([np.append(row, source.end) for row in rows], source.pad, device_of(run.used.model))
    names = source.pieces(read[0, : int(lengths[0])].tolist())
    return _decoding(run, target, written, ask, (read, lengths), names, about)


def of_captions(run: Opened, ask: Ask) -> Subject:
    model, kept = run.used.model, run.used.kept
    if ask.image is not None:
        found = described(run, ask.image)
        images, written = found.image[None], [np.array(found.found[0].tokens, np.int64)]
        about = "the given picture, and the model's own caption of it"
    else:
        part = run.task.part("valid")
        lengths = np.diff(part.offsets)[part.first[:-1]] + 1
        some = _of_length(lengths, ask)
        images, written = part.images[some], [part.tokens_of(part.first[i]) for i in some]
        about = f"{len(some)} pictures of validation with a caption each"
    seen = captions.numbers(torch.from_numpy(np.asarray(images)).to(device_of(model)), model)
    return _decoding(run, kept.side, written, ask, (seen,), (), about)


def translated(run: Opened, text: str) -> tuple[np.ndarray, Hypothesis]:
    """The tokens of a text, and its translation by the run's own search."""
    source, target = run.used.kept
    ids = source.encode(text)
    if not len(ids):
        raise ContractError("--text: expected a sentence to translate, found nothing in it")
    return ids, hypotheses(run.used.model, source, target, [ids], run.used.run.task.search())[0][0]


def described(run: Opened, image: str) -> caption_job.Described:
    return next(caption_job.caption(run.used, [image]))


def _of_length(lengths: np.ndarray, ask: Ask) -> np.ndarray:
    """Rows that have at least the steps asked for (none: as many as half of them have), evenly spread."""
    steps = min(ask.steps or int(np.median(lengths)), int(lengths.max()))
    long = np.flatnonzero(lengths >= steps)
    return long[spread(len(long), ask.rows)]


def _decoding(
    run: Opened, side: Any, written: list[np.ndarray], ask: Ask, source: tuple[Tensor, ...], names: Any, about: str
) -> Subject:
    """What a decoder reads (begin, y₁, y₂, …) and should write (y₁, y₂, …, end), cut to the shortest row."""
    steps = min(len(row) + 1 for row in written)
    x = torch.from_numpy(np.stack([np.insert(row, 0, side.begin)[:steps] for row in written]).astype(np.int64))
    y = torch.from_numpy(np.stack([np.append(row, side.end)[:steps] for row in written]).astype(np.int64))
    model = run.used.model
    return Subject(
        model=model,
        x=x.to(run.device),
        y=y.to(run.device),
        places=range(steps),
        inputs=side.pieces(x[0].tolist()),
        outputs=side.pieces(y[0].tolist()),
        source=source,
        source_names=list(names),
        encode=side.encode,
        stepper=model,
        steps=x.to(run.device),
        data=f"{about}, the first {steps} tokens written",
    )


SUBJECTS: dict[str, Callable[[Opened, Ask], Subject]] = {
    "text": of_text,
    "labels": of_labels,
    "series": of_series,
    "translation": of_translation,
    "captions": of_captions,
}
