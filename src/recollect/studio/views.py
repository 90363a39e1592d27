"""The views of the studio, in the order of its menu. A line is all that a view needs beside its two modules."""

from types import ModuleType
from typing import NamedTuple

from . import (
    course,
    labels,
    lineage,
    pictures,
    races,
    ratings,
    runs,
    sentences,
    series,
    start,
    text,
)  # fmt: skip


class View(NamedTuple):
    """A view: its name in links, the words of the menu, and the module with its routes.

    The page loads `static/views/NAME.js`, and `NAME.css` where there is one. What the module's `MESSAGES` hold is shown
    and translated too.
    """

    name: str
    title: str
    module: ModuleType


VIEWS = (
    View("text", "Text", text),
    View("sentences", "Sentences", sentences),
    View("pictures", "Pictures", pictures),
    View("series", "Series", series),
    View("labels", "Labels", labels),
    View("ratings", "Ratings", ratings),
    View("runs", "Runs", runs),
    View("races", "Races", races),
    View("start", "Start", start),
    View("lineage", "Lineage", lineage),
    View("course", "Course", course),
)
