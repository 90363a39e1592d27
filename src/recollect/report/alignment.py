"""The map of an alignment: which word of the source each word of the target came from."""

from collections.abc import Sequence

from .drawing import figure


def draw(
    weights: Sequence[Sequence[float]], source: Sequence[str], target: Sequence[str], path: str, title: str = ""
) -> None:
    """One row a token of the target, one column a token of the source; the darker, the more it counts."""
    names = figure.families([*source, *target, title])
    size = 0.32
    page, axes = figure.canvas(2.2 + size * len(source), 1.8 + size * len(target))
    axes.imshow(weights, cmap="Greys", vmin=0, vmax=max(max(row) for row in weights), aspect="equal")
    words = {"fontfamily": names, "parse_math": False}  # a word with two $ in it is no formula
    axes.set_xticks(range(len(source)), source, rotation=60, ha="left", rotation_mode="anchor", **words)
    axes.set_yticks(range(len(target)), target, **words)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks([i - 0.5 for i in range(1, len(source))], minor=True)
    axes.set_yticks([i - 0.5 for i in range(1, len(target))], minor=True)
    axes.grid(which="minor", color="0.9", linewidth=0.5)
    axes.tick_params(which="minor", length=0)
    if title:
        axes.set_xlabel(title, fontfamily=names, fontsize="small")
    figure.save(page, path)
