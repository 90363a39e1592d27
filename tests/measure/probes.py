"""Small models with probes of them."""

from typing import NamedTuple

import pytest
import torch
from torch import nn

from recollect.core.contract import Cell, Cost
from recollect.core.inspection import Probe
from recollect.models import language, ngram

KINDS = tuple(language.KINDS)


VOCAB = 7


every_kind = pytest.mark.parametrize("kind", KINDS)


class Hidden(NamedTuple):
    h: torch.Tensor  # B W


class LinearRnn(Cell[Hidden]):
    """h ← W x + U h: its gradients are powers of U."""

    def __init__(self, dim=3, width=4, radius=0.9):
        super().__init__()
        self.dim, self.width = dim, width
        torch.manual_seed(3)
        self.W = nn.Parameter(torch.randn(width, dim, dtype=torch.float64))
        U = torch.randn(width, width, dtype=torch.float64)
        self.U = nn.Parameter(U * radius / torch.linalg.eigvals(U).abs().max())
        self.double()

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return Hidden(self.like(like).new_zeros(batch, self.width))

    def update(self, state, x):
        return Hidden(x @ self.W.T + state.h @ self.U.T)

    def read(self, state, x):
        return state.h

    def cost(self, batch, steps, source=0):
        return Cost(2 * batch * steps * self.width * (self.dim + self.width), batch * self.width * 8)


def build(model, seed=0, **settings):
    """A language model with weights large enough that everything matters."""
    torch.manual_seed(seed)
    given = {"width": 8, "layers": 2, "heads": 2} | settings
    found = language.Config(vocab=VOCAB, model=model, **given).build().double().eval()
    with torch.no_grad():
        for weight in found.parameters():
            if weight.dim() > 1:
                weight.mul_(3 if model in ("transformer", "linear-transformer", "ttt-linear", "ttt-mlp") else 1.2)
    return found


def counting(order=3):
    torch.manual_seed(0)
    return ngram.Config(order=order, vocab=VOCAB).build().train_on(torch.randint(VOCAB, (400,)).numpy()).eval()


def subject(model, rows=2, steps=10, seed=0):
    x = torch.randint(VOCAB, (rows, steps + 1), generator=torch.Generator().manual_seed(seed))
    names = [str(int(token)) for token in x[0]]
    return Probe(
        model=model,
        x=x[:, :-1],
        y=x[:, 1:],
        places=range(steps),
        inputs=names[:-1],
        outputs=names[1:],
        stepper=model,
        steps=x[:, :-1],
    )
