"""How much each place of a source matters to each token that is written, by gradient: for any model."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def of_source(model: Any, source: Tensor, tokens: Sequence[int], begin: int) -> Tensor:
    """T S: ‖∂ log p(token t)/∂(embedding of source place s)‖, each row divided by its sum.

    source: 1 S tokens with their end; `tokens` are what was written, its end included.
    """
    with torch.enable_grad():
        embedded = model.embed_source(source).detach().requires_grad_()
        memory = model.read_source(embedded)
        x = torch.tensor([[begin, *tokens[:-1]]], device=source.device)
        logits, _ = model(x, memory=memory)
        chosen = logits[0].log_softmax(dim=-1)[torch.arange(len(tokens)), torch.tensor(tokens, device=source.device)]
        rows = [torch.autograd.grad(each, embedded, retain_graph=True)[0][0].norm(dim=-1) for each in chosen]
    found = torch.stack(rows).detach().float().cpu()
    return found / found.sum(dim=1, keepdim=True).clamp(min=torch.finfo(found.dtype).tiny)
