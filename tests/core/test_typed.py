"""Values of JSON files against declared types: what fits is converted, what does not is one short line."""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.settings import ContractError, at_least
from recollect.core.typed import Infinite, TypeMismatch, read, show
from recollect.training.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Part:
    name: str
    size: int = at_least(0, default=1, most=100)
    rate: float | None = None
    kind: Literal["a", "b"] = "a"
    files: tuple[str, ...] = ()


class Row(TypedDict):
    heat: str
    value: float | Infinite
    parts: NotRequired[list[Part]]
    pairs: NotRequired[list[tuple[int, float]]]


def test_what_fits_is_converted():
    found = read({"name": "x", "size": 3.0, "rate": 2, "files": ["a", "b"]}, Part)
    assert found == Part(name="x", size=3, rate=2.0, files=("a", "b"))
    assert type(found.size) is int
    assert type(found.rate) is float


def test_an_object_with_other_keys_beside_the_declared_ones():
    row = read({"heat": "h", "value": float("inf"), "parts": [{"name": "n"}], "pairs": [[1, 2]], "own": [1]}, Row)
    assert row == {"heat": "h", "value": float("inf"), "parts": [Part(name="n")], "pairs": [(1, 2.0)], "own": [1]}


@pytest.mark.parametrize(
    ("value", "hint", "message"),
    [
        ([], Part, "at: expected an object, found []"),
        ({}, Part, "at: expected the key name, found none"),
        ({"name": ["x"]}, Part, 'at.name: expected a string, found ["x"]'),
        ({"name": "x", "sise": 1}, Part, "at: expected a known key, found \"sise\"; did you mean 'size'?"),
        ({"name": "x", "size": True}, Part, "at.size: expected a whole number, found true"),
        ({"name": "x", "size": -1}, Part, "at.size: expected a whole number of at least 0, found -1"),
        ({"name": "x", "size": 101}, Part, "at.size: expected a whole number of at most 100, found 101"),
        ({"name": "x", "rate": float("nan")}, Part, "at.rate: expected a number or null, found NaN"),
        (
            {"name": "x", "rate": 10**400},
            Part,
            "at.rate: expected a number or null, found a number of about 400 digits",
        ),
        ({"name": "x", "kind": ["a"]}, Part, 'at.kind: expected one of "a", "b", found ["a"]'),
        ({"name": "x", "files": "ab"}, Part, 'at.files: expected a list, each part a string, found "ab"'),
        ({"name": "x", "files": ["a", None]}, Part, "at.files[1]: expected a string, found null"),
        ({"heat": "h"}, Row, "at: expected the key value, found none"),
        ({"heat": "h", "value": "1"}, Row, 'at.value: expected a number, found "1"'),
        ({"heat": "h", "value": 1, "parts": [{}]}, Row, "at.parts[0]: expected the key name, found none"),
        ({"heat": "h", "value": 1, "pairs": [[1]]}, Row, "at.pairs[0]: expected a list of 2, in turn a whole number,"),
    ],
)
def test_what_does_not_fit_is_one_line(value, hint, message):
    with pytest.raises(TypeMismatch) as error:
        read(value, hint, "at")
    assert str(error.value).startswith(message)


def test_the_checks_of_a_dataclass_run():
    with pytest.raises(ContractError, match="expected lr above 0"):
        read({"lr": -1}, Settings)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(["name", "size", "rate", "kind", "files", "x"]), JSON) | JSON)
def test_anything_is_read_or_refused_in_a_bounded_line(value: Any):
    message = ""
    try:
        read(value, Part, "file.json")
    except TypeMismatch as error:
        message = str(error)
    assert len(message) < 400


LONG: dict[str, Any] = {
    "text": "x" * 10**6,
    "list": ["x"] * 10**5,
    "object": {str(i): i for i in range(10**5)},
    "number": 10**5000,
    "nested": [[["x"] * 50] * 50],
}


@pytest.mark.parametrize("kind", LONG)
def test_a_long_value_is_shown_short(kind):
    assert len(show(LONG[kind])) <= 60
