"""Weight matrices for products with a few rows: laid out for the fastest read, and rounded where asked for."""

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from ...core.contract import ContractError

PACKINGS = ("float16", "int8")  # rounded weights, on a CPU
COLUMNS = 64  # torch's 8-bit product reads blocks of so many columns


def list_packings() -> tuple[str, ...]:
    """The precisions to which this processor can round weights."""
    return PACKINGS if "fbgemm" in torch.backends.quantized.supported_engines else ()


class Float16Matrix:
    """A matrix (N D) with its bias, stored in float16. Products and sums are float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        if not list_packings():
            raise ContractError("precision: expected a processor with fbgemm (x86), found none; use float32")
        held = None if bias is None else bias.detach().float()
        self.held = torch.ops.quantized.linear_prepack_fp16(weight.detach().float().contiguous(), held)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic_fp16(x, self.held)


class Int8Matrix:
    """A matrix (N D) in int8 with a scale for each row; inputs and outputs are bfloat16."""

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


Matrix = Tensor | Float16Matrix | Int8Matrix


def lay_out(weight: Tensor, bias: Tensor | None = None, packing: str | None = None) -> Matrix:
    """The matrix (N D) for `multiply`. On a CPU one with more rows than columns is stored column by column."""
    if packing is not None:
        return Float16Matrix(weight, bias) if packing == "float16" else Int8Matrix(weight, bias)
    weight = weight.detach()
    if weight.is_cuda or weight.shape[0] <= weight.shape[1]:
        return weight.contiguous()
    return weight.t().contiguous().t()


def multiply(x: Tensor, weight: Matrix, bias: Tensor | None = None) -> Tensor:
    """x·Wᵀ + bias: x: B D → B N; a rounded matrix holds its own bias."""
    return linear(x, weight, bias) if isinstance(weight, Tensor) else weight(x)
