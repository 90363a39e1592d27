"""A trained classifier put to use: labels for new lines, images or recordings."""

# what a program gives is checked whatever its type says, and torch declares some functions in part
# pyright: reportUnnecessaryIsInstance=false, reportUnknownMemberType=false

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from ...core.errors import RecollectError
from ...core.trained import Array, Source, TrainedModel
from ...data.encodings import ENCODING, check_encoding
from ...data.files import DataError, lines
from ...data.sound import Sound, is_sound, read_sound
from ...data.sound.listing import find_recordings, is_recording
from .cells import is_table, read_cells, read_column
from .contributions import Contributions, Rule, contributions
from .labelled import Artifacts, Sounds, load_artifacts
from .recordings import Reader

BATCH = 256
BLOCK = 4096  # lines that are read before they are sorted into batches
SOUND_BLOCK = 256  # recordings
CONTENT_SECONDS = 120.0  # of a recording that is given as content: a packed one may hold hours


class Answer(NamedTuple):
    """The likeliest label of a row, and its probability."""

    label: str
    probability: float


@dataclass(frozen=True)
class Classifier:
    """What a classifier needs to label rows: `answer` gives the probabilities (N C) of rows, the longest first.

    Rows are the tokens of texts, images of rows × columns from 0 to 255, or the frames of recordings (T D).
    """

    artifacts: Artifacts
    answer: Callable[[list[Array]], Array]

    @classmethod
    def of(cls, source: Source) -> "Classifier":
        """That of a run, by the model's own call, or of an exported folder, by its graph."""
        if source.exported is None:
            return cls.of_run(source.run)
        artifacts, graph = load_artifacts(source.artifacts), source.exported.open_call("classify", ["labels"])

        def answer(rows: list[Array]) -> Array:
            if artifacts.kind == "images":
                return np.exp(graph(pictures=np.stack(rows))["labels"])
            if artifacts.sound is not None:
                frames, lengths = pad_frames(artifacts.sound, rows, least=2)
                return np.exp(graph(frames=frames, lengths=lengths)["labels"])
            tokens, lengths = pad(rows, least=2)  # the graph takes no fewer
            return np.exp(graph(tokens=tokens, lengths=lengths)["labels"])

        return cls(artifacts, answer)

    @classmethod
    def of_run(cls, run: Any) -> "Classifier":
        import torch

        model, artifacts = run.model, run.artifacts
        device = next(iter(model.state_dict().values())).device

        @torch.no_grad()
        def answer(rows: list[Array]) -> Array:
            if artifacts.kind == "images":
                x = torch.from_numpy(artifacts.lay_out(np.stack(rows))).float().to(device) / 255
                return model.last(x).softmax(dim=-1).cpu().numpy()
            padded = pad(rows) if artifacts.sound is None else pad_frames(artifacts.sound, rows)
            tokens, lengths = (torch.from_numpy(part).to(device) for part in padded)
            return model.last(tokens, lengths).float().softmax(dim=-1).cpu().numpy()

        return cls(artifacts, answer)


