"""Where an input enters a model: the vectors that its tokens become, or its numbers themselves.

Gradients with respect to an input are taken there. It is found by what the model does, not by what kind it is: a table
of vectors that is asked for exactly these tokens.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..core.contract import ContractError


def traced(call: Callable[..., Tensor], model: nn.Module, *inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
    """call(*inputs), and what each input entered `model` as: leaves to which gradients can be taken.

    Tokens are B T and enter as B T E; inputs with numbers enter as they are. Where two inputs hold the same tokens,
    they are taken to be asked for in the order given.
    """
    if counted(model):
        raise ContractError(
            "gradients: expected a model whose outputs have a gradient, found one that counts; ask by ablation"
        )
    tokens = {number: x for number, x in enumerate(inputs) if not x.is_floating_point()}
    given = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
    leaves = {number: x for number, x in enumerate(given) if x.is_floating_point()}

    def note(_: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        same = [number for number, x in tokens.items() if _same(arguments[0], x)]
        if not same:
            return None
        number = next((number for number in same if number not in leaves), None)
        if number is None:
            raise ContractError(
                "gradients: expected one table of vectors for the tokens, found several; look at a mixture's parts"
            )
        leaves[number] = output.detach().requires_grad_()
        return leaves[number]

    with torch.enable_grad(), _hooked(model, note):
        y = call(*given)
    if len(leaves) < len(inputs):
        raise ContractError("gradients: expected a table of vectors for the tokens, found none; ask by ablation")
    return y, [leaves[number] for number in range(len(inputs))]


def without(call: Callable[[Tensor], Tensor], model: nn.Module, x: Tensor, gone: Tensor) -> Tensor:
    """call(x) with zeros in place of what x enters as, where `gone` (B T) is True."""
    if x.is_floating_point():
        return call(x.masked_fill(gone[..., None], 0))
    met = []

    def erase(_: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        if not _same(arguments[0], x):
            return None
        met.append(True)
        return output.masked_fill(gone[..., None], 0)

    with _hooked(model, erase):
        y = call(x)
    if not met:
        raise ContractError("ablation: expected a table of vectors to take zeros from, found none; use by=another")
    return y


def counted(model: nn.Module) -> bool:
    """Whether a model, or a part of it, was counted and not trained."""
    return any(hasattr(part, "train_on") for part in model.modules())


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())


@contextmanager
def _hooked(model: nn.Module, hook: Callable[..., Tensor | None]) -> Iterator[None]:
    handles = [part.register_forward_hook(hook) for part in model.modules() if isinstance(part, nn.Embedding)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
