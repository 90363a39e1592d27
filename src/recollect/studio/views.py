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
    """A view: its name in links, the words of the menu, the module with its routes, and the style sheets it is set in.

    The page loads `static/views/NAME.js`, and applies the sheets of `static/views` that have one of these names, and no
    other, while the view is shown. What the module's `MESSAGES` hold is shown and translated too.
    """

    name: str
    title: str
    module: ModuleType
    sheets: tuple[str, ...]


TASKS = ("tasks", "sentences", "pictures", "series", "labels", "ratings")
RECORDS = ("runs", "races", "start", "lineage", "course")


VIEWS = (
    View("text", "Text", text, ("text",)),
    View("sentences", "Sentences", sentences, TASKS),
    View("pictures", "Pictures", pictures, TASKS),
    View("series", "Series", series, TASKS),
    View("labels", "Labels", labels, TASKS),
    View("ratings", "Ratings", ratings, TASKS),
    View("runs", "Runs", runs, RECORDS),
    View("races", "Races", races, RECORDS),
    View("start", "Start", start, RECORDS),
    View("lineage", "Lineage", lineage, RECORDS),
    View("course", "Course", course, RECORDS),
)