class LabelModel(TrainedModel):
    """A classifier: it labels texts, images or recordings, with the probability of each label."""

    methods = ("classify", "probabilities", "contributions")

    def prepare(self, steps: int = 0) -> None:
        _ = self._classifier

    @cached_property
    def _classifier(self) -> Classifier:
        return Classifier.of(self._source)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it knows, in the order of `probabilities`."""
        return tuple(self._classifier.artifacts.classes)

    def classify(self, rows: Any, *, batch: int = 256) -> Any:
        """The label of a text and its probability, or those of several; None for one without a word that it knows.

        A model of images takes arrays of rows × columns with numbers from 0 to 255, one or several; one of recordings
        takes names of files, their content, or recordings that were read (`Sound`).
        """
        if isinstance(rows, (str, Path, Sound, bytes)):
            return self.classify([rows], batch=batch)[0]
        shape = self._classifier.artifacts.shape
        if shape is not None and np.shape(rows) == tuple(shape):
            return self.classify([rows], batch=batch)[0]
        if not isinstance(rows, Iterable):
            raise RecollectError(f"classify: expected a text or several, found {type(rows).__name__}")
        return list(classify(self._classifier, map(self._as_row, cast(Iterable[Any], rows)), batch=batch))

    def _as_row(self, row: Any) -> Any:
        return as_recording(row) if self._classifier.artifacts.kind == "recordings" else as_line(row)

    def stream(
        self, lines: Iterable[str], *, batch: int = 256, on_unknown: Callable[[int], None] = lambda number: None
    ) -> Iterator[Answer | None]:
        """The answer for each line as it is made; None for an empty one, and for one of nothing but unknown tokens.

        A model of recordings reads a line as the name of a file.
        `on_unknown` is called with the number of each of the latter, counted from 1.
        """
        return classify(self._classifier, lines, batch=batch, on_unknown=on_unknown)

    def read(self, path: Path, column: str | None = None, encoding: str | None = None) -> Iterator[str]:
        """The rows of a file: its lines, or of a table the texts of a column. Images are lines, whatever its name.

        To a model of recordings the file is one, or it has the name of one in each line; a folder has some inside.
        `encoding` is that of files that are no UTF-8, by default as in training.
        """
        if encoding is None:
            encoding = self._source.settings.get("data", {}).get("encoding")
        else:
            check_encoding(encoding)
        if self._classifier.artifacts.kind == "recordings":
            return list_recordings(path, encoding)
        if self._classifier.artifacts.tokenizer is None or not (column or is_table(path)):
            return lines(path, encoding=encoding, flag=ENCODING)
        return read_column(read_cells(path, encoding), str(path), column)

    def probabilities(self, rows: Sequence[Any]) -> Array:
        """The probability of each label (N C), in the order of `labels`; rows as for `classify`, none of them empty."""
        own = self._classifier
        coded = [_code(own.artifacts, self._as_row(row), number) for number, row in enumerate(rows, start=1)]
        if not coded or not all(map(len, coded)):
            raise RecollectError("probabilities: expected rows with something in each, found an empty one or none")
        order = sorted(range(len(coded)), key=lambda number: -len(coded[number]))
        found = np.empty((len(coded), len(own.artifacts.classes)))
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            found[some] = own.answer([coded[n] for n in some])
        return found

    def follow(self, row: Any) -> Array | None:
        """T C: the probabilities after each step of a text or recording, had it ended there.

        None of a model that reads rows from both ends, or of an exported one: these answer for whole rows alone.
        """
        own = self._classifier.artifacts
        coded = _code(own, self._as_row(row), 1)
        if not len(coded):
            raise RecollectError("follow: expected a row with something in it, found an empty one")
        if self._source.exported is not None or not hasattr(self.module, "initial_state"):
            return None
        return follow(self.module, own, coded)

    def frames(self, row: Any) -> Array:
        """The log-mel frames of a recording (T bands), as many as the model reads."""
        if self._classifier.artifacts.sound is None:
            raise RecollectError("frames: expected a model of recordings, found another")
        return _code(self._classifier.artifacts, self._as_row(row), 1)

    @property
    def hop(self) -> float:
        """Seconds from one frame of a recording to the next."""
        sound = self._classifier.artifacts.sound
        if sound is None:
            raise RecollectError("hop: expected a model of recordings, found another")
        return sound.mel.hop / 1_000

    def contributions(self, text: str, rule: Rule = "without") -> Contributions:
        """What each word of a text contributes to each label, in log-odds.

        `without`: how far the log-odds fall when the word is left out. `path`: gradient × input along the path from
        nothing to the text, which sums to the whole.

            >>> model = recollect.load("demo-opinions")
            >>> found = model.contributions("the film was not bad")
            >>> model.labels[int(found.values[3].argmax())]
            'positive'
        """
        return contributions(self, text, rule)


def as_line(row: Any) -> str:
    """A row as `classify` reads it from a file: a text, or the numbers of an image."""
    if row is None or isinstance(row, str):
        return row or ""
    try:
        return " ".join(map(repr, np.asarray(row, float).ravel().tolist()))
    except (TypeError, ValueError) as error:
        raise RecollectError(
            f"classify: expected texts, or images as arrays of numbers, found {type(row).__name__} ({error})"
        ) from None


def classify(
    classifier: Classifier,
    lines: Iterable[str | Sound],
    *,
    batch: int = 256,
    on_unknown: Callable[[int], None] = lambda number: None,
) -> Iterator[Answer | None]:
    """The label of each line and its probability, in order; None for a line with nothing in it that is known.

    A run on images reads lines of rows·columns numbers from 0 to 255, with blanks or commas between; one on recordings
    names of files.
    """
    source, at = iter(lines), 0
    while block := list(islice(source, BLOCK if classifier.artifacts.sound is None else SOUND_BLOCK)):
        coded = [_code(classifier.artifacts, line, at + number) for number, line in enumerate(block, start=1)]
        filled: list[int] = []
        for number, row in enumerate(coded):
            if classifier.artifacts.is_unknown(row):
                on_unknown(at + number + 1)
            elif len(row):
                filled.append(number)
        at += len(block)
        filled.sort(key=lambda number: -len(coded[number]))
        found: dict[int, Answer] = {}
        for start in range(0, len(filled), batch):
            some = filled[start : start + batch]
            answers = classifier.answer([coded[n] for n in some])
            names: list[str] = [classifier.artifacts.classes[label] for label in answers.argmax(axis=1)]
            found |= dict(zip(some, map(Answer, names, answers.max(axis=1).tolist()), strict=True))
        yield from (found.get(number) for number in range(len(block)))


def follow(module: Any, artifacts: Artifacts, row: Array) -> Array:
    """The probabilities after each step of a row, by the model's own call."""
    import torch

    device = next(iter(module.state_dict().values())).device
    if artifacts.kind == "images":
        x = torch.from_numpy(artifacts.lay_out(row[None])).float() / 255
    else:
        x = torch.from_numpy(row.astype(np.int64) if artifacts.sound is None else artifacts.sound.prepare(row))[None]
    with torch.no_grad():
        y, _ = module(x.to(device))
    return y[0].float().softmax(dim=-1).cpu().numpy()


