"""A trained transcriber in use: recordings in, texts out, with where in the sound each character was heard."""

# what a program gives is checked whatever its type says
# pyright: reportUnnecessaryIsInstance=false, reportUnknownMemberType=false

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from ...core.artifacts import artifact_path
from ...core.errors import RecollectError
from ...core.task import LoadedRun
from ...core.trained import Array, check_options
from ...data.sound import SoundError, read_blocks, read_sound
from ...data.sound.resample import Resampler
from ...decode import beam
from ...decode import ctc as paths
from ...decode.beam import Config as Search
from ...decode.beam import Hypothesis
from ...decode.exported import open_decoder
from ...decode.position import device_of
from ...models import classifier, ctc
from ..decoding import MANY, DecodingModel, search_settings
from .exported import ExportedCtc
from .parts import limit
from .transcribed import Artifacts, load_artifacts, pad

TOGETHER = 16  # recordings that are transcribed at once
SECONDS = 120.0  # of a recording that is read whole
STREAMED = 86_400.0  # of one that is read as it comes in
OPTIONS = ("beam", "nbest", "length_penalty", "alignment", "layer", "head", "rate")

Posteriors = Callable[[Tensor, Tensor], Tensor]


class Heard(NamedTuple):
    """A recording and its texts."""

    file: str
    frames: Tensor  # F bands, on the scale of training
    steps: Tensor  # S D
    found: list[Hypothesis]  # best first
    texts: list[str]


@dataclass(frozen=True)
class Transcript:
    """A recording's texts, best first; with `alignment=True` also where in the sound each character was heard."""

    file: str
    seconds: float
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    finished: tuple[bool, ...]
    characters: tuple[str, ...] = ()  # of the best text; of decoders its end included
    alignment: Array | None = None  # characters × steps: attention, probabilities by CTC, or influence by gradient
    step: float = 0.0  # seconds of a step
    spans: tuple[tuple[float, float], ...] = ()  # by CTC: seconds from and to which each character was heard
    spectrum: Array | None = None  # frames × bands
    kind: str = ""  # what the alignment is
    unit: str = ""  # and what its numbers are: shares of each character's weights, or probabilities

    @property
    def text(self) -> str:
        """The best text."""
        return self.texts[0] if self.texts else ""

    def __str__(self) -> str:
        return self.text


