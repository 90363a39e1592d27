"""Attribution by gradient: how much each input matters to each output."""

import torch
from torch import Tensor


@torch.enable_grad()
def gradients_of(outputs: Tensor, inputs: Tensor) -> Tensor:
    """The gradient of each output (N) by the inputs: N and the shape of `inputs`."""
    rows = [torch.autograd.grad(each, inputs, retain_graph=True, materialize_grads=True)[0] for each in outputs]
    return torch.stack(rows).detach()


def normalize_rows(values: Tensor) -> Tensor:
    """Each row (all axes but the first) divided by its sum; a row of zeros stays as it is."""
    total = values.flatten(1).sum(dim=1).clamp(min=torch.finfo(values.dtype).tiny)
    return values / total.reshape(-1, *[1] * (values.dim() - 1))
