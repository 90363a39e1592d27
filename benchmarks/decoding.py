"""Writing a translation: one more token by the contract's step, beside reading the prefix again."""

from collections.abc import Iterator

import torch

from recollect.models import seq2seq

from .measure import Row, compare

KINDS = {
    "fixed": {"cell": "lstm"},
    "context": {},
    "attend": {},
    "conv": {"layers": 3},
    "transformer": {"layers": 3, "heads": 4},
}


def decoding(device: str, width: int = 256, rows: int = 8, source: int = 25, vocab: int = 8000) -> Iterator[Row]:
    """The token after 8, 64 and 256 others: a recurrent step stays as it is, one of attention grows by its cache."""
    for model, settings in KINDS.items():
        built = seq2seq.Config(source=vocab, target=vocab, model=model, width=width, dropout=0.0, **settings).build()
        built = built.to(device).eval()
        with torch.inference_mode():
            memory = built.encode(torch.randint(vocab, (rows, source), device=device))
            for written in (8, 64, 256):
                prefix = torch.randint(vocab, (rows, written), device=device)
                x = torch.randint(vocab, (rows, 1), device=device)
                whole = torch.cat([prefix, x], dim=1)

                def again(built=built, memory=memory, whole=whole):
                    return built(whole, memory=memory)[0][:, -1]

                def prepared(built=built, memory=memory, prefix=prefix, written=written):
                    state = built.initial_state(rows, memory=memory, capacity=written + 1)
                    return built(prefix, state)[1]

                state = prepared()
                torch.testing.assert_close(built(x, state)[0][:, -1], again(), rtol=1e-3, atol=1e-3)
                state = prepared()

                def step(built=built, x=x, state=state, written=written):
                    # the cache is written at its end; put the clocks back, so that the next call writes there too
                    return built(x, rewound(state, written))

                yield compare(
                    f"decoding {model} after {written}",
                    step,
                    {"reading the prefix again": again},
                    device=device,
                    rounds=9,
                    note=f"B{rows}, source {source}, width {width}, vocabulary {vocab}",
                )


def rewound(state: object, clock: int) -> object:
    """The same state with its clocks at `clock`."""
    from recollect.core import state as states

    return states.map(lambda t: torch.full_like(t, clock) if t.dtype == torch.int64 else t, state)


ROWS = {"decoding": decoding}
