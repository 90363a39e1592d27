"""A trained translator in use: lines in, translations out, with their alignments."""

# what a program gives is checked whatever its type says
# pyright: reportUnnecessaryIsInstance=false

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...core.artifacts import artifact_path
from ...core.contract import ContractError
from ...core.errors import RecollectError
from ...core.task import LoadedRun
from ...core.trained import Array, check_options, check_text
from ...data.limits import SENTENCE
from ...data.tokenizers.sentences import TokenizerPair, load_pair
from ...decode.beam import Config as Search
from ...decode.beam import Hypothesis
from ...decode.translate import LINES, hypotheses, lines, one_line
from ..decoding import DecodingModel, search_settings

MEAN, INFLUENCE = "mean", "influence"  # maps beside those of layers and heads
OPTIONS = (*(own.name for own in fields(Search)), "alignments", "layer", "head", "together")


@dataclass(frozen=True)
class Translation:
    """A line and its translations, best first; an empty line has none, and neither has one of unknown tokens alone."""

    source: str
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    finished: tuple[bool, ...]  # whether each ended by itself, and not at the limit
    alignment: Array | None = None  # T S, of the best: weights over the source for each token written, ends included
    source_tokens: tuple[str, ...] = ()
    target_tokens: tuple[str, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()  # words: (source, target)
    kind: str = ""  # what the alignment is: attention, or influence by gradient
    unknown: bool = False  # whether the line has tokens, and none of them is in the vocabulary

    @property
    def text(self) -> str:
        """The best translation."""
        return self.texts[0] if self.texts else ""

    def __str__(self) -> str:
        return self.text


class Trace(NamedTuple):
    """Weights of one translation; tokens have their ends, and of each the word that it belongs to (−1: the end's)."""

    source: tuple[str, ...]  # S
    target: tuple[str, ...]  # T
    source_words: tuple[int, ...]
    target_words: tuple[int, ...]
    maps: dict[str, Array]  # `layer 1 head 1` …, their `mean`, where there is attention; `influence`: T S each

    @property
    def attends(self) -> bool:
        """Whether the translator has weights of its own."""
        return MEAN in self.maps


def check_lengths(texts: Iterable[str]) -> Iterator[str]:
    """The texts, each refused where it is longer than a sentence of a file may be: its search would take hours."""
    for number, text in enumerate(texts, 1):
        if len(text) > SENTENCE:
            raise RecollectError(
                f"line {number}: expected at most {SENTENCE:,} characters, found {len(text):,}; break it up"
            )
        yield text


class TranslationModel(DecodingModel):
    """A translator: it translates lines, and shows which source words each word came from."""

    methods = ("translate", "explain", "trace")

    def translate(self, text: str | Iterable[str], **options: Any) -> Translation | list[Translation]:
        """The translation of a line, or those of several lines, in their order.

        Options: `beam` (1 is greedy), `nbest`, `length_penalty`, `coverage`, or `temperature`, `top_k`, `top_p` and
        `seed` to sample; `alignments=True` adds where each word came from, by `layer` and `head` (default: the mean).

            >>> model = recollect.load("demo-translation")
            >>> model.translate("twenty-one").text
            'vingt et un'
        """
        check_options("translate", options, OPTIONS)
        if isinstance(text, str):
            return next(self.stream([text], **options))
        texts = list(text) if isinstance(text, Iterable) else [text]
        return list(self.stream([check_text("translate", each) for each in texts], **options))

    def stream(
        self,
        texts: Iterable[str],
        *,
        beam: int | None = None,
        nbest: int = 1,
        alignments: bool = False,
        layer: int | None = None,
        head: int | None = None,
        together: int = LINES,
        **options: Any,
    ) -> Iterator[Translation]:
        """Translations one by one as they are made, `together` lines at a time; else as `translate`."""
        source, target = self.tokenizers
        search = self._search(beam, nbest, options)
        count = len(texts) if isinstance(texts, Sequence) else 0
        decoder = self._decoder(count, exported=not search.coverage)  # coverage reads the model at every step
        for line, ids, found in lines(decoder, source, target, check_lengths(texts), search, together=together):
            yield self._describe(line, ids, found, alignments, layer, head)

    def trace(
        self, text: str, *, beam: int | None = None, nbest: int = 1, **options: Any
    ) -> tuple[Translation, tuple[Trace, ...]]:
        """The translations of a line, and where each came from, by every layer and head, and by influence.

        >>> model = recollect.load("demo-translation")
        >>> translation, (first,) = model.trace("six")
        >>> translation.text, list(first.maps)
        ('six', ['layer 1 head 1', 'mean', 'influence'])
        """
        from .tracing import trace

        check_options("trace", options, OPTIONS)
        search = self._search(beam, nbest, options)
        decoder = self._decoder(1, exported=not search.coverage)
        source, target = self.tokenizers
        ((line, ids, found),) = lines(decoder, source, target, check_lengths([text]), search)
        traces = tuple(trace(self._source.run, ids, hypothesis) for hypothesis in found)
        return self._describe(line, ids, found, False, None, None), traces

    def _search(self, beam: int | None, nbest: int, options: dict[str, Any]) -> Search:
        own = self._search_defaults
        if beam is None:
            beam = 1 if options.get("temperature") is not None else max(own.beam, nbest)
        given = {"beam": beam, "nbest": nbest} | options
        try:
            return replace(own, **{name: value for name, value in given.items() if value is not None})
        except TypeError as error:
            raise RecollectError(f"translate: expected options of the search, found another ({error})") from None

    def _describe(
        self, line: str, ids: Array, found: list[Hypothesis], alignments: bool, layer: int | None, head: int | None
    ) -> Translation:
        target = self.tokenizers[1]
        more: dict[str, Any] = {}
        if found and alignments:
            from .instruments import align

            aligned = align(self._source.run, ids, found[0], layer=layer, head=head)
            more = {
                "alignment": aligned.weights.numpy(),
                "source_tokens": tuple(aligned.source),
                "target_tokens": tuple(aligned.target),
                "pairs": tuple(aligned.pairs),
                "kind": aligned.kind,
            }
        return Translation(
            source=line,
            texts=tuple(one_line(target.decode(hypothesis.tokens)) for hypothesis in found),
            scores=tuple(hypothesis.score for hypothesis in found),
            finished=tuple(hypothesis.finished for hypothesis in found),
            unknown=bool(len(ids)) and not found,
            **more,
        )

    def explain(self, text: str) -> dict[str, Array]:
        """Where each layer and head looked as the best translation was written: T S each, by name."""
        from ...decode.translate import encode, looks

        run = self._source.run
        ids, best = translate(run, text)
        memory = encode(run.model, run.artifacts[0], [ids])
        found = looks(run.model, memory, best.tokens, run.artifacts[1].begin)
        return {name: weights.numpy() for name, weights in found.items()}

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        """Those of the source and of the target."""
        return load_pair(artifact_path(self._source.artifacts, "tokenizer.json"))


def translate(run: LoadedRun[Any, Any], text: str) -> tuple[np.ndarray, Hypothesis]:
    """The tokens of a text, and the best translation by the run's own search."""
    source, target = run.artifacts
    ids = source.encode(text)
    if not len(ids):
        raise ContractError("--text: expected a sentence to translate, found nothing in it")
    return ids, hypotheses(run.model, source, target, [ids], search_settings(run.config.task))[0][0]


MODELS = {"translation": TranslationModel}
