"""What a training will need, before it runs: measured for two seconds, and the rest by arithmetic.

Steps are timed on this machine with the run's own model, data and settings, and what a step keeps for its backward
pass is counted; evaluations come on top. On GPUs of a named kind time follows from FLOPs and a stated share of their
peak.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..core.errors import RecollectError
from ..core.settings import known
from ..core.task import RunConfig, Task
from ..models.size import parameters
from .loop import Trainer
from .optim import sample_state
from .progress import peak_bytes
from .settings import Settings

SECONDS = 2.0  # of steps that are timed
WARM_UPS = 2  # steps before
NEVER = 10**9
USED = 0.35  # of a GPU's peak that training is assumed to reach; small models, bound by launches, reach far less
KINDS = {  # GPU → dense bfloat16 FLOPs a second, bytes of memory: as their makers state them
    "a100": (312e12, 80e9),
    "h100": (989e12, 80e9),
    "h200": (989e12, 141e9),
    "b200": (2250e12, 180e9),
    "l4": (121e12, 24e9),
    "rtx4090": (165e12, 24e9),
}


class PlanError(RecollectError):
    """A plan that cannot be made; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a training needs: counts, bytes by what they are for, and time on the machine that it was measured on."""

    parameters: int
    steps: int
    tokens: int
    flops: float
    weights: int  # bytes, as are the next four
    gradients: int
    optimizer: int
    kept: int  # of a step, for its backward pass
    state: int  # of one row, at the length that the run works with
    peak_bytes: int | None  # of the process, or of the GPU; None where the system does not count
    step_seconds: float
    seconds: float  # of all steps, without evaluations
    evaluations: int
    measured_steps: int

    def on_gpus(self, kind: str, count: int) -> dict[str, Any]:
        """Time and memory on GPUs of a kind, each with a copy of the weights and its share of a batch."""
        peak, memory = KINDS[known("kind of GPU", kind, KINDS)]
        if count < 1:
            raise PlanError(f"--gpus: expected at least 1, found {count}")
        each = self.weights + self.gradients + self.optimizer + self.kept / count
        return {
            "kind": kind,
            "gpus": count,
            "seconds": self.flops / (count * peak * USED),
            "assumed_share_of_peak": USED,
            "bytes_each": round(each),
            "bytes_each_sharded": round((self.weights + self.gradients + self.optimizer + self.kept) / count),
            "memory_each": round(memory),
            "fits": each <= memory,
        }

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def plan(task: type[Task[Any, Any]], config: RunConfig, data: Any, device: str, params: int | None = None) -> Plan:
    """The plan of a run, from some of its steps."""
    config = task.resolve(config, data, params)
    if config.model["name"] in task.counted:
        raise PlanError(
            f"--model {config.model['name']}: expected a model that is trained in steps, found one that is counted"
        )
    torch.manual_seed(config.train.seed)
    artifacts = task.artifacts_of(data)

    def refuse(path: str) -> Any:
        raise PlanError(f"plan: expected a model of its own, found one that is made of the run {path}")

    model = task.build_model(config.model, artifacts, refuse)
    bound = task(config.task, data, device, config.train.seed)
    settings: Settings = config.train
    warm = _trainer(bound, model, replace(settings, steps=WARM_UPS, tokens=None, seconds=None, flops=None))
    kept = _kept(bound, warm)
    warm._train()
    timed = _trainer(bound, model, replace(settings, steps=None, tokens=None, seconds=SECONDS, flops=None))
    timed._train()
    spent = timed.spent
    steps = _steps(settings, spent.tokens / spent.step, spent.flops / spent.step, spent.seconds / spent.step)
    weights = sum(tensor.numel() * tensor.element_size() for tensor in model.parameters())
    moments = sum(1 for value in sample_state(settings).values() if isinstance(value, Tensor) and value.dim())
    return Plan(
        parameters=parameters(model),
        steps=steps,
        tokens=round(steps * spent.tokens / spent.step),
        flops=steps * spent.flops / spent.step,
        weights=weights,
        gradients=weights,
        optimizer=moments * weights,
        kept=kept,
        state=task.state_bytes(model, config),
        peak_bytes=peak_bytes(torch.device(device)),
        step_seconds=spent.seconds / spent.step,
        seconds=steps * spent.seconds / spent.step,
        evaluations=-(-steps // settings.eval_every) + 1,  # the best weights are measured once more
        measured_steps=spent.step,
    )


def _trainer(task: Task[Any, Any], model: nn.Module, settings: Settings) -> Trainer:
    """A training without a folder and without evaluations, at its highest rate from the start or below."""
    quiet = replace(settings, eval_every=NEVER, save_every=NEVER, log_every=NEVER)
    return Trainer(task, model, quiet, None, task.device)


def _steps(settings: Settings, tokens: float, flops: float, seconds: float) -> int:
    """The steps after which the first of the budgets is spent."""
    bounds = [
        budget / each
        for budget, each in (
            (settings.total_steps, 1.0), (settings.tokens, tokens), (settings.flops, flops), (settings.seconds, seconds)
        )
        if budget is not None
    ]  # fmt: skip
    return max(1, round(min(bounds)))


def _kept(task: Task[Any, Any], trainer: Trainer) -> int:
    """Bytes that the largest part of a step keeps for its backward pass, besides the weights."""
    own = {parameter.untyped_storage().data_ptr() for parameter in trainer.model.parameters()}
    batch = next(task.batches("train", trainer.settings.seed))
    most, carry = 0, None
    trainer.model.train()
    for part in task.backward_parts(batch):
        found: dict[int, int] = {}

        def pack(tensor: Tensor, found: dict[int, int] = found) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                found[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = trainer.objective(part, carry)
        carry, most = loss.carry, max(most, sum(found.values()))
        del loss
    return most