class TranscribeModel(DecodingModel):
    """A transcriber: it writes what is said in recordings, and shows where in the sound it heard each character."""

    methods = ("transcribe", "listen")

    def transcribe(self, sounds: Any, **options: Any) -> Transcript | list[Transcript]:
        """The text of a recording, or those of several: files, their content, or arrays of samples.

        Options: `beam` (1 is greedy), `nbest`, `length_penalty`; `rate` of the samples of arrays (default: that of the
        run); `alignment=True` adds where each character was heard, by `layer` and `head` (default: the mean).
        """
        check_options("transcribe", options, OPTIONS)
        if not isinstance(sounds, list | tuple) or (sounds and isinstance(sounds[0], int | float)):
            return next(self.stream([sounds], **options))
        return list(self.stream(cast(Sequence[Any], sounds), **options))

    def stream(
        self,
        sounds: Iterable[Any],
        *,
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        alignment: bool = False,
        layer: int | None = None,
        head: int | None = None,
        rate: int | None = None,
    ) -> Iterator[Transcript]:
        """Transcripts one by one as they are made; else as `transcribe`."""
        own = self._search_defaults
        given = {"beam": max(own.beam, nbest) if beam is None else beam, "nbest": nbest}
        given |= {} if length_penalty is None else {"length_penalty": length_penalty}
        count = len(sounds) if isinstance(sounds, Sequence) else 0
        artifacts, model = self._artifacts, self._recogniser(count)
        read = ((name_of(sound), read_samples(sound, artifacts.mel.rate, rate)) for sound in sounds)
        for heard in hear(model, artifacts, read, replace(own, **given)):
            yield self._describe(heard, alignment, layer, head)

    def listen(self, chunks: Iterable[Any], rate: int | None = None) -> Iterator[str]:
        """The text as the sound comes in: `chunks` of samples in, characters out as soon as they are known.

        Of a model by CTC that goes from left to right; the text is that of the likeliest path (beam 1).
        """
        model, artifacts = self._recogniser(1), self._artifacts
        streamed = getattr(model, "streamed", None)
        if streamed is None and isinstance(model, classifier.Classifier):
            streamed = partial(_step_model, model)
        if streamed is None:
            raise RecollectError(
                f"listen: expected a model by ctc without both_ways, found {self.model}"
                f"{' with it' if isinstance(model, ctc.BothWays) else ''}, which reads a recording whole; use "
                "transcribe"
            )
        return _listen(streamed, artifacts, chunks, rate)

    def open(self, file: str | Path | bytes) -> Iterator[np.ndarray]:
        """The samples of a file in blocks, at the rate of the run, for `listen`: of any length up to a day."""
        return read_blocks(file, self._artifacts.mel.rate, seconds=STREAMED)

    @cached_property
    def _artifacts(self) -> Artifacts:
        return load_artifacts(artifact_path(self._source.artifacts, "characters.json"))

    def _recogniser(self, count: int) -> Any:
        """What turns steps into texts: the model, with an exported step where there is one, or an exported folder."""
        exported = self._source.exported
        if exported is None:
            model = self._source.run.model
            return model if posteriors_of(model) else self._decoder(count)
        if "encode" in exported.manifest.graphs:
            threads = 1 if count >= MANY else None
            if threads not in self._exported_decoders:
                self._exported_decoders[threads] = open_decoder(exported, threads)
            return self._exported_decoders[threads]
        return ExportedCtc(exported)

    def _describe(self, heard: Heard, alignment: bool, layer: int | None, head: int | None) -> Transcript:
        more: dict[str, Any] = {}
        if alignment and heard.found:
            from .instruments import align

            found = align(self._source.run, heard.steps, heard.found[0], layer=layer, head=head)
            more = {
                "characters": tuple(found.characters),
                "alignment": found.weights.numpy(),
                "spans": tuple(found.spans),
                "spectrum": heard.frames.numpy(),
                "kind": found.kind,
                "unit": found.unit,
                "step": self._artifacts.seconds,
            }
        mel = self._artifacts.mel
        return Transcript(
            file=heard.file,
            seconds=len(heard.frames) * mel.hop_samples / mel.rate,
            texts=tuple(heard.texts),
            scores=tuple(hypothesis.score for hypothesis in heard.found),
            finished=tuple(hypothesis.finished for hypothesis in heard.found),
            **more,
        )


def name_of(sound: Any) -> str:
    return str(sound) if isinstance(sound, str | Path) else "the recording"


def read_samples(sound: Any, wanted: int, rate: int | None = None) -> np.ndarray:
    """A sound as samples at the rate that is wanted: a file, its content, or an array of samples."""
    if isinstance(sound, str | Path | bytes):
        try:
            return limit(read_sound(sound, wanted, seconds=SECONDS).samples)
        except SoundError as error:
            if "of at most" in str(error) and " s, found" in str(error):
                raise SoundError(
                    f"{error}; a model by ctc without both_ways reads recordings of any length with --stream"
                ) from None
            raise
    return as_samples(sound, wanted, rate)


def as_samples(sound: Any, wanted: int, rate: int | None = None) -> np.ndarray:
    """An array of samples at the rate that is wanted; several channels (samples × channels) become their mean."""
    try:
        found = np.asarray(sound, np.float32)
    except (TypeError, ValueError) as error:
        raise RecollectError(
            f"transcribe: expected a file or an array of samples, found {type(sound).__name__} ({error})"
        ) from None
    if found.ndim == 2 and 0 < found.shape[1] <= 64:
        found = found.mean(axis=1)
    if found.ndim != 1 or not len(found):
        raise RecollectError(f"transcribe: expected samples, found an array of shape {np.shape(sound)}")
    if not np.isfinite(found).all():
        raise RecollectError("transcribe: expected samples that are numbers, found NaN or infinity among them")
    if rate not in (None, wanted):
        resample = Resampler(int(rate), wanted)  # type: ignore[arg-type]
        found = np.concatenate([resample(found), resample.finish()])
    if len(found) > SECONDS * wanted:
        raise RecollectError(
            f"transcribe: expected at most {SECONDS:g} s of sound, found {len(found) / wanted:,.1f} s; cut it into "
            "parts, or give it to `listen` in chunks"
        )
    return limit(found)


