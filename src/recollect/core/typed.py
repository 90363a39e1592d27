"""Values of JSON files, checked against declared types: what a file may hold is a dataclass, a TypedDict or a hint.

Whatever does not fit is refused in one line that names the place, what was expected and what was found. Lists become
tuples where a tuple is declared, whole numbers floats where a float is; nothing else is converted.
"""

import difflib
import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NotRequired, Required, get_args, get_origin, get_type_hints, is_typeddict

from .errors import RecollectError
from .settings import choices_of, mismatch, options_of

MOST = 60  # characters of a value that a message shows
LARGEST = 10**250  # number that can be added up, multiplied and drawn
LONGEST_NAME = 1_000
DEEPEST = 50  # levels of lists and objects
WORDS = {
    int: "a whole number", float: "a number", bool: "true or false", str: "a string", type(None): "null",
    list: "a list", tuple: "a list", dict: "an object", Mapping: "an object", Any: "anything",
}  # fmt: skip


class TypeMismatch(RecollectError):
    """A value of a file that is not of its declared type; the message is one line."""


def read(value: Any, hint: Any, where: str = "") -> Any:
    """`value`, as JSON gives it, as the declared type; `where` names its place in messages."""
    if isinstance(hint, type) and is_dataclass(hint):
        return _read_dataclass(value, hint, where)
    if is_typeddict(hint):
        return _read_typed_dict(value, hint, where)
    try:
        return _convert(value, hint, where)
    except TypeError:
        raise TypeMismatch(f"{_place(where)}expected {describe(hint)}, found {show(value)}") from None


def _read_dataclass(value: Any, kind: type, where: str) -> Any:
    """A dataclass with the keys and values of an object; its own checks run when it is made."""
    needed = [
        own.name for own in fields(kind) if own.init and own.default is MISSING and own.default_factory is MISSING
    ]
    check_keys(value, where, known=None, needed=needed)
    return kind(**read_fields(value, kind, where))


def read_fields(value: Any, kind: Any, where: str = "") -> dict[str, Any]:
    """Some fields of a dataclass from an object, each with its declared type; the others may be missing."""
    hints = get_type_hints(kind)
    declared = {own.name: own for own in fields(kind) if own.init}
    check_keys(value, where, known=declared)
    found = {name: read(part, hints[name], _inside(where, name)) for name, part in value.items()}
    for name, part in found.items():
        if expected := mismatch(declared[name], hints[name], part):
            raise TypeMismatch(f"{_inside(where, name)}: expected {expected}, found {show(part)}")
    return found


def _read_typed_dict(value: Any, kind: Any, where: str) -> dict[str, Any]:
    """An object whose known keys have their declared types; other keys stay as they are."""
    hints = get_type_hints(kind, include_extras=True)
    check_keys(value, where, known=None, needed=sorted(kind.__required_keys__))
    checked = dict(value)
    for name in [name for name in hints if name in value]:
        hint = hints[name]
        hint = get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
        checked[name] = read(value[name], hint, _inside(where, name))
    return checked


def check_keys(value: Any, where: str, *, known: Iterable[str] | None, needed: Iterable[str] = ()) -> None:
    """Refuse what is no object, lacks a key or has one that is not known (None: any)."""
    if not isinstance(value, dict):
        raise TypeMismatch(f"{_place(where)}expected an object, found {show(value)}")
    for name in needed:
        if name not in value:
            raise TypeMismatch(f"{_place(where)}expected the key {name}, found none")
    for name in value:
        if known is not None and name not in known:
            raise TypeMismatch(f"{_place(where)}expected a known key, found {show(name)}{suggest(name, known)}")


def _convert(value: Any, hint: Any, where: str) -> Any:
    """A value as one of the options of a type; TypeError where it is none of them."""
    options = options_of(hint)
    if Any in options or object in options:
        return value
    if isinstance(value, float) and not math.isfinite(value) and Infinite not in options:  # 1e999, NaN
        raise TypeError
    if type(value) in options or (isinstance(value, str) and value in choices_of(hint)):  # bool is no int here
        return value
    if type(value) is int and float in options and abs(value) <= sys.float_info.max:
        return float(value)
    if type(value) is float and int in options and value.is_integer():
        return int(value)
    if type(value) is float and Infinite in options:
        return value
    for option in options:
        origin, parts = get_origin(option), get_args(option)
        if isinstance(value, list) and origin is tuple and (len(parts) == 1 or parts[-1] is Ellipsis):
            return tuple(read(part, parts[0], f"{where}[{i}]") for i, part in enumerate(value))
        if isinstance(value, list) and origin is tuple and len(parts) == len(value):
            return tuple(
                read(part, own, f"{where}[{i}]") for i, (part, own) in enumerate(zip(value, parts, strict=True))
            )
        if isinstance(value, list) and origin is list:
            if _are_plain(value, parts[0]):
                return list(value)
            return [read(part, parts[0], f"{where}[{i}]") for i, part in enumerate(value)]
        if isinstance(value, dict) and origin in (dict, Mapping):
            return {name: read(part, parts[1], _inside(where, name)) for name, part in value.items()}
        if isinstance(value, dict) and (is_typeddict(option) or is_dataclass(option)):
            return read(value, option, where)
    raise TypeError


