"""Rows of a test of memory for the instruments: cut after their last question, and asked what the test asks."""

from typing import Any

from ...core.contract import ContractError
from ...core.inspection import Probe, Request
from ...core.task import LoadedRun


def probe(run: LoadedRun[Any, Any], request: Request) -> Probe:
    test, model = run.data, run.model
    batch = next(run.task.batches("valid", 0))
    at, y = batch.at[:, -test.judged :], batch.y[:, -test.judged :]  # its questions come last
    order = at[0].argsort()
    at, y = at[:, order], y[:, order]
    same = (at == at[:1]).all(dim=1).nonzero()[:, 0][: request.rows or 1]
    end = int(at[0, -1]) + 1
    if request.steps not in (None, end):
        raise ContractError(
            f"--steps: expected the {end} steps of a row of {test.kind}, found {request.steps}; leave it"
        )
    x, y = batch.x[same, :end], y[same]
    numbers = x.is_floating_point()
    names = (f"{row[0]:.2f}{'*' if row[-1] else ''}" if numbers else test.word(row) for row in x[0].tolist())
    return Probe(
        model=model,
        x=x,
        y=y[..., None] if numbers else y,
        places=at[0].tolist(),
        inputs=list(names),
        outputs=[f"{value:.2f}" if numbers else test.word(value) for value in y[0].tolist()],
        categorical=test.tokens,
        stepper=model,
        steps=x,
        data=f"{len(x)} rows of validation, {test.name}",
    )
