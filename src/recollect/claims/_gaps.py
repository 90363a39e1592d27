"""A fact early in a text and a question late in it: the runs that two claims look at."""

from collections.abc import Iterable, Mapping
from typing import Any

from ._shown import gather
from ._trained import seeds, train
from .claim import Effort

CELLS = {"layers": 1, "lr": 1e-2}
BLOCKS = {"layers": 2, "heads": 2, "lr": 3e-3}
MODELS: dict[str, dict[str, Any]] = {
    "ar": CELLS,
    "mlp": CELLS,
    "rnn": CELLS,
    "lstm": CELLS | {"forget_bias": 1.0},
    "gru": CELLS,
    "tcn": {"layers": 5, "kernel": 5, "lr": 3e-3},  # sees 249 words
    "transformer": BLOCKS,
    "linear-transformer": BLOCKS,
    "ttt-linear": BLOCKS,
    "ttt-mlp": BLOCKS,
}


def by_gap(
    models: Iterable[str], effort: Effort, terms: Mapping[str, Any], counts: tuple[int, int]
) -> dict[str, dict[int, list[float]]]:
    """{model: {words between: [share of right answers of each seed]}}, each model trained once at all gaps."""
    return {
        model: gather(
            train("gap", model, seed=seed, device=effort.device, vary=True, **MODELS[model] | dict(terms)).points()
            for seed in seeds(effort, *counts)
        )
        for model in models
    }
