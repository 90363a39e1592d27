"""Known public sets by name, each with its files, hashes, licence, task and way of being read.

`sets` is the one registry: a set is added by an entry there. A task asks for the kinds of sets that it can read.
"""

import difflib
from typing import TypeVar

from ..files import DataError
from .download import KnownFile
from .kinds import CaptionSet, KnownSet, LabelSet, SeriesSet, SoundSet, TextSet, TranslationSet
from .sets import KNOWN

__all__ = [
    "KNOWN",
    "CaptionSet",
    "KnownFile",
    "KnownSet",
    "LabelSet",
    "SeriesSet",
    "SoundSet",
    "TextSet",
    "TranslationSet",
    "find_set",
    "sets_of",
]

AnySet = TypeVar("AnySet", bound=KnownSet)


def sets_of(*kinds: type[AnySet]) -> dict[str, AnySet]:
    """The known sets of some kinds, by name."""
    return {name: found for name, found in KNOWN.items() if isinstance(found, kinds)}


def find_set(name: str, kind: type[AnySet]) -> AnySet:
    """The known set of this name; a set of another kind is refused with the task that it is for."""
    names = ", ".join(sets_of(kind))
    found = KNOWN.get(name)
    if found is None:
        near = difflib.get_close_matches(name, KNOWN, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise DataError(f"expected a known set ({names}), found {name!r}{meant}")
    if not isinstance(found, kind):
        languages = f" ({', '.join(found.languages)})" if isinstance(found, TranslationSet) else ""
        raise DataError(
            f"expected {kind.noun}, found {name!r}, {found.noun}{languages}; "
            f"use it with the task {found.task}, or name one of {names}"
        )
    return found
