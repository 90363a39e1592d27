"""Rows of unequal length: each gets what it would get alone, whatever stands in the padding."""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from . import state as states
from .contract import ContractError, Layer, Memory, name_of

S = TypeVar("S")


def run(
    layer: Layer[S],
    x: Tensor,
    lengths: Tensor | Sequence[int],
    state: S | None = None,
    memory: Memory | None = None,
) -> tuple[Tensor, S]:
    """Outputs (zero in the padding) and each row's own final state. x: B T D; lengths: B, from 0 to T."""
    if state is None:
        state = layer.initial_state(x.shape[0], memory=memory, like=x if x.is_floating_point() else None)
    layer.check(x, state)
    lengths = check_lengths(lengths, x)
    padding = ~mask(lengths, x.shape[1])
    y, state = layer.ragged(x.masked_fill(padding.reshape(*padding.shape, *[1] * (x.dim() - 2)), 0), lengths, state)
    return y.masked_fill(padding[..., None], 0), state


def scan(layer: Layer[S], x: Tensor, lengths: Tensor, state: S) -> tuple[Tensor, S]:
    """Outputs and each row's own final state, step by step in one loop: for a trace, where no length is a number."""
    from torch._higher_order_ops.scan import scan as scan_steps

    def step(parts: list[Tensor], given: tuple[Tensor, Tensor]) -> tuple[list[Tensor], Tensor]:
        now, runs = given  # B D, B
        unused = iter(parts)
        y, after = layer(now[:, None], states.map(lambda _: next(unused), state))
        kept = [
            torch.where(runs.reshape(-1, *[1] * (new.dim() - 1)), new, old).contiguous()
            for new, old in zip(states.leaves(after), parts, strict=True)
        ]
        return kept, y[:, 0].clone()

    _, after = layer(x[:, :1], state)
    for (name, new), old in zip(states.named(after), states.leaves(state), strict=True):
        if new.dim() != old.dim() or new.shape[1:] != old.shape[1:]:
            raise ContractError(
                f"{name_of(layer)}: expected a state of one size to read a source of any length in an exported graph, "
                f"found {name!r}, which grows; use a layer whose state keeps its size as the encoder"
            )
    begun = [part.clone(memory_format=torch.contiguous_format) for part in states.leaves(state)]
    torch.compiler.reset()  # loops compiled before would be asked whether their lengths suit, and so bound this one's
    ended, outputs = scan_steps(step, begun, (x.transpose(0, 1), mask(lengths, x.shape[1]).T))
    parts = iter(ended)
    return outputs.transpose(0, 1), states.map(lambda _: next(parts), state)


def mask(lengths: Tensor, steps: int) -> Tensor:
    """B T: True where a row has something."""
    return torch.arange(steps, device=lengths.device) < lengths[:, None]


def check_lengths(lengths: Tensor | Sequence[int] | None, x: Tensor, least: int = 0) -> Tensor:
    """The lengths as an int64 tensor beside x, or one clear line about what is wrong with them."""
    if lengths is None:
        return torch.full((x.shape[0],), x.shape[1], device=x.device)
    lengths = torch.as_tensor(lengths, device=x.device)
    if lengths.shape != (x.shape[0],) or lengths.is_floating_point():
        raise ContractError(
            f"lengths: expected {x.shape[0]} whole numbers, one a row, found {lengths.dtype} {tuple(lengths.shape)}"
        )
    if torch.compiler.is_exporting() or (x.is_cuda and torch.cuda.is_current_stream_capturing()):
        return lengths.long()  # of a trace no values are known; a check of a capture would synchronise
    wrong = ((lengths < least) | (lengths > x.shape[1])).nonzero()[:, 0]
    if len(wrong):
        row = int(wrong[0])
        raise ContractError(
            f"lengths: expected {least} to {x.shape[1]} (the steps of x), found {int(lengths[row])} in row {row}"
        )
    return lengths.long()


def reverse(x: Tensor, lengths: Tensor) -> Tensor:
    """Each row turned round within its own length; the padding stays where it is."""
    steps = torch.arange(x.shape[1], device=x.device)
    turned = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)  # B T
    return x.gather(1, turned.reshape(*turned.shape, *[1] * (x.dim() - 2)).expand_as(x))
