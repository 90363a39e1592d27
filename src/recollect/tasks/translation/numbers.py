"""Whole numbers in words, in two languages: pairs to learn translation from with nothing at hand.

num2words knows the words. Numbers of every length are there, short ones too, although most numbers are long.
"""

import difflib
import random
import re
from collections.abc import Sequence
from typing import NamedTuple

from ...data.files import DataError
from .settings import COUNT, HIGHEST

BROKEN = ("am",)  # num2words 0.5.14 fails on some of its numbers and never returns on others
_GAP = re.compile(r"[\s\-]+")
_SPACELESS = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")  # Thai and Lao, kana, Han


class Pair(NamedTuple):
    """A number, and its words in two languages."""

    number: int
    source: str
    target: str


def pairs(
    languages: tuple[str, str] = ("en", "fr"), count: int = COUNT, seed: int = 0, highest: int = HIGHEST
) -> list[Pair]:
    """`count` different numbers from 0 to `highest` in words, in an order that depends on `seed` alone.

    Every number of digits gets an equal part, or all of its numbers where it has fewer.
    """
    for language in languages:
        check(language)
    from num2words import num2words

    found: list[Pair] = []
    for number in draw(count, seed, highest):
        words: list[str] = []
        for language in languages:
            try:
                words.append(str(num2words(number, lang=language)))
            except Exception as error:  # a converter may raise anything
                raise DataError(
                    f"expected num2words to write {number:,} in {language!r}, found {type(error).__name__}: {error}; "
                    "choose a smaller highest number or another language"
                ) from None
        found.append(Pair(number, *words))
    return found


def draw(count: int, seed: int = 0, highest: int = HIGHEST) -> list[int]:
    """`count` different numbers from 0 to `highest`: first how many digits, all alike, then which number."""
    if not 1 <= count <= highest + 1:
        raise DataError(f"expected to draw 1 to {highest + 1:,} different numbers up to {highest:,}, found {count:,}")
    generator = random.Random(seed)
    classes = [range(min(10, highest + 1))]
    classes += [range(10**d, min(10 ** (d + 1), highest + 1)) for d in range(1, len(str(highest)))]
    chosen: list[int] = []
    for index, numbers in enumerate(sorted(classes, key=len)):  # what small classes cannot fill is left to large ones
        fair = (count - len(chosen)) // (len(classes) - index)
        chosen += generator.sample(numbers, min(fair, len(numbers)))
    generator.shuffle(chosen)
    return chosen


def check(language: str) -> None:
    """Refuse a language that num2words cannot write."""
    known = languages()
    if language in known:
        return
    near = difflib.get_close_matches(language, known, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    common = [
        code for code in ("en", "fr", "de", "es", "it", "nl", "pl", "ru", "tr", "ja", "ko", "ar") if code in known
    ]
    raise DataError(
        f"expected a language that num2words writes numbers in ({', '.join(common)} and {len(known) - len(common)} "
        f"more), found {language!r}{meant}"
    )


def languages() -> Sequence[str]:
    """The codes of the languages that numbers can be written in."""
    from num2words import CONVERTER_CLASSES

    return [code for code in CONVERTER_CLASSES if code not in BROKEN]


def length(text: str) -> int:
    """How many words a number has: those between blanks and hyphens; in scripts without blanks, its characters."""
    alone = len(_SPACELESS.findall(text))
    return alone + sum(1 for word in _GAP.split(_SPACELESS.sub(" ", text)) if word)
