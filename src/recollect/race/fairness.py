"""What makes a pair of entries unfair, told in each row: one word a reason, and what it stands for."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from .heat import Heat

SLACK = 0.25  # by which parameters may be off
REASONS = {
    "data": "trained or measured on other data or another split",
    "tokenizer": "another tokenizer",
    "batch": "another batch",
    "size": f"parameters more than {SLACK:.0%} off",
    "memory": "ran out of memory",
}


def judge(rows: Sequence[dict[str, Any]], heat: Heat) -> None:
    """Mark, in place, what is unfair in the rows of a heat. What most rows have is what the others are held to."""
    good = [row for row in rows if "error" not in row]
    for name in ("data", "tokenizer", "batch"):
        counts = Counter(row["fair"].get(name) for row in good)
        usual = counts.most_common(1)[0][0] if counts else None
        for row in good:
            _mark(row, name, row["fair"].get(name) != usual)
    for row in good:
        counted = row.get("entries") is not None  # what is stored is no parameter, and told apart
        off = heat.params is not None and not counted and abs(row["params"] / heat.params - 1) > SLACK
        _mark(row, "size", off)


def _mark(row: dict[str, Any], reason: str, unfair: bool) -> None:
    row["unfair"] = [other for other in row["unfair"] if other != reason] + ([reason] if unfair else [])
