"""Cross-entropy of a linear read-out, computed in chunks so that the logits are never in memory as a whole.

    logits = hidden·weightᵀ + bias;  loss = −log softmax(logits)[target]

Rows are processed in chunks. For a mean every row has the same weight, so the gradients are computed in the forward
pass, from the chunk's logits; for one loss a row the backward pass computes the logits again. Products run in the dtype
of autocast; softmax, losses and the sum of the weights' gradients over chunks in float32 or better.
"""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, pad

from ..kernels import autocast_dtype

Reduction = Literal["none", "mean"]

# Logits in a chunk, by kind of device: few enough to save memory, so many that adding up gradients costs little.
CHUNK = {"cuda": 2**28, "cpu": 2**23}
# The most logits computed in one go: fewer cost a device launches, more cost it bytes, of which chunks move half.
WHOLE = {"cuda": 2**26, "cpu": 2**23}
# Tensor cores need whole tiles: a vocabulary is padded to a multiple with tokens of probability 0.
GRAIN = {"cuda": 64}


class Gradients(NamedTuple):
    hidden: Tensor | None  # N D
    weight: Tensor | None  # V D
    bias: Tensor | None  # V


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    smoothing: float = 0.0,
    ignore: int | None = None,
    reduction: Reduction = "none",
) -> Tensor:
    """hidden: N D, weight: V D, bias: V, targets: N → losses: N in nats, or their mean.

    A target equal to `ignore` has loss 0 and counts in no mean.
    """
    if len(targets) * len(weight) <= min(for_device(WHOLE, hidden), for_device(CHUNK, hidden)):
        logits = at_least_float32(linear(hidden, weight, bias))
        skipped = -100 if ignore is None else ignore
        return cross_entropy(logits, targets, ignore_index=skipped, reduction=reduction, label_smoothing=smoothing)
    wanted = tuple(t is not None and t.requires_grad and torch.is_grad_enabled() for t in (hidden, weight, bias))
    if not any(wanted):
        losses, _ = chunked_losses(hidden, weight, bias, targets, smoothing, ignore)
        return losses if reduction == "none" else losses.sum() * mean_factor(losses, targets, ignore)
    return (Losses if reduction == "none" else Mean).apply(hidden, weight, bias, targets, smoothing, ignore, wanted)


class Losses(torch.autograd.Function):
    """A loss for each row; backward computes the logits again, since the weight of each row is known only then."""

    @staticmethod
    def forward(ctx: Any, hidden: Any, weight: Any, bias: Any, targets: Any, smoothing: Any, ignore: Any, wanted: Any):
        ctx.save_for_backward(hidden, weight, bias, targets)
        ctx.options, ctx.dtype = (smoothing, ignore, wanted), autocast_dtype(hidden)
        return chunked_losses(hidden, weight, bias, targets, smoothing, ignore)[0]

    @staticmethod
    def backward(ctx: Any, *outer: Tensor):
        refuse_second_derivative()
        _, found = chunked_losses(*ctx.saved_tensors, *ctx.options, factors=outer[0], dtype=ctx.dtype)
        return *found, None, None, None, None


class Mean(torch.autograd.Function):
    """The mean of the losses; what it saves for backward are the gradients themselves."""

    @staticmethod
    def forward(ctx: Any, hidden: Any, weight: Any, bias: Any, targets: Any, smoothing: Any, ignore: Any, wanted: Any):
        losses, found = chunked_losses(hidden, weight, bias, targets, smoothing, ignore, wanted)
        factor = mean_factor(losses, targets, ignore)
        ctx.save_for_backward(factor, *found)
        return losses.sum() * factor

    @staticmethod
    def backward(ctx: Any, *outer: Tensor):
        refuse_second_derivative()
        factor, *found = ctx.saved_tensors
        scale = outer[0] * factor
        return *(None if t is None else t * scale.to(t.dtype) for t in found), None, None, None, None