@torch.inference_mode()
def hear(model: Any, artifacts: Artifacts, sounds: Iterable[tuple[str, np.ndarray]], search: Search) -> Iterator[Heard]:
    """The texts of each recording, in order."""
    waiting = iter(sounds)
    while some := list(islice(waiting, TOGETHER)):
        frames = [artifacts.scaled(artifacts.mel.frames(samples)) for _, samples in some]
        steps = [artifacts.steps(samples) for _, samples in some]
        padded, lengths = (part.to(device_of(model)) for part in pad(steps))
        lists = find_texts(model, artifacts, padded, lengths, search)
        for (name, _), spectrum, own, found in zip(some, frames, steps, lists, strict=True):
            texts = [artifacts.tokenizer.decode(hypothesis.tokens) for hypothesis in found]
            yield Heard(name, spectrum, own, found, texts)


def transcribe(
    run: LoadedRun[Any, Any], sounds: Iterable[str | Path | bytes], search: Search | None = None
) -> Iterator[Heard]:
    """The texts of each recording by a run's model, in order."""
    read = ((name_of(sound), read_samples(sound, run.artifacts.mel.rate)) for sound in sounds)
    return hear(run.model, run.artifacts, read, search or search_settings(run.config.task))


def posteriors_of(model: Any) -> Posteriors | None:
    """What gives the log-probabilities of each step (B S C) of a model by CTC; None of a decoder."""
    if isinstance(model, classifier.Classifier | ctc.BothWays):
        return partial(ctc.log_probabilities, model)
    return getattr(model, "log_probabilities", None)


def find_texts(
    model: Any, artifacts: Artifacts, frames: Tensor, lengths: Tensor, search: Search
) -> list[list[Hypothesis]]:
    """The n-best texts of each row of steps (B S D)."""
    tokenizer = artifacts.tokenizer
    posteriors = posteriors_of(model)
    if posteriors is None:
        banned = [tokenizer.pad, tokenizer.begin, *artifacts.banned]
        memory = model.encode(frames, lengths)
        return beam.search(model, memory, begin=tokenizer.begin, end=tokenizer.end, config=search, banned=banned)
    rows = [int(length) for length in lengths]
    logp = posteriors(frames, lengths).cpu().numpy()
    return [read_paths(logp[row, :length], artifacts, search) for row, length in enumerate(rows)]


def read_paths(logp: Array, artifacts: Artifacts, search: Search) -> list[Hypothesis]:
    """The n-best texts of log-probabilities (S C) by CTC: of a beam of 1 that of the likeliest path."""
    if search.beam == 1:
        texts = [paths.best_path(logp, banned=artifacts.banned)]
    else:
        texts = paths.search(logp, beam=search.beam, nbest=search.nbest, banned=artifacts.banned)
    return [Hypothesis(text.tokens, text.logprob, text.logprob, True) for text in texts]


def _step_model(model: Any, steps: Tensor, state: Any) -> tuple[Tensor, Any]:
    """The log-probabilities of further steps (1 S D), and the state after them."""
    y, state = model(steps.to(device_of(model)), state)
    return y.log_softmax(dim=-1), state


@torch.inference_mode()
def _listen(streamed: Any, artifacts: Artifacts, chunks: Iterable[Any], rate: int | None) -> Iterator[str]:
    mel, wanted = artifacts.mel, artifacts.mel.rate
    resample = None if rate in (None, wanted) else Resampler(int(rate), wanted)  # type: ignore[arg-type]
    tail: Tensor | None = None
    waiting: Tensor | None = None  # frames that fill no step yet
    state, heard = None, None

    def read(samples: np.ndarray) -> str:
        nonlocal tail, waiting, state, heard
        frames, tail = mel.stream(samples, tail)
        frames = artifacts.scaled(frames)
        frames = frames if waiting is None else torch.cat([waiting, frames])
        steps = artifacts.stacked(frames)
        waiting = frames[len(steps) * artifacts.stack :]
        if not len(steps):
            return ""
        logp, state = streamed(steps[None], state)
        more, heard = paths.read_chunk(logp[0].cpu().numpy(), heard, banned=artifacts.banned)
        return artifacts.tokenizer.decode_prepared(more)

    for chunk in chunks:
        samples = np.asarray(chunk, np.float32)
        if samples.ndim != 1 or not np.isfinite(samples).all():
            raise RecollectError(f"listen: expected chunks of samples, found one of shape {samples.shape}")
        if text := read(samples if resample is None else resample(samples)):
            yield text
    if resample is not None and (text := read(resample.finish())):
        yield text


MODELS = {"transcribe": TranscribeModel}
