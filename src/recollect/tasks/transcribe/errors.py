"""How far transcripts are from what was said: character error rate, and the share without a mistake."""

from collections.abc import Sequence
from typing import Any

import numpy as np

RULE = "insertions, deletions and substitutions over the characters of the references"
BUCKETS = (2, 5, 10, 20, 40, 80, 160, 320)


def edit_distance(found: str, wanted: str) -> int:
    """The fewest characters to insert, delete or replace that make one text of the other (Levenshtein)."""
    if not found or not wanted:
        return max(len(found), len(wanted))
    ours, theirs = (np.array(list(map(ord, text))) for text in (found, wanted))
    places = np.arange(len(theirs) + 1)
    row = places
    for number, letter in enumerate(ours, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (theirs != letter))
        row = np.concatenate([[number], best])
        row = np.minimum.accumulate(row - places) + places  # insertions, from the left on
    return int(row[-1])


def score(found: Sequence[str], wanted: Sequence[str]) -> dict[str, Any]:
    """The character error rate over all texts, and the share of texts that are right as a whole."""
    edits = [edit_distance(one, other) for one, other in zip(found, wanted, strict=True)]
    characters = sum(map(len, wanted))
    return {
        "error": sum(edits) / max(characters, 1),
        "accuracy": sum(not each for each in edits) / max(len(edits), 1),
        "characters": characters,
        "edits": edits,
    }


def by_length(
    found: Sequence[str], wanted: Sequence[str], lengths: Sequence[int], longer: Sequence[bool], *, exact: bool
) -> list[dict[str, Any]]:
    """The error rate at each length; unless `exact`, in buckets. `trained` says whether training has such lengths."""
    ends = sorted(set(lengths)) if exact else [*BUCKETS, max(max(lengths), BUCKETS[-1] + 1)]
    rows, low = [], 0
    for high in ends:
        inside = [number for number, length in enumerate(lengths) if low < length <= high]
        if inside:
            own = score([found[n] for n in inside], [wanted[n] for n in inside])
            rows.append(
                {"above": high - 1 if exact else low, "upto": high, "strings": len(inside), "error": own["error"]}
                | {"accuracy": own["accuracy"], "trained": not any(longer[n] for n in inside)}
            )
        low = high
    return rows
