"""Attention of soft alignment by additive scores in one kernel a step, forward and backward.

tanh(query + key), the largest tensor that plain operations save, is not saved but computed again in the backward pass.
"""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false

from typing import Any

import torch
import triton
from torch import Tensor

from .additive_kernels import attend, attend_backward
from .soft_align import Attend, Backward, Saved, Source, Weights

TILE, WARPS = 4096, 8  # elements of a block of keys or values, and warps: on an H200 the fastest of four tried


def prepare(source: Source, weights: Weights, steps: int, *, save: bool) -> tuple[Attend, Saved]:
    """The function that attends to the source at a step, and the tensors that it saves."""
    keys, values, valid = (tensor.contiguous() for tensor in source)
    (batch, places, width), vector = keys.shape, weights.vector
    assert vector is not None
    vector = vector.contiguous()
    queries = keys.new_empty(steps if save else 1, batch, width)
    alignments = keys.new_empty(steps if save else 1, batch, places if save else 0)
    saved, constants = Saved(queries, [], []), constants_of(keys, values)

    def run(t: int, h: Tensor) -> Tensor:
        at = t if save else 0
        torch.mm(h, weights.query.mT, out=queries[at])
        context = torch.empty_like(values[:, 0])
        with torch.cuda.device_of(keys):
            attend[(batch,)](
                queries[at], keys, values, valid, vector, context, alignments[at], places, SAVE=save, **constants
            )
        if save:
            saved.alignments.append(alignments[at])
        return context

    return run, saved


class KernelBackward(Backward):
    """The backward pass with one kernel for the attention of a step."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        keys, values, _ = self.source
        self.keys, self.values, self.constants = keys.contiguous(), values.contiguous(), constants_of(keys, values)
        self.grad_keys = torch.zeros_like(self.keys)
        self.grad_vector = torch.zeros_like(self.keys[:, 0])  # of each row

    def backward_query(self, t: int) -> Tensor:
        assert self.saved.score_inputs is not None
        found, context = torch.empty_like(self.grad_vector), self.contexts[:, t]
        with torch.cuda.device_of(found):
            attend_backward[(len(found),)](
                *(
                    self.grad_context[t + 1],
                    context,
                    self.saved.alignments[t],
                    self.saved.score_inputs[t],
                    self.keys,
                    self.values,
                ),
                *(found, self.grad_keys, self.grad_vector, context.stride(0), self.keys.shape[1]),
                **self.constants,
            )
        return found

    def backward_vector(self) -> Tensor:
        return self.grad_vector.sum(dim=0)


def constants_of(keys: Tensor, values: Tensor) -> dict[str, Any]:
    """The compile-time constants of the kernels: widths, but not the length of the source."""
    key, value = keys.shape[2], values.shape[2]
    wide_key, wide_value = triton.next_power_of_2(key), triton.next_power_of_2(value)
    return {
        "KEY": key,
        "VALUE": value,
        "WIDE_KEY": wide_key,
        "WIDE_VALUE": wide_value,
        "BLOCK": max(1, min(32, TILE // max(wide_key, wide_value))),
        "num_warps": WARPS,
    }
