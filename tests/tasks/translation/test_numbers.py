"""Numbers in words: pairs for translation with nothing at hand."""

import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.data.files import DataError
from recollect.tasks.translation import numbers


def test_numbers_are_written_in_both_languages():
    found = {pair.number: pair for pair in numbers.pairs(count=1000, highest=999)}
    assert len(found) == 1000
    assert found[981].source == "nine hundred and eighty-one"
    assert found[981].target == "neuf cent quatre-vingt-un"
    turned = {pair.number: pair for pair in numbers.pairs(("de", "es"), count=100, highest=99)}
    assert turned[21] == (21, "einundzwanzig", "veintiuno")


@given(st.integers(0, 30_000), st.integers(0, 99), st.data())
def test_a_draw_is_of_different_numbers_in_range_and_the_same_for_the_same_seed(highest, seed, data):
    count = data.draw(st.integers(1, highest + 1))
    found = numbers.draw(count, seed, highest)
    assert len(found) == len(set(found)) == count
    assert min(found) >= 0
    assert max(found) <= highest
    assert found == numbers.draw(count, seed, highest)


def test_every_number_of_digits_gets_its_part():
    lengths = Counter(len(str(number)) for number in numbers.draw(20_000, 3))
    assert [lengths[digits] for digits in (1, 2, 3)] == [10, 90, 900]
    assert lengths[4] == pytest.approx(19_000 / 3, abs=1)
    assert lengths[5] == pytest.approx(lengths[6], abs=1)
    few = Counter(len(str(number)) for number in numbers.draw(60, 3))
    assert set(few.values()) == {10}


def test_another_seed_gives_other_numbers():
    assert numbers.draw(100, 0) != numbers.draw(100, 1)
    assert set(numbers.draw(100, 0)) != set(numbers.draw(100, 1))


def test_a_large_range_is_never_listed():
    assert len(numbers.draw(1000, 0, 10**12 + 5)) == 1000


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("seven", 1),
        ("forty-five", 2),
        ("twelve thousand, three hundred and forty-five", 7),
        ("neuf cent quatre-vingt-un", 5),
        ("一万二千", 4),
        ("", 0),
    ],
)
def test_the_length_of_a_number_is_its_words(text, length):
    assert numbers.length(text) == length


@pytest.mark.parametrize("language", ["xx", "fra", "EN", "", "am"])
def test_a_language_that_has_no_numbers_is_answered_with_some_that_have(language):
    with pytest.raises(DataError, match=r"expected a language .*\(en, fr, de, es.* more\), found") as caught:
        numbers.pairs(("en", language), count=5)
    assert "\n" not in str(caught.value)


def test_a_slip_is_answered_with_what_was_meant():
    with pytest.raises(DataError, match="did you mean pt_BR"):
        numbers.check("pt_br")


@pytest.mark.parametrize(("count", "highest"), [(0, 9), (11, 9), (-1, 9), (1, -1)])
def test_no_more_numbers_are_drawn_than_there_are(count, highest):
    with pytest.raises(DataError, match="different numbers"):
        numbers.draw(count, 0, highest)


@pytest.mark.parametrize("language", numbers.languages())
def test_every_language_writes_numbers_of_every_length(language):
    found = numbers.pairs((language, "en"), count=60)
    assert all(pair.source.strip() and "\n" not in pair.source for pair in found)


def test_num2words_is_imported_only_when_numbers_are_written():
    code = (
        "import sys, recollect.tasks.translation.data\nsys.exit(bool({'num2words', 'sacremoses'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