def refuse_second_derivative() -> None:
    """Raise on create_graph=True: gradients computed in chunks have no graph of their own."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError(
            "linear_cross_entropy: expected a first derivative, found create_graph=True; for a second one take "
            "cross_entropy of the logits"
        )


def chunked_losses(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    ignore: int | None,
    wanted: tuple[bool, ...] = (False, False, False),
    factors: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Gradients]:
    """The losses of all rows, and the `wanted` gradients of their sum, each row times its factor."""
    dtype = dtype or autocast_dtype(hidden)
    wide = torch.promote_types(dtype, torch.float32)
    vocab = len(weight)
    W, b = pad_vocabulary(weight.to(dtype), None if bias is None else bias.to(dtype))
    skipped = None if ignore is None else targets == ignore
    if skipped is not None:
        targets = targets.masked_fill(skipped, 0)
        factors = (~skipped).to(wide) if factors is None else factors.masked_fill(skipped, 0)
    losses, grad_hidden, grad_weight, grad_bias = [], [], None, None
    rows = rows_per_chunk(hidden, len(W))
    for start in range(0, len(targets), rows):
        chunk = slice(start, start + rows)
        h, target = hidden[chunk].to(dtype), targets[chunk, None]  # n D, n 1
        factor = None if factors is None else factors[chunk, None]  # n 1
        log_p = linear(h, W, b).log_softmax(dim=-1, dtype=wide)  # n V
        own = log_p.gather(1, target)  # n 1
        losses.append(smoothed(-own[:, 0], log_p[:, :vocab], smoothing))
        if not any(wanted):
            continue
        grad_logits = logits_gradient(log_p, own, target, smoothing, vocab, dtype)  # n V
        if wanted[0]:
            part = grad_logits @ W
            grad_hidden.append(part if factor is None else part * factor)
        if wanted[1]:
            part = (grad_logits.t() @ (h if factor is None else (h * factor).to(dtype))).to(wide)
            grad_weight = part if grad_weight is None else grad_weight.add_(part)
        if wanted[2]:
            part = grad_logits.sum(0, dtype=wide) if factor is None else (factor[:, 0].to(dtype) @ grad_logits).to(wide)
            grad_bias = part if grad_bias is None else grad_bias.add_(part)
    total = torch.cat(losses)
    return total if skipped is None else total.masked_fill(skipped, 0), Gradients(
        torch.cat(grad_hidden).to(hidden.dtype) if grad_hidden else None,
        None if grad_weight is None else grad_weight[:vocab].to(weight.dtype),
        None if grad_bias is None or bias is None else grad_bias[:vocab].to(bias.dtype),
    )


def smoothed(losses: Tensor, log_p: Tensor, smoothing: float) -> Tensor:
    """Losses with label smoothing: a part of each is the mean over all tokens."""
    return losses if not smoothing else (1 - smoothing) * losses - smoothing * log_p.mean(dim=-1)


def logits_gradient(
    log_p: Tensor, own: Tensor, target: Tensor, smoothing: float, vocab: int, dtype: torch.dtype
) -> Tensor:
    """The gradient of the losses with respect to the logits, p − target distribution. Overwrites `log_p`."""
    grad_logits = torch.exp(log_p, out=log_p if log_p.dtype == dtype else torch.empty_like(log_p, dtype=dtype))
    even = smoothing / vocab
    if even:
        grad_logits.sub_(even)
    return grad_logits.scatter_(1, target, (own.expm1() + (smoothing - even)).to(dtype))


def pad_vocabulary(weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The same read-out with a vocabulary padded to whole tiles; added tokens have probability 0."""
    extra = -len(weight) % GRAIN.get(weight.device.type, 1)
    if not extra:
        return weight, bias
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    return pad(weight, (0, 0, 0, extra)), pad(bias, (0, extra), value=float("-inf"))


def mean_factor(losses: Tensor, targets: Tensor, ignore: int | None) -> Tensor:
    """1 / the number of rows in the mean, as a tensor, so that nothing waits for the device."""
    count = losses.new_full((), len(targets)) if ignore is None else (targets != ignore).sum().to(losses.dtype)
    return 1 / count


def for_device(sizes: dict[str, int], tensor: Tensor) -> int:
    return sizes.get(tensor.device.type, sizes["cpu"])


def rows_per_chunk(hidden: Tensor, vocab: int) -> int:
    """Rows of a chunk: a power of two, so that chunks are of one size wherever batches are."""
    return 2 ** (max(1, for_device(CHUNK, hidden) // vocab).bit_length() - 1)


def at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype.itemsize < 4 else tensor
