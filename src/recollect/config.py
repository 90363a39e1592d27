"""Settings at the edge: text from flags and files becomes checked, typed values."""

import difflib
import json
import math
import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

SUFFIXES = {"": 1, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}


class SettingError(ValueError):
    """A setting that is not one, or has a value that it cannot have."""


def number(text: str, flag: str = "") -> float:
    """`1M`, `10k`, `2.5e9`; `flag` is whose value it is."""
    found = re.fullmatch(r"\s*([-+]?[\d_.]+(?:[eE][-+]?\d+)?)\s*([kKmMbBgGtT]?)\s*", text)
    try:
        if found and math.isfinite(value := float(found[1].replace("_", "")) * SUFFIXES[found[2].lower()]):
            return value
    except ValueError:
        pass
    where = f"{flag}: " if flag else ""
    raise SettingError(f"{where}expected a number such as 500, 10k or 1M, found {text!r}")


def split(pairs: Iterable[str]) -> dict[str, str]:
    """`key=value` flags as a dict."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SettingError(f"--set: expected key=value, found {pair!r}")
        found[key.strip()] = value.strip()
    return found


def parse(name: str, text: str, hint: Any) -> Any:
    """The value that `text` spells for a setting of type `hint`."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    choices = [choice for option in options if get_origin(option) is Literal for choice in get_args(option)]
    if text in choices:  # "none" may be one of them
        return text
    if text.lower() == "none" and type(None) in options:
        return None
    if choices:
        close = difflib.get_close_matches(text, choices, n=1)
        hint_text = f"; did you mean {close[0]!r}?" if close else ""
        raise SettingError(f"{name}: expected one of {', '.join(choices)}, found {text!r}{hint_text}")
    if (listed := next((option for option in options if get_origin(option) is tuple), None)) is not None:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return tuple(parse(name, part, get_args(listed)[0]) for part in parts)
    if bool in options:
        if text.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
            return text.lower() in ("true", "yes", "on", "1")
        raise SettingError(f"{name}: expected true or false, found {text!r}")
    try:
        if float in options:
            return number(text)
        if int in options:
            if re.fullmatch(r"\s*[-+]?\d+\s*", text):
                return int(text)  # to the last digit, however large
            value = number(text)
            if value != int(value):
                raise SettingError(f"expected a whole number, found {text!r}")
            return int(value)
    except SettingError as error:
        raise SettingError(f"{name}: {error}") from None
    return text


@dataclass(frozen=True)
class Recipe:
    """A run worth repeating, from a JSON file: every key is optional, `settings` holds what --set would."""

    about: str = ""
    data: tuple[str, ...] = ()
    tokenizer: str | None = None
    pair: str | None = None
    model: str | None = None
    params: str | None = None
    settings: dict[str, str] = field(default_factory=dict)


def read_recipe(path: str) -> Recipe:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise SettingError(f"{path}: expected a recipe in JSON, found something else ({error})") from error
    allowed = {f.name for f in fields(Recipe)}
    if not isinstance(content, dict) or set(content) - allowed:
        raise SettingError(f"{path}: expected a recipe with {', '.join(sorted(allowed))}, found other keys")
    for name, value in content.items():
        kind = {"data": list, "settings": dict}.get(name, str)
        if not isinstance(value, kind):
            raise SettingError(f"{path}: expected {name} to be a {kind.__name__}, found {value!r}")
    settings = {name: str(value) for name, value in content.pop("settings", {}).items()}
    return Recipe(**content | {"data": tuple(map(str, content.get("data", ()))), "settings": settings})


def distribute(settings: Mapping[str, str], homes: Mapping[str, type]) -> dict[str, dict[str, Any]]:
    """Give each setting to the first of `homes` (name → dataclass) that has it, with its value parsed."""
    found: dict[str, dict[str, Any]] = {home: {} for home in homes}
    hints = {home: get_type_hints(kind) for home, kind in homes.items()}
    names = {home: [field.name for field in fields(kind)] for home, kind in homes.items()}
    for name, text in settings.items():
        home = next((home for home in homes if name in names[home]), None)
        if home is None:
            known = sorted({n for group in names.values() for n in group})
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"
            raise SettingError(f"--set: expected a known setting, found {name!r}{hint}")
        found[home][name] = parse(name, text, hints[home][name])
    return found