def _are_plain(values: list[Any], hint: Any) -> bool:
    """Whether values are of their declared type as they stand: long lists of numbers need no more than this."""
    kinds = options_of(hint)
    return all(type(value) in kinds and (type(value) is not float or math.isfinite(value)) for value in values)


def check_bounds(value: Any, where: str = "", *, counts: Iterable[str] = (), names: Iterable[str] = ()) -> None:
    """Refuse what no page could show: numbers beyond 10^250, lists in lists without end, names of a megabyte.

    Numbers under a key of `counts` are not below 0; texts under a key of `names`, and keys, have a bounded length.
    """
    counts, names = frozenset(counts), frozenset(names)

    def check_name(name: str, place: str) -> None:
        if len(name) > LONGEST_NAME:
            found = f"found {len(name):,}"
            raise TypeMismatch(f"{_place(place)}expected a name of at most {LONGEST_NAME:,} characters, {found}")

    def check(part: Any, place: str, key: str, depth: int) -> None:
        if isinstance(part, int | float) and not isinstance(part, bool):
            if LARGEST < abs(part) != math.inf:
                raise TypeMismatch(f"{_place(place)}expected a number of at most 10^250, found {show(part)}")
            if key in counts and part < 0:
                raise TypeMismatch(f"{_place(place)}expected at least 0, found {show(part)}")
        elif isinstance(part, str):
            if key in names:
                check_name(part, place)
        elif isinstance(part, dict | list) and depth == DEEPEST:
            raise TypeMismatch(f"{_place(place)}expected at most {DEEPEST} levels, found more")
        elif isinstance(part, dict):
            for name, own in part.items():
                check_name(name, place)
                check(own, _inside(place, name), name, depth + 1)
        elif isinstance(part, list):
            for i, own in enumerate(part):
                check(own, f"{place}[{i}]", key, depth + 1)

    check(value, where, "", 0)


class Infinite(float):
    """A float that may be NaN or infinite, in unions: `float | Infinite`."""


def describe(hint: Any) -> str:
    """A declared type in the words of JSON."""
    parts = []
    for option in options_of(hint):
        origin = get_origin(option)
        if choices := choices_of(option):
            parts.append("one of " + ", ".join(map(show, choices)))
        elif origin in (tuple, list):
            inner = get_args(option)
            same = len(inner) == 1 or inner[-1] is Ellipsis
            each = describe(inner[0]) if same else f"in turn {', '.join(map(describe, inner))}"
            parts.append(f"a list, each part {each}" if same else f"a list of {len(inner)}, {each}")
        elif origin in (dict, Mapping):
            parts.append(f"an object, each value {describe(get_args(option)[1])}")
        elif option is not Infinite:
            parts.append(WORDS.get(option, "an object"))
    return " or ".join(parts)


def show(value: Any) -> str:
    """A value as JSON, cut where it is long."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**MOST:
        return f"a number of about {value.bit_length() * 0.30103:,.0f} digits"
    if isinstance(value, list | tuple | dict) and len(value) > MOST:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value):,}"
    try:
        text = json.dumps(value[: 2 * MOST] if isinstance(value, str) else value, ensure_ascii=False, default=repr)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= MOST else f"{text[: MOST - 3]}..."


def suggest(name: str, names: Iterable[str]) -> str:
    """The end of a message on a name that is not known."""
    known = sorted(names)
    close = difflib.get_close_matches(name[:MOST], known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"


def _inside(where: str, name: str) -> str:
    return f"{where}.{name[:MOST]}" if where and not where.endswith(": ") else f"{where}{name[:MOST]}"


def _place(where: str) -> str:
    return f"{where}: " if where and not where.endswith(": ") else where
