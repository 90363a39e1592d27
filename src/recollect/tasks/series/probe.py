"""Windows of validation for the instruments, with the forecaster as a model of the contract."""

from copy import copy
from typing import Any

import torch
from torch import Tensor, nn

from ...core.contract import ContractError, Memory
from ...core.inspection import Probe, Request, spread_evenly
from ...core.task import LoadedRun
from .readers import Stepper


class Whole(nn.Module):
    """A forecaster called on a past of any length up to its look-back; points missing before it repeat its first."""

    def __init__(self, forecaster: Any) -> None:
        super().__init__()
        self.forecaster = forecaster

    @property
    def stepping_part(self) -> nn.Module:
        """The part that has a state and goes step by step."""
        return self.forecaster.memory

    def initial_state(self, batch: int, memory: Memory | None = None) -> tuple[()]:
        return ()

    def forward(self, x: Tensor, state: tuple[()]) -> tuple[Tensor, tuple[()]]:
        """x: B k C, k up to the look-back → B H C, the centre of the forecast."""
        missing = self.forecaster.config.lookback - x.shape[1]
        past = torch.cat([x[:, :1].expand(-1, missing, -1), x], dim=1)
        return self.forecaster(past)[..., 0], state


def without_effect(forecaster: Any, batch: Any) -> tuple[Any, Any]:
    """A forecaster and windows without what is known ahead, which is only added; what is known so far has its mean."""
    if batch.known is None:
        return forecaster, batch
    bare = copy(forecaster)
    bare._modules = dict(forecaster._modules) | {"effect": None}
    with torch.no_grad():
        effect = forecaster.effect(batch.known)
    length = batch.x.shape[1]
    return bare, batch._replace(x=batch.x - effect[:, :length], y=batch.y - effect[:, length:])


def probe(run: LoadedRun[Any, Any], request: Request) -> Probe:
    forecaster, task = run.model, run.task
    if request.steps is not None:
        raise ContractError(f"--steps: expected the look-back of the run, found {request.steps}; leave it")
    origins = task.origins("valid")
    batch = task.window([origins[int(i)] for i in spread_evenly(len(origins), request.rows or 1)])
    forecaster, batch = without_effect(forecaster, batch)
    stepper = steps = None
    if isinstance(forecaster.memory, Stepper):
        stepper, steps = forecaster.memory, forecaster.steps_of(batch.x)
    lookback, horizon = batch.x.shape[1], batch.y.shape[1]
    return Probe(
        model=Whole(forecaster),
        x=batch.x,
        y=batch.y,
        places=range(horizon),
        inputs=[str(t - lookback + 1) for t in range(lookback)],
        outputs=[f"+{h + 1}" for h in range(horizon)],
        categorical=False,
        ahead=True,
        stepper=stepper,
        steps=steps,
        data=f"{len(batch.x)} windows of validation",
    )
