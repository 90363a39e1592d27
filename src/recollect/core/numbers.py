"""Numbers for people: 12.3 k, 1.2 M, 4.5 GFLOP, 3 min 20 s. Blanks inside are not broken over lines."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

BLANK = "\u00a0"
MISSING = "–"
PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def known(value: Any) -> bool:
    """Whether something is a number that can be shown."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def short(value: float) -> str:
    """Three digits, without zeros that say nothing: 12.3, 150, 0.5."""
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.0f}" if abs(value) >= 1 else power(value)


def digits(value: float) -> str:
    """Three digits, zeros included, so that columns stand in line: 30.0, 1.50, 512."""
    return f"{value:#.3g}".rstrip(".") if 0.001 <= abs(value) < 999.5 else short(value)


def power(value: float) -> str:
    """1.5 × 10⁻⁷; 0 for what floats can hardly tell from it."""
    if abs(value) < 1e-300:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    factor = f"{value / 10**exponent:.2g}"
    if factor in ("10", "-10"):
        factor, exponent = factor[:-1], exponent + 1
    raised = f"10{str(exponent).translate(RAISED)}"
    return raised if factor == "1" else f"{factor}{BLANK}×{BLANK}{raised}"


def scaled(value: Any, unit: str = "", write: Callable[[float], str] = digits) -> str:
    """With the prefix that leaves one to three digits before the point: 12.3 k, 1.2 MB, 4.5 GFLOP."""
    if not known(value):
        return MISSING
    if value and abs(value) < 1:
        return f"{write(value)}{BLANK}{unit}".rstrip(BLANK)
    step = 0
    while abs(value) >= 999.5 and step < len(PREFIXES) - 1:
        value, step = value / 1000, step + 1
    whole = isinstance(value, int)
    return f"{value if whole else write(value)}{BLANK}{PREFIXES[step]}{unit}".rstrip(BLANK)


def count(value: Any) -> str:
    """Whole up to 9,999, with a prefix beyond."""
    return f"{value:,.0f}" if known(value) and abs(value) < 10_000 else scaled(value)


def coarse(value: float | None) -> str:
    """One digit behind the point where there is a prefix, for the terminal: 512, 1.2 k, 3.0 G."""
    if value is None:
        return MISSING
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f} {letter}"
    return f"{value:.0f}"


def brief(value: float) -> str:
    """As short as possible: 400, 30 k, 0.05."""
    return (
        scaled(value, write=short) if abs(value) >= 10_000 else fixed(value, 0) if value == int(value) else short(value)
    )


def flops(value: Any) -> str:
    return scaled(value, "FLOP")


def size(value: Any) -> str:
    """Bytes, whole where they are few."""
    return f"{value:.0f}{BLANK}B" if known(value) and abs(value) < 1000 else scaled(value, "B")


def duration(seconds: Any) -> str:
    """0.42 s, 12.3 s, 3 min 20 s, 2 h 5 min."""
    if not known(seconds):
        return MISSING
    if seconds < 59.95:
        return f"{digits(seconds)}{BLANK}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}{BLANK}min{BLANK}{whole % 60}{BLANK}s".replace(f"{BLANK}0{BLANK}s", "")
    minutes = round(seconds / 60)
    return f"{minutes // 60}{BLANK}h{BLANK}{minutes % 60}{BLANK}min".replace(f"{BLANK}0{BLANK}min", "")


def decimals(values: Iterable[Any]) -> int:
    """How many digits behind the point show four of the largest value; the same for a whole column. Of zeros, one."""
    largest = max((abs(value) for value in values if known(value)), default=0.0)
    return 1 if largest == 0 else min(4, max(0, 3 - math.floor(math.log10(largest))))


def fixed(value: Any, behind: int, *, sign: bool = False) -> str:
    """With so many digits behind the point, and a true minus."""
    if not known(value):
        return MISSING
    text = f"{value:+,.{behind}f}" if sign else f"{value:,.{behind}f}"
    return ("0" + text[2:] if float(text.replace(",", "")) == 0 and text[0] in "+-" else text).replace("-", "−")


def ticks(values: Sequence[float], step: float) -> list[str]:
    """Numbers beside an axis, as exact as the distance between two of them asks for, and all in one manner."""
    large, small = max(map(abs, values), default=0) >= 10_000, any(0 < abs(value) < 1e-3 for value in values)
    behind = max(0, -math.floor(math.log10(step) + 1e-9)) if step < 1 else 0
    if not math.isclose(step * 10**behind, round(step * 10**behind)):
        behind += 1  # 2.5, 0.25
    huge = max(map(abs, values), default=0) >= 1e14
    found = []
    for value in values:
        if huge and abs(value) >= 10:
            found.append(power(value))
        elif large and abs(value) >= 1000:
            found.append(scaled(value, write=short))
        elif small and 0 < abs(value) < 1:
            found.append(power(value))
        else:
            found.append(fixed(value, 0 if value == round(value) and large else behind))
    return [text.replace("-", "−") for text in found]
