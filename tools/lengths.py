"""BLEU against the length of the source, a curve for each model: the figure of Bahdanau, Cho and Bengio (2015)."""

import statistics
from typing import Any

FEWEST = 10  # sentences of a length, for a point


def texts(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Of translators of sentences that were joined to texts."""
    return chart(found, title="BLEU against the length of the source")


def sentences(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Of translators of single sentences; `attend` with the score of its recipe."""
    kept = [row for row in found if row["settings"]["model"]["score"] in (None, "additive")]
    return chart(kept, title="BLEU against the length of the source, single sentences")


def chart(found: list[dict[str, Any]], title: str) -> dict[str, Any]:
    """From rows of translators, the range over seeds where there are several."""
    models = list(dict.fromkeys(row["model"] for row in found))
    return {
        "title": title,
        "x": "words of the source, up to",
        "y": "BLEU",
        "lines": [_line(model, [row for row in found if row["model"] == model]) for model in models],
    }


def _line(model: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    by: dict[int, list[float]] = {}
    for row in rows:
        for bucket in row["translated"]["by_length"]:
            if bucket["sentences"] >= FEWEST and bucket["upto"] is not None:
                by.setdefault(bucket["upto"], []).append(bucket["bleu"])
    values = [by[length] for length in sorted(by)]
    several = {"low": [min(v) for v in values], "high": [max(v) for v in values]} if len(rows) > 1 else {}
    return {"name": model, "x": sorted(by), "y": [statistics.mean(v) for v in values], **several}
