"""Matrices for one step: each laid out as the product with a few rows reads it fastest, and rounded where asked for."""

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from ..core.contract import ContractError

PACKINGS = ("float16", "int8")  # of weights alone, on a CPU
COLUMNS = 64  # torch's product with 8 bits reads so many at once, whether they are there or not


class Halved:
    """A matrix (N D) with its bias, held in 16 bits. Products and sums are float32: only the weights are rounded."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        if "fbgemm" not in torch.backends.quantized.supported_engines:
            raise ContractError("precision: expected a processor with fbgemm (x86), found none; use float32")
        held = None if bias is None else bias.detach().float()
        self.held = torch.ops.quantized.linear_prepack_fp16(weight.detach().float().contiguous(), held)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic_fp16(x, self.held)


class Bytes:
    """A matrix (N D) in 8 bits, each row with a scale of its own; what goes in and comes out is bfloat16."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.detach().float()
        largest = weight.abs().amax(dim=1).clamp(min=1e-30)
        self.scales = (largest / 127).bfloat16()
        rounded = (weight / self.scales.float()[:, None]).round().clamp(-128, 127).to(torch.int8)
        self.spare = -weight.shape[1] % COLUMNS
        self.held = pad(rounded, (0, self.spare)).contiguous()
        self.bias = None if bias is None else bias.detach().float()

    def __call__(self, x: Tensor) -> Tensor:
        x = pad(x, (0, self.spare)) if self.spare else x
        y = torch._weight_int8pack_mm(x.bfloat16(), self.held, self.scales).float()  # pyright: ignore
        return y if self.bias is None else y.add_(self.bias)


Matrix = Tensor | Halved | Bytes


def lay(weight: Tensor, bias: Tensor | None = None, packing: str | None = None) -> Matrix:
    """The matrix (N D) for `product`. On a CPU one with more rows than columns is read by its columns."""
    if packing is not None:
        return Halved(weight, bias) if packing == "float16" else Bytes(weight, bias)
    weight = weight.detach()
    if weight.is_cuda or weight.shape[0] <= weight.shape[1]:
        return weight.contiguous()
    return weight.t().contiguous().t()


def product(x: Tensor, weight: Matrix, bias: Tensor | None = None) -> Tensor:
    """x: B D → B N; a rounded matrix has its bias inside."""
    return linear(x, weight, bias) if isinstance(weight, Tensor) else weight(x)
