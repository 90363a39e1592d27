"""Which word of the source each word of a translation came from: attention where a model has it, else influence."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.contract import ContractError
from ..decode import pharaoh
from ..decode.beam import Hypothesis
from ..decode.translate import encode, looks
from ..train.job import Used
from . import influence


class Alignment(NamedTuple):
    """Weights T S of one translation, ends included, with the names of its rows and columns."""

    weights: Tensor
    source: list[str]
    target: list[str]
    kind: str  # what the weights are
    pairs: list[tuple[int, int]]  # (source word, target word), the strongest for each word of the target


def align(
    used: Used[Any], ids: np.ndarray, hypothesis: Hypothesis, *, layer: int | None = None, head: int | None = None
) -> Alignment:
    """Where a translation of the source `ids` came from, by one layer or head (from 1), or the mean of all."""
    source, target = used.kept
    row, written = np.append(ids, source.end), [*hypothesis.tokens, target.end]
    memory = encode(used.model, source, [ids])
    found = looks(used.model, memory, hypothesis.tokens, target.begin)
    if found:
        weights, kind = chosen(found, layer, head)
    elif layer is not None or head is not None:
        raise ContractError(
            "alignment: expected a model with attention for a layer or a head, found one without; ask for neither"
        )
    else:
        tokens = torch.from_numpy(row.astype(np.int64))[None].to(memory.values.device)
        weights = influence.of_source(used.model, tokens, written, target.begin)
        kind = "influence of each source token, by gradient"
    words = pharaoh.words(source, ids.tolist()), pharaoh.words(target, hypothesis.tokens)
    pairs = pharaoh.pairs(weights, *words)
    return Alignment(weights, source.pieces(row), target.pieces(written), kind, pairs)


def chosen(found: dict[str, Tensor], layer: int | None, head: int | None) -> tuple[Tensor, str]:
    """The mean of the heads that were asked for, and what to call it."""
    every = [name for name in found if name != "mean"]
    names = [name for name in every if _asked(name, "layer", layer) and _asked(name, "head", head)]
    if not names:
        asked = ", ".join(f"{name} {value}" for name, value in (("layer", layer), ("head", head)) if value is not None)
        raise ContractError(f"alignment: expected one of {', '.join(every)}, found {asked}; see --layer and --head")
    weights = torch.stack([found[name] for name in names]).mean(dim=0)
    if len(names) > 1:
        return weights, f"attention, mean of {len(names)} heads"
    return weights, "attention" if len(every) == 1 else f"attention, {names[0]}"


def _asked(name: str, what: str, number: int | None) -> bool:
    """Whether `layer 2 head 1` is of the layer or head asked for."""
    parts = name.split()
    return number is None or parts[parts.index(what) + 1] == str(number)
