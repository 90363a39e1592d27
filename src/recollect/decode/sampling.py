"""Choice of the next token from logits: greedy, or sampled with temperature, top-k, top-p and a repetition penalty.

All in tensors, without a wait for the host, so that a CUDA graph can hold it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import kernels
from ..core.settings import ContractError
from ..runtime.sampling import SORT_SHARE, Config

MAX_KERNEL_TOKENS = 32  # that kernels select or forbid at a time: each is an iteration of a loop


def choose_tokens(
    logits: Tensor, written: Sequence[Sequence[int]], config: Config, draws: list[torch.Generator]
) -> list[int]:
    """The next token of each row, from its logits and its text so far; each row samples from its own generator."""
    logits = logits.float().cpu()
    threshold = None if config.greedy else torch.stack([torch.rand((), generator=draw) for draw in draws])
    return pick_tokens(
        logits, config, mask_written(written, logits) if config.penalty != 1 else None, threshold
    ).tolist()


def mask_written(written: Sequence[Sequence[int]], logits: Tensor) -> Tensor:
    """B V: which tokens are in the text of each row."""
    seen = torch.zeros(logits.shape, dtype=torch.bool)
    for row, tokens in zip(seen, written, strict=True):
        row[torch.tensor(tokens, dtype=torch.int64)] = True
    return seen.to(logits.device)


def pick_tokens(logits: Tensor, config: Config, seen: Tensor | None, threshold: Tensor | None) -> Tensor:
    """The next token of each row (B), from logits (B V).

    `seen` (B V) marks the tokens that the penalty applies to. `threshold` (B) is a uniform number from 0 to below 1 for
    each row, None for greedy: sampling takes the token at which the cumulative distribution, likeliest token first,
    reaches the threshold.
    """
    logits = logits.float()
    if seen is not None:
        logits = logits - logits.logsumexp(dim=-1, keepdim=True)  # log-probabilities: all ≤ 0
        logits = torch.where(seen, logits * config.penalty, logits)
    if threshold is None:
        return logits.argmax(dim=-1)
    logits = logits / config.temperature
    count = min(config.top_k or logits.shape[1], logits.shape[1])
    if count * SORT_SHARE > logits.shape[1]:
        ranked, order = logits.sort(dim=-1, descending=True, stable=True)
        shares, order = ranked.softmax(dim=-1)[:, :count], order[:, :count]
    else:
        ranked, order = stable_topk(logits, count)
        shares = (ranked - logits.logsumexp(dim=-1, keepdim=True)).exp()
    if config.top_p is not None:
        shares = shares * (shares.cumsum(dim=-1) - shares < config.top_p)  # the likeliest always stays
    sums = shares.cumsum(dim=-1)
    picked = (sums < threshold[:, None] * sums[:, -1:]).sum(dim=-1)
    # the threshold may exceed the sum by rounding: then the last token with a share is taken
    picked = torch.minimum(picked, ((shares > 0).sum(dim=-1) - 1).clamp(min=0))
    return order.gather(1, picked[:, None])[:, 0]


def stable_topk(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest entries of each row (N M) and their indices, highest first; of equal ones the first."""
    found, places = scores.topk(min(count + 1, scores.shape[1]))
    least, next_best = found[:, count - 1 : count], found[:, count:]
    found, places = found[:, :count], places[:, :count]
    # topk may take any of several equals; on a GPU counting them is cheaper than asking whether any was left out
    if scores.is_cuda or bool((next_best == least).any()):
        nth = torch.arange(count, device=scores.device)
        equals = (scores == least).cumsum(dim=1, dtype=torch.int32)
        firsts = torch.searchsorted(equals, (nth + 1).int().expand(len(scores), -1).contiguous())
        firsts = firsts.clamp(max=scores.shape[1] - 1)  # NaN equals nothing, not even itself
        above = found > least
        places = torch.where(above, places, firsts.gather(1, (nth - above.sum(dim=1, keepdim=True)).clamp(min=0)))
    places = places.sort(dim=1).values
    found, order = scores.gather(1, places).sort(dim=1, descending=True, stable=True)
    return found, places.gather(1, order)


def log_probabilities(logits: Tensor, forbidden: Tensor, largest: int) -> Tensor:
    """rows V: log p of every token, -inf for forbidden ones.

    The others keep the model's own log p: probabilities are not renormalized. A NaN anywhere in a row makes all of the
    row NaN but for the forbidden tokens.
    """
    check_tokens(largest, logits.shape[1])
    logp = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    return logp.index_fill_(1, forbidden, float("-inf")) if len(forbidden) else logp


def check_tokens(largest: int, size: int) -> None:
    """Refuse token ids outside a vocabulary of `size`."""
    if largest >= size:
        raise ContractError(f"beam: expected begin, end and banned below {size} (the model's tokens), found {largest}")


def can_use_kernels(logits: Tensor, logprob: Tensor, forbidden: Tensor, count: int) -> bool:
    """Whether kernels can select `count` tokens from logits (rows V), into buffers like `logprob`."""
    if not (kernels.can_launch(logits) or (kernels.interpreted() and kernels.installed())):
        return False
    known = logits.dtype in (torch.float32, torch.bfloat16, torch.float16) and logprob.dtype == torch.float32
    return known and logits.stride(-1) == 1 and max(count, len(forbidden)) <= MAX_KERNEL_TOKENS


def nan_error(when: str) -> ContractError:
    """The error to raise where a model's logits are NaN."""
    return ContractError(f"beam: expected logits that are numbers, found NaN {when}; look at the model's weights")
