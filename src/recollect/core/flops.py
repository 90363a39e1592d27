"""FLOPs of matrix products, counted while they run.

Three things are invisible to torch's counter on a CPU, and are made visible here:

- the fused attention kernel for CPUs is not in its table, so attention runs as torch's own plain products;
- so is oneDNN's LSTM, so it is switched off;
- `torch.einsum` multiplies instead of calling a matrix product where the axis to sum over has length 1 (the one
  key of a first step), so an einsum is counted by its definition: 2 · the product of the lengths of all its axes.
"""

import math
from contextlib import ExitStack
from typing import Any, Self

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode


class Counter(TorchFunctionMode):
    """`with Counter() as counter:` and then `counter.flops`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = FlopCounterMode(display=False)
        self.extra = 0  # of einsums, less what torch saw of them
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        self.stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        fused = torch.backends.mkldnn.enabled
        self.stack.callback(setattr, torch.backends.mkldnn, "enabled", fused)
        torch.backends.mkldnn.enabled = False
        self.stack.enter_context(self.seen)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.stack.close()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = self.seen.get_total_flops()
        result = func(*args, **(kwargs or {}))
        if func is torch.einsum:
            equation, *operands = args
            axes: dict[str, int] = {}
            for names, operand in zip(equation.split("->")[0].split(","), operands, strict=True):
                axes |= dict(zip(names.strip(), operand.shape, strict=True))
            self.extra += 2 * math.prod(axes.values()) - (self.seen.get_total_flops() - before)
        return result

    @property
    def flops(self) -> int:
        return self.seen.get_total_flops() + self.extra
