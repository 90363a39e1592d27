"""Sentences to sentences: lines in, hypotheses out, in their order, batched by length, a part of the file at a time."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.contract import Memory
from . import beam
from .beam import Hypothesis
from .cores import count_cores, map_on_cores
from .position import device_of

LINES = 1024  # read together: enough to find lines of similar length
FEWEST = 256  # tokens of a batch that is worth a core of its own


def pad(rows: Sequence[np.ndarray], filler: int, device: torch.device, width: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of unequal length as one tensor (B S), at least `width` wide, and their lengths."""
    lengths = torch.tensor([len(row) for row in rows])
    x = torch.full((len(rows), max(int(lengths.max()), width)), filler, dtype=torch.int64)
    for i, row in enumerate(rows):
        x[i, : len(row)] = torch.from_numpy(row.astype(np.int64))
    return x.to(device), lengths.to(device)


def encode(model: Any, side: Any, rows: Sequence[np.ndarray]) -> Memory:
    """What the model remembers of sources (token ids without their end)."""
    source, lengths = pad([np.append(row, side.end) for row in rows], side.pad, device_of(model))
    return model.encode(source, lengths)


def hypotheses(
    model: Any,
    source: Any,
    target: Any,
    rows: Sequence[np.ndarray],
    config: beam.Config,
    *,
    tokens: int = 4096,
    ids: Sequence[int] | None = None,
    alignments: bool = False,
) -> list[list[Hypothesis]]:
    """The n-best lists of sources given as token ids, batched by length, on a CPU a batch on each core.

    Rows times the longest is at most `tokens` in all batches that are searched at once. `ids` are the rows' numbers in
    their file, so that drawn texts do not depend on how it was cut up.
    """
    ids = range(len(rows)) if ids is None else ids
    cores = count_cores(device_of(model))

    @torch.inference_mode()
    def search(batch: Sequence[int]) -> list[list[Hypothesis]]:
        memory = encode(model, source, [rows[i] for i in batch])
        return beam.search(
            model,
            memory,
            begin=target.begin,
            end=target.end,
            config=config,
            banned=(target.pad, target.begin),
            alignments=alignments,
            ids=[ids[i] for i in batch],
        )

    batches = cut_batches([len(row) + 1 for row in rows], tokens, cores)
    found: list[list[Hypothesis]] = [[] for _ in rows]
    for batch, lists in zip(batches, map_on_cores(search, batches, cores), strict=True):
        for i, hypothesis in zip(batch, lists, strict=True):
            found[i] = hypothesis
    return found


def cut_batches(lengths: Sequence[int], tokens: int, cores: int) -> list[list[int]]:
    """Rows of similar length in batches of at most tokens / cores, rows times the longest; the longest rows first.

    Few rows are spread over the cores, as long as a batch has FEWEST tokens.
    """
    most = max(1, min(tokens // cores, max(FEWEST, -(-sum(lengths) // cores))))
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    batches = []
    while order:
        count = max(1, most // lengths[order[0]])
        batches.append(order[:count])
        order = order[count:]
    return batches


def lines(
    model: Any,
    source: Any,
    target: Any,
    texts: Iterable[str],
    config: beam.Config,
    *,
    tokens: int = 4096,
    alignments: bool = False,
    together: int = LINES,
) -> Iterator[tuple[str, np.ndarray, list[Hypothesis]]]:
    """Each line with its tokens and its n-best list, in order.

    The list is empty for an empty line, and for one of nothing but unknown tokens, of which any translation is a guess.
    """
    waiting, number = iter(texts), 0
    failure: ValueError | None = None
    while failure is None:
        part: list[str] = []
        try:
            part.extend(islice(waiting, together))
        except ValueError as error:  # a line that cannot be read: those before it are still translated
            failure = error
        if not part:
            break
        rows = [source.encode(text) if text.strip() else np.zeros(0, np.int32) for text in part]
        full = [i for i, row in enumerate(rows) if says_something(row, source.unknown)]
        written = iter(
            hypotheses(
                model,
                source,
                target,
                [rows[i] for i in full],
                config,
                tokens=tokens,
                ids=[number + i for i in full],
                alignments=alignments,
            )
        )
        for text, row in zip(part, rows, strict=True):
            yield text, row, next(written) if says_something(row, source.unknown) else []
        number += len(part)
    if failure is not None:
        raise failure


def says_something(row: np.ndarray, unknown: int | None) -> bool:
    """Whether a row has a token that is known."""
    return bool(len(row)) and (unknown is None or bool((row != unknown).any()))


def one_line(text: str) -> str:
    """A text that stays one line in a file of lines, whatever a model writes: some vocabularies hold a newline."""
    return text.translate({ord("\n"): " ", ord("\r"): " "})


@torch.no_grad()
def looks(model: Any, memory: Memory, tokens: Sequence[int], begin: int) -> dict[str, Tensor]:
    """Where the model looks as it writes `tokens` (and the end), T S for each head: `layer 2 head 1`, and `mean`.

    `memory` is that of one source. A model without an alignment gives nothing.
    """
    state = model.initial_state(1, memory=memory)
    steps: list[dict[str, Tensor]] = []
    for token in [begin, *tokens]:
        x = torch.tensor([token], device=memory.values.device)
        found = model.explain(state, x)
        heads = [weights[0] for name, weights in found.items() if name.endswith(".source")]  # H S each
        step = {
            f"layer {level} head {head}": heads[level - 1][head - 1]
            for level in range(1, len(heads) + 1)
            for head in range(1, len(heads[level - 1]) + 1)
        }
        steps.append(step | ({"mean": found["source"][0]} if "source" in found else {}))
        _, state = model(x[:, None], state)
    return {name: torch.stack([step[name] for step in steps]).float().cpu() for name in steps[0]}
