"""Settings at the edge: numbers as people write them, types of fields, suggestions."""

from dataclasses import dataclass
from typing import Literal, get_type_hints

import pytest

from recollect.core import settings
from recollect.core.settings import ContractError, SettingError, find_name
from recollect.models import language


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500", 500), ("10k", 10_000), ("1M", 1_000_000), ("1e6", 1e6), ("2.5e9", 2.5e9), ("1.5m", 1.5e6),
        ("3B", 3e9), ("2g", 2e9), ("1T", 1e12), ("1_000", 1000), (" 7 ", 7), ("-2", -2), ("+4", 4), (".5", 0.5),
        ("1e-3", 1e-3),
    ],
)  # fmt: skip
def test_a_number_is_read_as_people_write_it(text, value):
    assert settings.number(text) == value


@pytest.mark.parametrize("text", ["", "many", "1.2.3", "1Q", "1 000", "nan", "inf", "0x10", "1e", "_", ".", "1e999"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(SettingError, match="expected a number such as 500, 10k or 1M"):
        settings.number(text)


@dataclass(frozen=True)
class Home:
    count: int = 1
    maybe: int | None = None
    rate: float = 0.1
    flag: bool = False
    kind: Literal["red", "green"] = "red"
    word: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Other:
    count: str = ""
    own: float | None = None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "10k", 10_000), ("count", "1e3", 1000), ("maybe", "none", None), ("maybe", "3", 3),
        ("rate", "1", 1.0),
        ("flag", "yes", True), ("flag", "Off", False), ("flag", "0", False), ("kind", "green", "green"),
        ("word", "none", "none"), ("files", "a.txt, b.txt", ("a.txt", "b.txt")), ("files", "a", ("a",)),
        ("own", "None", None),
    ],
)  # fmt: skip
def test_a_setting_takes_the_type_of_its_field(name, text, value):
    found = settings.distribute({name: text}, {"home": Home, "other": Other})
    home = "other" if name == "own" else "home"
    assert found[home] == {name: value}
    assert type(found[home][name]) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cuont", "3", "expected a known setting, found 'cuont'; did you mean 'count'?"),
        ("zzzzzz", "3", "found 'zzzzzz'; there are count, files, flag, kind, maybe, own, rate, word"),
        ("kind", "gren", "kind: expected one of red, green, found 'gren'; did you mean 'green'?"),
        ("kind", "8", "kind: expected one of red, green, found '8'$"),
        ("count", "1.5", "count: expected a whole number, found '1.5'"),
        ("count", "none", "count: expected a number"),
        ("rate", "fast", "rate: expected a number"),
        ("flag", "maybe", "flag: expected true or false, found 'maybe'"),
    ],
)
def test_a_setting_that_is_none_gets_a_line_and_where_possible_a_suggestion(name, text, message):
    with pytest.raises(SettingError, match=message.replace("?", r"\?")) as caught:
        settings.distribute({name: text}, {"home": Home, "other": Other})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pair", ["width", "=3", " =3", ""])
def test_a_pair_without_its_halves_is_refused(pair):
    with pytest.raises(SettingError, match="--set: expected key=value"):
        settings.split([pair])


def test_pairs_keep_what_stands_after_the_first_equals_sign():
    assert settings.split(["a = b=c", "d="]) == {"a": "b=c", "d": ""}


def test_none_is_a_choice_where_it_is_one():
    """`positions=none` means no positions; only where none is no choice does it leave the choice to the model."""
    hints = get_type_hints(language.Config)
    assert settings.parse("positions", "none", hints["positions"]) == "none"
    assert settings.parse("hidden", "none", hints["hidden"]) is None


def test_whole_numbers_are_read_to_the_last_digit():
    assert settings.parse("seed", "9007199254740993", int) == 2**53 + 1
    assert settings.parse("steps", "1_000", int) == settings.parse("steps", "1k", int) == 1000


@pytest.mark.parametrize(
    ("given", "found"),
    [("lstm", "lstm"), ("LSTM", "lstm"), ("TTT_Linear", "ttt-linear"), ("ttt linear", "ttt-linear"), ("Long", "lstm")],
)
def test_a_name_is_found_in_other_letters_and_by_its_alias(given, found):
    assert find_name("model", given, ["lstm", "ttt-linear"], {"long": "lstm"}) == found


def test_a_name_that_is_none_is_refused_with_a_suggestion():
    with pytest.raises(ContractError, match=r"out of lstm, gru, found 'lstn'; did you mean 'lstm'"):
        find_name("model", "lstn", ["lstm", "gru"])
