"""Labelled rows for the instruments: of validation, cut to one length, or a given text with the model's own answer."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core.contract import ContractError, Memory
from ...core.inspection import Probe, Request, spread_evenly
from ...core.task import LoadedRun
from ...models.classifier import BothWays


class Whole(nn.Module):
    """A classifier that reads whole rows, called as a model of the contract: one output, after the last step."""

    def __init__(self, classifier: BothWays) -> None:
        super().__init__()
        self.classifier = classifier
        self.width = classifier.width

    def initial_state(self, batch: int, memory: Memory | None = None) -> tuple[()]:
        return ()

    def forward(self, x: Tensor, state: tuple[()]) -> tuple[Tensor, tuple[()]]:
        """x: B T tokens, or B T D numbers → B 1 C."""
        return self.classifier(x)[:, None], state


def probe(run: LoadedRun[Any, Any], request: Request) -> Probe:
    artifacts, model = run.artifacts, run.model
    if request.text is not None:
        if artifacts.tokenizer is None:
            raise ContractError(f"--text: expected a run that reads texts, found one that reads {artifacts.kind}")
        x = torch.from_numpy(artifacts.encode(request.text).astype(np.int64))[None].to(run.device)
        if not x.shape[1]:
            raise ContractError("--text: expected at least one token, found none")
        whole = torch.tensor([x.shape[1]], device=run.device)
        label = model.last(x, whole).argmax(dim=-1)  # its own answer, since there is no true one
        about = "the given text, judged by the model's own answer"
    else:
        rows = run.task.rows("valid")
        steps = min(request.steps or run.config.task.length or int(np.median(rows.sizes)), int(rows.sizes.max()))
        long = np.flatnonzero(rows.sizes >= steps)
        some = long[spread_evenly(len(long), request.rows or 1)]
        batch = rows.take(some)
        x, label = batch.x[:, :steps], batch.y
        about = f"the first {steps} steps of {len(some)} rows of validation"
    steps = x.shape[1]
    tokens = x[0].tolist()
    names = (
        [str(t + 1) for t in range(steps)]
        if artifacts.tokenizer is None
        else [artifacts.tokenizer.token(t) for t in tokens]
    )
    encode = None if artifacts.tokenizer is None else artifacts.encode
    name = artifacts.classes[int(label[0])]
    if isinstance(model, BothWays):
        return Probe(
            model=Whole(model), x=x, y=label[:, None], places=[0], inputs=names, outputs=[name], ahead=True,
            encode=encode, data=about,
        )  # fmt: skip
    return Probe(
        model=model,
        x=x,
        y=label[:, None].expand(-1, steps),
        places=range(steps),
        inputs=names,
        outputs=[f"{name} after {t + 1}" for t in range(steps)],
        encode=encode,
        stepper=model,
        steps=x,
        data=about,
    )
