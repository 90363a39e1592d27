"""The map of an alignment: which word of the source each word of the target came from."""

from collections.abc import Sequence

from .drawing import chart

WIDE = 140.0  # pixels of a map beside its cells, at least
CELL = 34.0


def describe(
    weights: Sequence[Sequence[float]], source: Sequence[str], target: Sequence[str], title: str = ""
) -> dict[str, object]:
    """The map as data: shares of one, so that its scale ends at 1 however spread out they are."""
    return {
        "title": title[:1].upper() + title[1:], "x": "source", "y": "translation", "values": weights, "low": 0.0,
        "high": 1.0, "unit": "share of each row", "columns": list(source), "rows": list(target),
    }  # fmt: skip


def draw(
    weights: Sequence[Sequence[float]], source: Sequence[str], target: Sequence[str], path: str, title: str = ""
) -> None:
    """One row a token of the target, one column a token of the source; the stronger, the more it counts."""
    found = describe(weights, source, target, title)
    wide = max(360.0, WIDE + CELL * len(source))
    chart.save(chart.compose([[found | {"title": ""}]], wide, str(found["title"])), path)
