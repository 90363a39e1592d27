"""Cross-entropy of a linear read-out, without the logits ever standing whole in memory.

    logits = hidden·weightᵀ + bias;  loss = −log softmax(logits)[target]

Rows go through in pieces. For a mean every row weighs the same, so the gradients are found in the forward pass, while
a piece's logits are there; for one loss a row the backward pass makes the logits anew. Products run in the dtype of
autocast; softmax, losses and the sum of the weights' gradients over the pieces in float32 or better.
"""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, pad

Reduction = Literal["none", "mean"]

# Logits in a piece, by kind of device: few enough to leave memory alone, so many that adding up gradients costs little.
PIECE = {"cuda": 2**28, "cpu": 2**23}
# So many logits may stand whole: fewer cost a device launches, more cost it bytes, of which pieces move half.
WHOLE = {"cuda": 2**26, "cpu": 2**23}
# Tensor cores want whole tiles: a vocabulary is filled up to a multiple with columns that have no chance.
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
    if len(targets) * len(weight) <= min(of_device(WHOLE, hidden), of_device(PIECE, hidden)):
        logits = at_least_float32(linear(hidden, weight, bias))
        skipped = -100 if ignore is None else ignore
        return cross_entropy(logits, targets, ignore_index=skipped, reduction=reduction, label_smoothing=smoothing)
    wanted = tuple(t is not None and t.requires_grad and torch.is_grad_enabled() for t in (hidden, weight, bias))
    if not any(wanted):
        losses, _ = sweep(hidden, weight, bias, targets, smoothing, ignore)
        return losses if reduction == "none" else losses.sum() * share_of_row(losses, targets, ignore)
    return (Losses if reduction == "none" else Mean).apply(hidden, weight, bias, targets, smoothing, ignore, wanted)


class Losses(torch.autograd.Function):
    """A loss for each row; backward makes the logits again, since only it knows how much each row weighs."""

    @staticmethod
    def forward(ctx: Any, hidden: Any, weight: Any, bias: Any, targets: Any, smoothing: Any, ignore: Any, wanted: Any):
        ctx.save_for_backward(hidden, weight, bias, targets)
        ctx.options, ctx.dtype = (smoothing, ignore, wanted), product_dtype(hidden)
        return sweep(hidden, weight, bias, targets, smoothing, ignore)[0]

    @staticmethod
    def backward(ctx: Any, *outer: Tensor):
        refuse_second_derivative()
        _, found = sweep(*ctx.saved_tensors, *ctx.options, factors=outer[0], dtype=ctx.dtype)
        return *found, None, None, None, None


class Mean(torch.autograd.Function):
    """The mean of the losses; what it leaves for backward are the gradients themselves."""

    @staticmethod
    def forward(ctx: Any, hidden: Any, weight: Any, bias: Any, targets: Any, smoothing: Any, ignore: Any, wanted: Any):
        losses, found = sweep(hidden, weight, bias, targets, smoothing, ignore, wanted)
        share = share_of_row(losses, targets, ignore)
        ctx.save_for_backward(share, *found)
        return losses.sum() * share

    @staticmethod
    def backward(ctx: Any, *outer: Tensor):
        refuse_second_derivative()
        share, *found = ctx.saved_tensors
        scale = outer[0] * share
        return *(None if t is None else t * scale.to(t.dtype) for t in found), None, None, None, None


