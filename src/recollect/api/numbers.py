"""Numbers that callers give: as numbers, or as text such as 10k or 1M."""

from typing import Any

from ..core.settings import SettingError, number


def read_number(value: Any, name: str) -> float | None:
    """A number; None where none is given."""
    if isinstance(value, str):
        return number(value, f"--{name}")
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise SettingError(f"--{name}: expected a number such as 500, 10k or 1M, found {value!r:.80}")


def read_count(value: Any, name: str) -> int | None:
    """A whole number; None where none is given."""
    found = read_number(value, name)
    if found is None or found == int(found):
        return None if found is None else int(found)
    raise SettingError(f"--{name}: expected a whole number, found {value!r:.80}")
