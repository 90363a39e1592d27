"""The instrument gaze: where the words of a run's own caption came from."""

from dataclasses import dataclass
from typing import Any

from ...core.chart import Map
from ...core.inspection import Instrument, Reading
from ...core.settings import option
from ...core.task import LoadedRun


@dataclass(frozen=True, kw_only=True)
class Options:
    image: str | None = option(None, "Of captions and films: this picture or film.")
    layer: int | None = option(None, "The attention of this layer.")
    head: int | None = option(None, "Of alignment and gaze: this head.")


def read_gaze(run: LoadedRun[Any, Any], options: Options) -> Reading:
    """Of the given picture or film, or the first of validation."""
    kind_of_run: Any = run.kind  # a CaptioningTask, as the owner of this instrument
    found = kind_of_run.look(run, options.image, options.layer, options.head)
    words, kind = found.gaze.words, found.gaze.kind
    chart = Map(title=kind, x=found.places, y="word", values=found.weights.tolist(), rows=words, unit="share")
    figures = {"words": words, "kind": kind, "weights": found.gaze.weights.tolist()}
    text = run.artifacts.tokenizer.decode(found.tokens)
    return Reading(summary=[text, kind], figures=figures, charts=[chart], picture=found.shown)


INSTRUMENTS = (Instrument("gaze", Options, read_gaze),)
