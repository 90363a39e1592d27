"""Draw docs/films.svg, rendered films and the same run backwards, frame by frame: python -m tools.films"""

from pathlib import Path

import numpy as np

from recollect.report.drawing import chart, svg
from recollect.report.drawing.pixels import png
from recollect.tasks.captions.films import scenes

PATH = Path(__file__).resolve().parents[1] / "docs" / "films.svg"
SHOWN = (1, 4, 13)  # films of training
SIDE, GAP, LINE = 72.0, 5.0, 20.0


def document() -> str:
    """Each film with its caption, then the same frames the other way with theirs."""
    parts, top, wide = [], 0.0, 0.0
    for number in SHOWN:
        film = scenes.film("train", number)
        for frames, caption in ((film.frames, film.caption), (film.frames[::-1], backwards(film.caption))):
            parts.append(svg.words(0, top + 13, caption))
            wide = max(wide, svg.width(caption))
            for at, frame in enumerate(np.asarray(frames, int)):
                place = {"x": at * (SIDE + GAP), "y": top + LINE, "width": SIDE, "height": SIDE}
                parts.append(svg.tag("image", href=png(frame.tolist()), preserveAspectRatio="none", **place))
                parts.append(svg.tag("rect", **place, class_="frame"))
                wide = max(wide, place["x"] + SIDE)
            top += LINE + SIDE + 8
        top += 14
    said = "Rendered films frame by frame with their captions, each forwards and backwards"
    return svg.picture(*parts, width=wide, height=top, title="Films forwards and backwards", description=said)


def backwards(caption: str) -> str:
    """The caption of a film run backwards: the opposite of each event, the last one first."""
    events = []
    for event in reversed(caption.split(" then ")):
        action = max((own for own in scenes.OPPOSITE if f" {own}" in event), key=len)
        events.append(event.replace(f" {action}", f" {scenes.OPPOSITE[action]}"))
    return " then ".join(events)


if __name__ == "__main__":
    chart.save(document(), str(PATH))
