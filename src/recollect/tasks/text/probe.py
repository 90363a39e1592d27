"""Windows of tokens for the instruments: of validation, of a given text, or of what the model itself writes."""

from typing import Any

import numpy as np
import torch

from ...core.contract import ContractError
from ...core.inspection import MOST_STEPS, Probe, Request, spread_evenly
from ...core.task import LoadedRun
from ...data.errors import Unreachable
from ...decode.engine import Engine
from ...decode.sampling import Config as Sampling


def probe(run: LoadedRun[Any, Any], request: Request) -> Probe:
    tokenizer, model, missing = run.artifacts, run.model, None
    if request.text is not None:
        windows = tokenizer.encode(request.text)[None].astype(np.int64)
        if windows.shape[1] < 2:
            raise ContractError(f"--text: expected at least two tokens, found {windows.shape[1]}")
        if windows.shape[1] > MOST_STEPS:
            raise ContractError(f"--text: expected at most {MOST_STEPS:,} tokens, found {windows.shape[1]:,}")
        about = "the given text"
    else:
        rows, steps = request.rows or 1, request.steps or run.config.task.context
        try:
            tokens, source = run.task.tokens("valid"), "validation"
            steps = min(steps, len(tokens) - 1)
            starts = spread_evenly(len(tokens) - steps, rows)
            windows = np.stack([tokens[at : at + steps + 1] for at in starts]).astype(np.int64)
        except Unreachable as error:
            missing, source = str(error), "its own writing"
            windows = own_writing(model, rows, steps + 1)
        about = f"{len(windows)} windows of {steps} tokens of {source}"
    whole = torch.from_numpy(windows).to(run.device)
    x, y = whole[:, :-1], whole[:, 1:]
    names = [tokenizer.token(int(token)) for token in windows[0]]
    return Probe(
        model=model,
        x=x,
        y=y,
        places=range(x.shape[1]),
        inputs=names[:-1],
        outputs=names[1:],
        encode=tokenizer.encode,
        stepper=model,
        steps=x,
        data=about,
        missing=missing,
    )


def own_writing(model: Any, rows: int, length: int) -> np.ndarray:
    """Texts that the model draws, rows × length; each begins with another token, and the same ones every time."""
    begins = spread_evenly(model.config.vocab, rows)[:, None]
    if length == 1:
        return begins
    engine = Engine(model, len(begins), length)
    position = engine.read_prompts(begins.tolist())
    for _ in engine.blocks(position, Sampling(length=length - 2)):
        pass
    last = position.logits.argmax(dim=-1)  # it is not read: learned positions may end before it
    return np.column_stack([np.array(position.written, dtype=np.int64), last.cpu().numpy()])
