"""Training on data that a claim makes itself: the one training loop, without a run folder."""

from typing import Any

import torch

from ..core.task import Task
from ..train.loop import Trainer
from ..train.settings import Settings


def fit(
    task: Task, config: Any, *, steps: int, rate: float, seed: int, device: str = "cpu", every: int | None = None
) -> Any:
    """A model of `config` with the weights it has after so many steps, ready to be measured.

    On the way the task evaluates it after `every` so many steps.
    """
    torch.manual_seed(seed)
    model = config.build()
    settings = Settings(
        steps=steps,
        lr=rate,
        warmup=steps // 20,
        weight_decay=0.0,
        eval_every=every or steps,
        save_every=steps,
        seed=seed,
    )
    Trainer(task, model, settings, None, torch.device(device)).run()
    return model.eval()
