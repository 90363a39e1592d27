"""Edit distance against its own definition, and error rates by length."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.tasks.transcribe import errors

texts = st.text(alphabet="abc", max_size=7)


@cache
def by_definition(one, other):
    if not one or not other:
        return len(one) + len(other)
    return min(
        by_definition(one[1:], other) + 1,
        by_definition(one, other[1:]) + 1,
        by_definition(one[1:], other[1:]) + (one[0] != other[0]),
    )


@given(texts, texts)
def test_the_distance_is_that_of_the_definition(one, other):
    assert errors.edit_distance(one, other) == by_definition(one, other)


@pytest.mark.parametrize(
    ("one", "other", "wanted"), [("kitten", "sitting", 3), ("", "abc", 3), ("flaw", "lawn", 2), ("数字", "数", 1)]
)
def test_known_distances(one, other, wanted):
    assert errors.edit_distance(one, other) == errors.edit_distance(other, one) == wanted


def test_the_rate_counts_characters_of_the_references_and_not_texts():
    found = errors.score(["12", "3"], ["1234", "3"])
    assert found["error"] == pytest.approx(2 / 5)
    assert found["accuracy"] == 0.5
    assert errors.score(["", ""], ["12", "3"])["error"] == 1
    assert errors.score(["111"], ["2"])["error"] == 3, "more can be wrong than there is"


def test_errors_stand_by_length_and_say_which_were_trained():
    found = errors.by_length(["1", "12", "1"], ["1", "13", "1234"], [1, 2, 4], [False, False, True], exact=True)
    assert [(row["upto"], row["error"], row["trained"]) for row in found] == [
        (1, 0.0, True), (2, 0.5, True), (4, 0.75, False),
    ]  # fmt: skip
    found = errors.by_length(["a"] * 3, ["a"] * 3, [1, 7, 1_000], [False] * 3, exact=False)
    assert sum(row["strings"] for row in found) == 3
