"""Recordings for the instruments: of validation, or a given one with the model's own text.

What a decoder reads and writes is its text. A model by CTC reads steps of the sound; what it should say at each is the
label on the likeliest path of the text.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core.contract import Memory
from ...core.inspection import Probe, Request
from ...core.task import LoadedRun
from ...decode import ctc as paths
from ...models.ctc import BothWays
from ..decoding import probe_decoder, select_rows
from .transcribed import pad
from .use import posteriors_of, transcribe


class Whole(nn.Module):
    """CTC that reads whole recordings, called as a model of the contract: an output for each step."""

    def __init__(self, model: BothWays) -> None:
        super().__init__()
        self.model = model
        self.width = model.width

    def initial_state(self, batch: int, memory: Memory | None = None) -> tuple[()]:
        return ()

    def forward(self, x: Tensor, state: tuple[()]) -> tuple[Tensor, tuple[()]]:
        """x: B S D → B S C."""
        return self.model(x).values, state


def probe(run: LoadedRun[Any, Any], request: Request) -> Probe:
    artifacts, posteriors = run.artifacts, posteriors_of(run.model)
    if request.sound is not None:
        heard = next(transcribe(run, [request.sound]))
        steps, written = [heard.steps], [np.array(heard.found[0].tokens, np.int64)]
        about = "the given recording, and the model's own text of it"
    else:
        part, plan, rows = run.task.measured("valid")
        texts = [artifacts.tokenizer.encode(part.text_of(plan, int(row))) for row in rows]
        counts = np.array([artifacts.count(int(size)) for size in part.length_of(plan)[rows]])
        some = select_rows(np.array([len(text) + 1 for text in texts]) if posteriors is None else counts, request)
        steps = [artifacts.steps(part.samples_of(plan, int(row))) for row in rows[some]]
        written = [texts[place].astype(np.int64) for place in some]
        about = f"{len(some)} recordings of validation"
    frames, lengths = (part.to(run.device) for part in pad(steps))
    if posteriors is None:
        return probe_decoder(run, artifacts.tokenizer, written, (frames, lengths), (), about)
    with torch.no_grad():
        logp = posteriors(frames, lengths).cpu().numpy()
    count = min(map(len, steps)) if request.steps is None else min(request.steps, *map(len, steps))
    rows = [label_steps(logp[row, : len(own)], written[row])[:count] for row, own in enumerate(steps)]
    y = torch.from_numpy(np.stack(rows)).to(run.device)
    whole = isinstance(run.model, BothWays)
    names = [*(artifacts.tokenizer.tokenizer.token(number) for number in range(artifacts.labels - 1)), "–"]
    return Probe(
        model=Whole(run.model) if whole else run.model,
        x=frames[:, :count],
        y=y,
        places=range(count),
        inputs=[f"{artifacts.time(step):.2f} s" for step in range(count)],
        outputs=[f"{names[label]} at {artifacts.time(step):.2f} s" for step, label in enumerate(y[0].tolist())],
        stepper=None if whole else run.model,
        steps=None if whole else frames[:, :count],
        data=f"the first {count} steps of {about}",
    )


def label_steps(logp: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The label of each step on the likeliest path of a text; blanks where the steps cannot hold the text."""
    found = np.full(len(logp), logp.shape[1] - 1, np.int64)
    if np.isfinite(paths.log_likelihood(logp, tokens.tolist())):
        for label, span in zip(tokens, paths.align(logp, tokens.tolist()), strict=True):
            found[span.first : span.end] = label
    return found
