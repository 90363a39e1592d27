"""Curves that kernels share."""
# pyright: reportMissingImports=false, reportOperatorIssue=false

import triton
import triton.language as tl


@triton.jit
def tanh(x):
    """To the rounding of numbers near 1; the exponential lies between 0 and 1, whatever x."""
    small = tl.exp(-2 * tl.abs(x))
    size = 2 / (1 + small) - 1
    return tl.where(x < 0, -size, size)