def refuse_second_derivative() -> None:
    """What is found in pieces are numbers; a derivative of them would be silently without its greater part."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError(
            "linear_cross_entropy: expected a first derivative, found create_graph=True; for a second one take "
            "cross_entropy of the logits"
        )


def sweep(
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
    """The losses of all rows, and those gradients of their sum, each row times its factor, that are `wanted`."""
    dtype = dtype or product_dtype(hidden)
    wide = torch.promote_types(dtype, torch.float32)
    vocab = len(weight)
    W, b = whole_tiles(weight.to(dtype), None if bias is None else bias.to(dtype))
    skipped = None if ignore is None else targets == ignore
    if skipped is not None:
        targets = targets.masked_fill(skipped, 0)
        factors = (~skipped).to(wide) if factors is None else factors.masked_fill(skipped, 0)
    losses, by_hidden, by_weight, by_bias = [], [], None, None
    rows = rows_of_piece(hidden, len(W))
    for start in range(0, len(targets), rows):
        piece = slice(start, start + rows)
        h, target = hidden[piece].to(dtype), targets[piece, None]  # n D, n 1
        factor = None if factors is None else factors[piece, None]  # n 1
        log_p = linear(h, W, b).log_softmax(dim=-1, dtype=wide)  # n V
        own = log_p.gather(1, target)  # n 1
        losses.append(smoothed(-own[:, 0], log_p[:, :vocab], smoothing))
        if not any(wanted):
            continue
        slope = derivative(log_p, own, target, smoothing, vocab, dtype)  # n V
        if wanted[0]:
            part = slope @ W
            by_hidden.append(part if factor is None else part * factor)
        if wanted[1]:
            part = (slope.t() @ (h if factor is None else (h * factor).to(dtype))).to(wide)
            by_weight = part if by_weight is None else by_weight.add_(part)
        if wanted[2]:
            part = slope.sum(0, dtype=wide) if factor is None else (factor[:, 0].to(dtype) @ slope).to(wide)
            by_bias = part if by_bias is None else by_bias.add_(part)
    total = torch.cat(losses)
    return total if skipped is None else total.masked_fill(skipped, 0), Gradients(
        torch.cat(by_hidden).to(hidden.dtype) if by_hidden else None,
        None if by_weight is None else by_weight[:vocab].to(weight.dtype),
        None if by_bias is None or bias is None else by_bias[:vocab].to(bias.dtype),
    )


def smoothed(losses: Tensor, log_p: Tensor, smoothing: float) -> Tensor:
    """A share of each loss is that of all tokens alike."""
    return losses if not smoothing else (1 - smoothing) * losses - smoothing * log_p.mean(dim=-1)


def derivative(log_p: Tensor, own: Tensor, target: Tensor, smoothing: float, vocab: int, dtype: torch.dtype) -> Tensor:
    """Of the losses with respect to the logits: what was predicted less what was asked for. Spends `log_p`."""
    slope = torch.exp(log_p, out=log_p if log_p.dtype == dtype else torch.empty_like(log_p, dtype=dtype))
    even = smoothing / vocab
    if even:
        slope.sub_(even)
    return slope.scatter_(1, target, (own.expm1() + (smoothing - even)).to(dtype))


def whole_tiles(weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The same read-out with a number of tokens that the device likes; those added are never predicted."""
    extra = -len(weight) % GRAIN.get(weight.device.type, 1)
    if not extra:
        return weight, bias
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    return pad(weight, (0, 0, 0, extra)), pad(bias, (0, extra), value=float("-inf"))


def share_of_row(losses: Tensor, targets: Tensor, ignore: int | None) -> Tensor:
    """1 / how many rows a mean is over, as a tensor, so that no one waits for the device."""
    count = losses.new_full((), len(targets)) if ignore is None else (targets != ignore).sum().to(losses.dtype)
    return 1 / count


def product_dtype(hidden: Tensor) -> torch.dtype:
    """What a linear layer would compute in here."""
    kind = hidden.device.type
    lowered = torch.is_autocast_enabled(kind) and hidden.dtype != torch.float64
    return torch.get_autocast_dtype(kind) if lowered else hidden.dtype


def of_device(sizes: dict[str, int], tensor: Tensor) -> int:
    return sizes.get(tensor.device.type, sizes["cpu"])


def rows_of_piece(hidden: Tensor, vocab: int) -> int:
    """A power of two, so that pieces are of one size wherever batches are."""
    return 2 ** (max(1, of_device(PIECE, hidden) // vocab).bit_length() - 1)


def at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype.itemsize < 4 else tensor
