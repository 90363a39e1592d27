"""Whether a model costs what it declares, counted at the shape of the batches that it trains on."""

from typing import Any

import torch

from ..core import state as states
from ..core.comparison import LawBroken
from ..core.costs import check_cost
from ..core.errors import RunError
from ..core.task import Task

MOST_STEPS = 64  # that are counted: each is a call of its own
MOST_POSITIONS = 8192  # rows times steps


class CostError(RunError):
    """A budget of FLOPs that the declared cost of a model does not measure; the message is one line."""


def problem(task: Task[Any, Any], model: Any, artifacts: Any) -> str | None:
    """Where a model's declared cost is not what is counted, in words; None where it is, or binds nothing."""
    try:
        module, x, memory = task.law_example(model, artifacts)
    except RunError:  # it does not go step by step
        return None
    rows, steps = task.reading_shape(model, next(task.batches("train", task.seed)))
    steps = min(steps, MOST_STEPS)
    rows = max(1, min(rows, MOST_POSITIONS // steps))
    row, column = torch.arange(rows) % len(x), torch.arange(steps) % x.shape[1]
    x = x.to(module.like().dtype) if x.is_floating_point() else x
    was = module.training
    module.eval()
    try:
        check_cost(module, x[row][:, column], None if memory is None else states.select(memory, row))
    except LawBroken as broken:
        return str(broken).removeprefix("Cost law broken by ")
    finally:
        module.train(was)
    return None


def refuse_wrong_budget(task: Task[Any, Any], model: Any, artifacts: Any) -> None:
    """Refuse to train on a budget of FLOPs that the model's own declaration gets wrong."""
    if why := problem(task, model, artifacts):
        raise CostError(
            f"flops: expected declared costs that are those counted, since they measure the budget, found {why}; mend "
            "cost() of that layer, or choose another budget"
        )
