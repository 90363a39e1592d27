"""One more token of a translation, by the contract's step and by reading the prefix again: both sides are ours."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from recollect.core import state as states
from recollect.models import seq2seq

from .floors import floor
from .measure import AS_CALLED, Row, attempt, compare, graphs

KINDS: dict[Any, dict[str, Any]] = {
    "fixed": {"cell": "lstm"},
    "context": {},
    "attend": {},
    "conv": {"layers": 3},
    "transformer": {"layers": 3, "heads": 4},
}
WIDTH, ROWS_OF_TEXT, SOURCE, VOCAB = 256, 8, 25, 8000
AGAIN = "reading the prefix again"


def decoding(device: str) -> Iterator[Row]:
    """The token after 8, 64 and 256 others: a recurrent step stays as it is, one of attention grows by its cache."""
    for model in KINDS:
        for written in (8, 64, 256):
            title = f"decoding {model} after {written}"
            yield attempt(title, device, partial(one, title, device, model, written))


@torch.inference_mode()
def one(title: str, device: str, model: Any, written: int) -> Row:
    config = seq2seq.Config(source=VOCAB, target=VOCAB, model=model, width=WIDTH, dropout=0.0, **KINDS[model])
    built = config.build().to(device).eval()
    memory = built.encode(torch.randint(VOCAB, (ROWS_OF_TEXT, SOURCE), device=device))
    whole = torch.randint(VOCAB, (ROWS_OF_TEXT, written + 1), device=device)
    x = whole[:, -1:]

    def read() -> Any:
        state = built.initial_state(ROWS_OF_TEXT, memory=memory, capacity=written + 1)
        return built(whole[:, :-1], state)[1]

    # the step writes the cache at its end, so that a call with the same state writes the same again
    state = read()

    def step() -> Tensor:
        return built(x, state)[0][:, -1]

    def again() -> Tensor:
        return built(whole, memory=memory)[0][:, -1]

    torch.testing.assert_close(step(), again(), rtol=1e-3, atol=1e-3)
    ours, failed = graphs({AS_CALLED: step}, device)
    theirs, also_failed = graphs({AGAIN: again}, device)
    weights = sum(p.numel() for p in [*built.decoder.parameters(), *built.head.parameters()])
    more, less = (built.cost(ROWS_OF_TEXT, steps, SOURCE).flops for steps in (written + 1, written))
    return compare(
        title,
        {AS_CALLED: step} | ours,
        {AGAIN: again} | theirs,
        device=device,
        rounds=7,
        fresh=lambda: x.random_(VOCAB),
        floor=floor(device, flops=more - less, bytes=4 * weights + states.nbytes(state)),
        absent=failed | also_failed,
        unit="tokens",
        amount=ROWS_OF_TEXT,
        checked="logits within 1e-3",
        note=f"B{ROWS_OF_TEXT}, source {SOURCE}, width {WIDTH}, vocabulary {VOCAB}",
    )


ROWS = {"decoding": decoding}
