"""The lineage as a graph: which idea came after which, what it changed, and which claims are about it."""

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from ...layers import lineage


class Idea(NamedTuple):
    """One memory of the lineage. `column` and `row` are its place on the map; `lane` what to try it with."""

    name: str
    year: int
    column: int
    row: int
    after: tuple[str, ...]
    change: str
    chapter: int
    claims: tuple[str, ...] = ()
    model: str | None = None  # of `recollect train text`, where it is not its name


ROWS = (
    "A few inputs", "One vector", "Looking back at a source", "Looking back at everything",
    "A sum of all that was read", "A write that replaces", "A model trained while it reads",
)  # fmt: skip
IDEAS = (
    Idea("ngram", 1951, 0, 0, (), "Counts what followed the last few tokens; nothing is learned but the counts.", 2,
         ("complement", "perplexity")),
    Idea("window", 2003, 1, 0, ("ngram",), "A network maps the last inputs to the next one: what is alike shares what "
         "was learned.", 1, ("k-step", "stationary"), "mlp"),
    Idea("conv", 1989, 2, 0, ("window",), "The same few weights everywhere, and layers on each other to see farther.",
         11, ("receptive", "dynamic"), "tcn"),
    Idea("rnn", 1990, 2, 1, ("window",), "One vector for all that was read, of any length; each input overwrites it.",
         2, ("sharing", "cause", "bptt", "vanish", "train-memory")),
    Idea("lstm", 1997, 3, 1, ("rnn",), "A second vector that is only added to, with gates that say what is kept: a "
         "gradient comes back over it.", 4, ("gates", "forget-gate", "long-gap", "long-rnn", "clip")),
    Idea("gru", 2014, 4, 1, ("lstm",), "Two gates and one vector: what is written makes room by as much as it takes.",
         4, ("gates",)),
    Idea("mingru", 2024, 9, 1, ("gru",), "The gate sees the input alone, so that all steps are computed at once.", 11,
         ("serial",)),
    Idea("minlstm", 2024, 10, 1, ("lstm",), "Two gates that see the input alone and share what there is to keep.", 11,
         ("serial",)),
    Idea("seq2seq", 2014, 4, 2, ("lstm",), "One network reads the source into a vector, another writes from it.", 5,
         ("bottleneck", "fading", "recency", "reverse"), ""),
    Idea("soft-align", 2015, 5, 2, ("seq2seq",), "The decoder looks at every place of the source again at every step.",
         6, ("score", "bottleneck", "capacity"), ""),
    Idea("cross-attention", 2017, 6, 2, ("soft-align",), "The look back without a cell: queries from the decoder, keys "
         "and values from the source.", 8, ("score",), ""),
    Idea("attention", 2017, 6, 3, ("soft-align",), "A sequence looks itself up: every key and value is kept, and "
         "nothing is overwritten.", 8, ("scale", "content", "self", "path", "quadratic", "cache", "recall", "set"),
         "transformer"),
    Idea("linear-attention", 2020, 7, 4, ("attention",), "Without the softmax the cache is a sum: a matrix of fixed "
         "size, read by the query.", 12, ("kernel", "stores", "ttt-linear"), "linear-transformer"),
    Idea("retention", 2023, 8, 4, ("linear-attention",), "The sum fades, at a fixed rate for each head.", 13,
         ("forgetting",)),
    Idea("gla", 2023, 9, 4, ("retention",), "The input says how fast each channel of the keys fades.", 13,
         ("forgetting",)),
    Idea("mamba2", 2024, 10, 4, ("gla",), "One step size, from the input, says both how much is written and how much "
         "fades.", 13, ("forgetting",)),
    Idea("delta", 2021, 8, 5, ("linear-attention",), "A write first asks what the key holds, and adds what is missing.",
         13, ("overwrite", "delta-ttt")),
    Idea("gated-delta", 2025, 11, 5, ("delta", "mamba2"), "First the matrix fades as the input says, then the write "
         "replaces.", 13, ("overwrite", "forgetting", "eigenvalue-sign")),
    Idea("ttt-linear", 2024, 9, 6, ("linear-attention", "delta"), "The state is a small model; reading is a step of "
         "gradient descent on it.", 12, ("ttt-linear", "ttt-batch", "stores", "delta-ttt")),
    Idea("ttt-mlp", 2024, 10, 6, ("ttt-linear",), "The small model has a hidden layer, so that what it holds need not "
         "be linear.", 12, ("stores",)),
)  # fmt: skip
BY_NAME = {idea.name: idea for idea in IDEAS}
PAGE_OF = {"seq2seq": "seq2seq"}
CARDS = {  # of what is no layer of its own
    "ngram": ("counts of the last n − 1 tokens and of what followed them", "counts[last n − 1 tokens][x] ← + 1",
              "p(x) from the counts, with shorter ones where they are small"),
    "seq2seq": ("h (and c) of the decoder, begun from the encoder's last", "h ← cell([x, h])", "y = h"),
}  # fmt: skip


def layers_folder() -> Path | None:
    """Where the pages of the layers lie: inside an installed package, else in the checkout."""
    package = Path(__file__).parents[2]
    places = (package / "layer_pages", package.parents[1] / "docs" / "layers")
    return next((place for place in places if place.is_dir()), None)


def read_page(name: str, language: str) -> str | None:
    """The page of an idea in a language; None where it has none."""
    folder = layers_folder()
    if folder is None or name not in BY_NAME:
        return None
    path = folder / (f"{name}.zh.md" if language == "zh" else f"{name}.md")
    return path.read_text(encoding="utf-8") if path.is_file() else None


@cache
def read_claims() -> dict[str, dict[str, Any]]:
    """Each claim with its statement, verdict and summary, from results/claims.json by `python -m tools.lineage`."""
    text = resources.files("recollect.studio.documents").joinpath("claims.json").read_text(encoding="utf-8")
    return {row["id"]: row for row in json.loads(text)["rows"]}


@cache
def costs() -> dict[str, dict[str, Any]]:
    """What each layer costs at the width of the table of the lineage."""
    return {
        entry.card.name: {
            "params": entry.params, "flops": entry.flops_per_step,
            "bytes": {str(steps): size for steps, size in entry.state_bytes.items()},
        }
        for entry in lineage.entries()
    }  # fmt: skip