def as_recording(row: Any) -> str | Sound:
    """A recording as `classify` takes it: the name of a file, its content, or one that was read."""
    if row is None or isinstance(row, str | Sound):
        return row or ""
    if isinstance(row, bytes):
        return read_sound(row, seconds=CONTENT_SECONDS)
    if isinstance(row, Path):
        return str(row)
    raise RecollectError(f"classify: expected names of recordings, or recordings, found {type(row).__name__}")


def list_recordings(path: Path, encoding: str | None = None) -> Iterator[str]:
    """The names of recordings that a file or folder stands for."""
    if path.is_dir():
        found = find_recordings(path)
        if not found:
            raise DataError(f"expected recordings in {path}, found none; name another folder, or a file")
        return map(str, found)
    return iter([str(path)]) if is_recording(path) or is_sound(path) else lines(path, encoding=encoding, flag=ENCODING)


def _code(artifacts: Artifacts, line: str | Sound, number: int) -> np.ndarray:
    """A line as numbers: tokens, an image of rows × columns, or the frames of a recording."""
    if artifacts.sound is not None:
        reader = Reader(mel=artifacts.sound.mel, longest=artifacts.longest)
        if isinstance(line, Sound):
            return reader.convert(line, f"recording {number:,}")
        return reader.read(line.strip()) if line.strip() else np.zeros(0)
    assert isinstance(line, str)
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
    return pixels.reshape(artifacts.shape)


def pad(rows: Sequence[Array], least: int = 0) -> tuple[Array, Array]:
    """Rows of tokens as one array, at least so wide, and their lengths."""
    lengths = np.array([len(row) for row in rows])
    tokens = np.zeros((len(rows), max(least, lengths.max())), np.int64)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = row
    return tokens, lengths


def pad_frames(sounds: Sounds, rows: Sequence[Array], least: int = 0) -> tuple[Array, Array]:
    """Frames of recordings as one array on the scale of training, at least so long, and their lengths."""
    lengths = np.array([len(row) for row in rows])
    frames = np.zeros((len(rows), max(least, lengths.max()), sounds.mel.bands), np.float32)
    for place, row in enumerate(rows):
        frames[place, : len(row)] = sounds.prepare(row)
    return frames, lengths


MODELS = {"labels": LabelModel}
