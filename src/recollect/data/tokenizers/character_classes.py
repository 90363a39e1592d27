"""Which characters are blank, solid, letters or stops, and which belong to scripts without spaces between words."""

from functools import cache

import numpy as np

from .base import code_points

# Scripts written without spaces between words: a character of theirs is a word. Hangul has spaces.
SPACELESS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x312F),  # radicals, CJK punctuation with the wide space, kana, bopomofo
    (0x3190, 0x4DBF),  # annotations, kana extensions, enclosed, Han extension A
    (0x4E00, 0x9FFF),  # Han
    (0xF900, 0xFAFF),  # Han, compatibility
    (0xFE30, 0xFE4F),  # vertical punctuation
    (0xFF00, 0xFF9F),  # wide and narrow forms
    (0x1AFF0, 0x1B16F),  # kana supplements
    (0x20000, 0x3FFFF),  # Han extensions
)

# Where the byte-level pattern always cuts, whatever stands around: before a blank that follows something solid, and
# between a letter or digit and a full stop or the like. Only characters about which all versions of Unicode agree.
SOLID, GAP, LETTER, STOP, ALONE = 1, 2, 4, 8, 16


@cache
def classes() -> np.ndarray:
    """The classes of each code point, as bits."""
    table = np.full(0x110000, SOLID, np.uint8)
    for first, last in ((0x09, 0x0D), (0x1C, 0x20), (0x2000, 0x200A), (0x2028, 0x2029)):
        table[first : last + 1] = 0
    table[[0x85, 0xA0, 0x1680, 0x202F, 0x205F, 0x3000]] = 0
    table[code_points(" \n\t\r")] |= GAP
    for first, last in ("09", "AZ", "az", "ぁゖ", "ァヺ", "一龥"):
        table[ord(first) : ord(last) + 1] |= LETTER
    table[code_points(".,;:!?，。、；：？！")] |= STOP
    for first, last in SPACELESS:
        table[first : last + 1] |= ALONE
    return table
