"""The looks of soft alignment by kernels: at each step one forth and one back, for additive scores.

Neither keeps tanh(query + key), the largest thing that plain operations keep of a step: the way back makes it anew.
"""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false

from typing import Any

import torch
import triton
from torch import Tensor

from .additive_kernels import look, look_back
from .soft_align import Back, Kept, Look, Source, Weights

TILE, WARPS = 4096, 8  # numbers of a block of keys or values, and who holds them: on an H200 the fastest of four tried


def looks(source: Source, weights: Weights, steps: int, *, keep: bool) -> tuple[Look, Kept]:
    keys, values, valid = (tensor.contiguous() for tensor in source)
    (batch, places, width), vector = keys.shape, weights.vector
    assert vector is not None
    vector = vector.contiguous()
    queries = keys.new_empty(steps if keep else 1, batch, width)
    shares = keys.new_empty(steps if keep else 1, batch, places if keep else 0)
    kept, constants = Kept(queries, [], []), constants_of(keys, values)

    def look_up(t: int, h: Tensor) -> Tensor:
        at = t if keep else 0
        torch.mm(h, weights.query.mT, out=queries[at])
        context = torch.empty_like(values[:, 0])
        with torch.cuda.device_of(keys):
            look[(batch,)](
                queries[at], keys, values, valid, vector, context, shares[at], places, KEEP=keep, **constants
            )
        if keep:
            kept.shares.append(shares[at])
        return context

    return look_up, kept


class BackByKernel(Back):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        keys, values, _ = self.source
        self.keys, self.values, self.constants = keys.contiguous(), values.contiguous(), constants_of(keys, values)
        self.by_keys = torch.zeros_like(self.keys)
        self.by_vector = torch.zeros_like(self.keys[:, 0])  # of each row

    def of_query(self, t: int) -> Tensor:
        assert self.kept.asked is not None
        found, context = torch.empty_like(self.by_vector), self.contexts[:, t]
        with torch.cuda.device_of(found):
            look_back[(len(found),)](
                *(self.by_context[t + 1], context, self.kept.shares[t], self.kept.asked[t], self.keys, self.values),
                *(found, self.by_keys, self.by_vector, context.stride(0), self.keys.shape[1]),
                **self.constants,
            )
        return found

    def of_vector(self) -> Tensor:
        return self.by_vector.sum(dim=0)


def constants_of(keys: Tensor, values: Tensor) -> dict[str, Any]:
    """What the kernels are compiled for: widths, but not the number of places."""
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
