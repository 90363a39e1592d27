"""Settings: frozen dataclasses that are checked when made, and their values from the text of flags and files.

Nothing here imports torch, so that the command line can be made from the settings before anything is run.
"""

import difflib
import math
import re
import reprlib
import types
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .errors import RecollectError

BpttName = Literal["full", "truncated", "random", "unbiased"]  # see core.bptt
MOST_LAYERS = 1_000  # of a stack: each is made one after the other, however small
SUFFIXES = {"": 1, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}


class ContractError(RecollectError):
    """An input, state or setting that the contract does not allow; the message is one line."""


class SettingError(RecollectError):
    """A setting that is not one, or has a value that it cannot have."""


def number(text: str, flag: str = "") -> float:
    """`1M`, `10k`, `2.5e9`; `flag` names the option in an error."""
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
    options, choices = options_of(hint), choices_of(hint)
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


def distribute(settings: Mapping[str, Any], homes: Mapping[str, type]) -> dict[str, dict[str, Any]]:
    """Give each setting to the first of `homes` (name → dataclass) that has it; values given as text are parsed."""
    found: dict[str, dict[str, Any]] = {home: {} for home in homes}
    hints = {home: get_type_hints(kind) for home, kind in homes.items()}
    names = {home: [field.name for field in fields(kind)] for home, kind in homes.items()}
    for name, value in settings.items():
        home = next((home for home in homes if name in names[home]), None)
        if home is None:
            known = sorted({n for group in names.values() for n in group})
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"
            raise SettingError(f"--set: expected a known setting, found {name!r}{hint}")
        found[home][name] = parse(name, value, hints[home][name]) if isinstance(value, str) else value
    return found


def at_least(least: int, *, default: int | None, most: int | None = None) -> Any:
    """A field of a settings dataclass that is a whole number from `least` (without this: 1) to `most` (2^53)."""
    return field(default=default, metadata={"least": least} | ({} if most is None else {"most": most}))


def lowest(own: Field[Any]) -> int:
    """The least value of a setting that is a whole number."""
    return own.metadata.get("least", 1)


def highest(own: Field[Any]) -> int:
    """The largest value of a setting that is a whole number; the usual one is exact as a float and as 64 bits."""
    return own.metadata.get("most", 2**53)


def check_settings(config: Any) -> None:
    """Refuse a setting outside its declared type: choices by name, counts from 1 (or `at_least`), dropout in [0, 1)."""
    hints = get_type_hints(type(config))
    for own in fields(config):
        value = getattr(config, own.name)
        if expected := mismatch(own, hints[own.name], value):
            found = reprlib.repr(value)
            raise ContractError(f"{owner_of(type(config))}: expected {own.name} to be {expected}, found {found}")


def mismatch(own: Field[Any], hint: Any, value: Any) -> str | None:
    """What a setting is expected to be, where `value` is outside its declared type or range; else None."""
    options = options_of(hint)
    if value is None and type(None) in options:
        return None
    if choices := choices_of(hint):
        return None if value in choices else "one of " + ", ".join(map(repr, choices))
    if isinstance(value, str) and str in options:
        return None
    if isinstance(value, tuple) and any(get_origin(option) is tuple for option in options):
        return None
    if int in options and float not in options:
        if not isinstance(value, int) or isinstance(value, bool) or value < lowest(own):
            return f"a whole number of at least {lowest(own)}"
        return None if value <= highest(own) else f"a whole number of at most {highest(own):,}"
    if float in options and not (isinstance(value, int | float) and not isinstance(value, bool)):
        return "a number"
    if bool in options and not isinstance(value, bool):
        return "True or False"
    if str in options and not isinstance(value, str):
        return "a name"
    if own.name.endswith("dropout") and isinstance(value, int | float) and not 0 <= value < 1:
        return "a share from 0 to below 1"
    return None


def options_of(hint: Any) -> tuple[Any, ...]:
    """The members of a union type; any other type alone."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def choices_of(hint: Any) -> list[str]:
    """The names that a setting may have, where its type lists them."""
    return [name for option in options_of(hint) if get_origin(option) is Literal for name in get_args(option)]


def owner_of(kind: type) -> str:
    """Whose settings these are, for messages: a task by its folder, everything else by its file."""
    *folders, file = kind.__module__.split(".")
    return folders[-1] if "tasks" in folders else file


def refuse_both_ways(found: str) -> dict[str, str]:
    """For tasks whose models never see a whole sequence: why the settings that would need one are refused."""
    message = f"expected it with whole sequences (labels, sources of translation), found {found}; leave it out"
    return dict.fromkeys(("both_ways", "bidirectional"), message)


def known(kind: str, name: str, names: Any) -> str:
    """`name`, if it is one of `names`; else an error that lists them."""
    if name in names:
        return name
    close = difflib.get_close_matches(name, list(names), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    article = "an" if kind[0] in "aeiou" else "a"
    raise ContractError(f"expected {article} {kind} out of {', '.join(names)}, found {name!r}{hint}")


def find_name(kind: str, name: str, names: Iterable[str], aliases: Mapping[str, str] | None = None) -> str:
    """The one of `names` that `name` stands for: itself, in other letters (`LSTM`, `ttt_linear`), or by an alias."""
    every = list(names)
    meant = (aliases or {}).get(_plain(name), name)
    return match_name(name, every) or match_name(meant, every) or known(kind, name, every)


def match_name(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is `name`, or is so in other letters."""
    every = list(names)
    return name if name in every else next((own for own in every if _plain(own) == _plain(name)), None)


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


@dataclass(frozen=True)
class Flag:
    """How the command line offers a setting: `--name`, its help, and whether numbers may be written as 10k or 1M."""

    help: str
    name: str | None = None  # where it is not the setting's own
    short_numbers: bool = False


def option(
    default: Any, help: str, *, name: str | None = None, short_numbers: bool = False, most: int | None = None
) -> Any:
    """A field of a settings dataclass that has a flag of its own; other settings are given by --set.

    `most` is the largest value of a whole number.
    """
    limit = {} if most is None else {"most": most}
    return field(default=default, metadata={"flag": Flag(help, name, short_numbers)} | limit)


def flags_of(settings: type) -> dict[str, tuple[Flag, Any]]:
    """The flags that a settings dataclass declares: setting → flag and type."""
    hints = get_type_hints(settings)
    return {f.name: (f.metadata["flag"], hints[f.name]) for f in fields(settings) if "flag" in f.metadata}


def check_file_names(config: Any, names: Iterable[str] = ("data", "valid", "test")) -> None:
    """Refuse settings of these names that are anything but names of files; an empty name is none."""
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, tuple) or not all(isinstance(part, str) for part in value):
            raise ContractError(f"data: expected {name} to be names of files, found {reprlib.repr(value)}")
        if "" in value:
            raise ContractError(
                f"data: expected names of files in {name}, found an empty one; name one, or leave it out"
            )
