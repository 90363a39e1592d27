"""A task by script: its losses and evaluations are given, not computed."""

from types import SimpleNamespace

import torch
from torch import nn

from recollect.core.task import Loss
from recollect.training.folder import RunFolder
from recollect.training.loop import Trainer
from recollect.training.settings import Settings


class Scripted:
    """A task whose loss is gradient · weight and whose evaluations give the values of a list, the last for ever."""

    name, metric, repeats, in_nats = "scripted", "value", True, True

    price = 0  # FLOPs of a batch

    def __init__(self, values, gradient=0.0):
        self.values, self.gradient = list(values), gradient
        self.evaluations = []  # the weight at each evaluation
        self.seen = lambda: None

    def batches(self, split, seed, start=0):
        while True:
            yield SimpleNamespace(number=start, x=torch.zeros(2, 5))
            start += 1

    def shape(self, batch):
        return tuple(batch.x.shape)

    def flops(self, model, *shape):
        return self.price

    def backward_parts(self, batch):
        return [batch]

    def loss(self, model, batch, carry=None):
        self.seen()
        return Loss(model.weight.sum() * self.gradient, 10)

    def evaluate(self, model, split):
        value = self.values[min(len(self.evaluations), len(self.values) - 1)]
        self.evaluations.append(model.weight.item())
        return {"value": value}


def scripted(tmp_path, values, gradient=1.0, **settings):
    """A trainer of one weight that falls by lr · gradient a step, into a folder."""
    given = {"optimizer": "sgd", "lr": 1.0, "warmup": 0, "schedule": "constant", "weight_decay": 0.0, "clip": None}
    task, model = Scripted(values, gradient), nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    folder = RunFolder.create(tmp_path / "run", {})
    return Trainer(task, model, Settings(**given | settings), folder, torch.device("cpu")), task, folder
