"""The chunked form of a matrix memory: attention inside a chunk, matrices only between chunks.

The recurrence is S_t = Λ_t S_{t−1} + k_t u_tᵀ, read by y_t = q_tᵀ S_t. Λ_t is diagonal: one decay for the matrix, or
one for each of its rows. The pseudo-values u_t are β_t v_t where writing adds, and β_t (v_t − (Λ_t S_{t−1})ᵀ k_t)
where it follows the delta rule. Within a chunk that starts from S,

    y_t = (Λ_{1..t} q_t)ᵀ S + Σ_{s≤t} (q_tᵀ Λ_{s+1..t} k_s) u_s
    S'  = Λ_{1..c} S + Σ_s (Λ_{s+1..c} k_s) u_sᵀ

and the pseudo-values of the delta rule solve (I + M) U = βV − βK⁺S, M[t, s] = β_t k_tᵀ Λ_{s+1..t} k_s for s < t and
K⁺_t = Λ_{1..t} k_t (the WY or UT form, Yang 2024): one triangular system with two right sides, neither of which waits
for S. What remains to be done one chunk after the other is one product of S a chunk.

Decays are products Λ_{s+1..t} with s ≤ t, never quotients, so that no number is larger than it should be: the
logarithms between s and t are summed for each pair. A difference of two sums from the start would lose digits beside
strong decays, in the backward pass too. Signs of negative decays are kept apart.
"""

from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor
from torch.nn.functional import pad

CHUNK = 64  # steps computed together
DELTA_CHUNK = 32  # by the delta rule: errors of its triangular system grow with a chunk
CHANNEL_CHUNK = 16  # where each row of the matrix has a decay of its own: a chunk holds c² of them for each
LEAST = -1000.0  # of logarithms: exp of it is 0 in every precision


class Decay(NamedTuple):
    """Decays step by step: logarithms of magnitudes, and signs where there are negative ones. B|1 T H 1|d each."""

    log: Tensor
    sign: Tensor | None = None

    @classmethod
    def of(cls, decay: Tensor) -> "Decay":
        """The decay of numbers in (−1, 1). At 0 the logarithm is that of a tiny number, so that its slope is right."""
        tiny = torch.finfo(decay.dtype).tiny ** 0.75
        shift = (decay.abs() < tiny).to(decay.dtype) * tiny
        sign = 1 - 2 * (decay < 0).to(decay.dtype)
        return cls((decay * sign + shift).log(), sign)

    def still(self, nothing: Tensor) -> "Decay":
        """Without decay where `nothing` (B T 1 1) is true."""
        sign = None if self.sign is None else self.sign.masked_fill(nothing, 1)
        return Decay(self.log.masked_fill(nothing, 0), sign)


class Inside(NamedTuple):
    """The products of decays inside each chunk; e is 1 or d."""

    between: Tensor  # B|1 H n c c e: Λ_{s+1..t} at [t, s], 0 for s > t
    start: Tensor  # B|1 H n c e: Λ_{1..t}
    end: Tensor  # B|1 H n c e: Λ_{s+1..c}


def run(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Tensor,
    *,
    decay: Decay | None = None,
    beta: Tensor | None = None,
    delta: bool = False,
) -> tuple[Tensor, Tensor]:
    """What is read after each step (B T H e), and the matrix after the last.

    q, k: B T H d; v: B T H e; state: B H d e; beta: B T H 1. Everything is in the dtype of the state, under autocast
    too. A step with k = 0 and no decay changes nothing.
    """
    with torch.autocast(state.device.type, enabled=False):
        steps = q.shape[1]
        channels = decay is not None and decay.log.shape[-1] > 1
        chunk = min(steps_together(channels, delta), steps)
        q, k, v = (cut(part, chunk) for part in (q, k, v))
        inside = None if decay is None else products(decay, steps, chunk)
        strength = torch.ones_like(k[..., :1]) if beta is None else cut(beta, chunk)
        if delta:
            y, state = run_delta(q, k, v * strength, strength, inside, state)
        else:
            y, state = run_add(q, k, v if beta is None else v * strength, inside, state)
        return rearrange(y, "b h n c e -> b (n c) h e")[:, :steps], state


def steps_together(channels: bool, delta: bool) -> int:
    """The length of a chunk; `channels`: each row of the matrix has a decay of its own."""
    return CHANNEL_CHUNK if channels else DELTA_CHUNK if delta else CHUNK


def run_add(q: Tensor, k: Tensor, u: Tensor, inside: Inside | None, state: Tensor) -> tuple[Tensor, Tensor]:
    """Writing that adds; all but q and the state are by chunk: B H n c ·."""
    scores = compare(q, k, inside)
    if inside is None:
        sums = torch.cat([state[:, :, None], k.mT @ u], dim=2).cumsum(dim=2)
        return scores @ u + q @ sums[:, :, :-1], sums[:, :, -1].clone()
    added, whole = ((k * inside.end).mT @ u).unbind(2), inside.start[..., -1, :, None].unbind(2)
    before = []
    for each, kept in zip(added, whole, strict=True):
        before.append(state)
        state = torch.addcmul(each, kept, state)
    return scores @ u + (q * inside.start) @ torch.stack(before, dim=2), state


def run_delta(
    q: Tensor, k: Tensor, written: Tensor, beta: Tensor, inside: Inside | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Writing by the delta rule; `written` is βV."""
    early, late, early_q = (k, k, q) if inside is None else (k * inside.start, k * inside.end, q * inside.start)
    system = (compare(k, k, inside) * beta).tril(-1)
    right = torch.cat([written, early * beta], dim=-1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    own, from_state = solved.split([written.shape[-1], k.shape[-1]], dim=-1)  # U = own − from_state·S
    added, moved = (late.mT @ own).unbind(2), late.mT @ from_state
    if inside is None:
        kept = torch.eye(k.shape[-1], dtype=k.dtype, device=k.device)
    else:
        kept = torch.diag_embed(inside.start[..., -1, :].expand(*inside.start.shape[:-2], k.shape[-1]))
    before = []
    for each, onward in zip(added, (kept - moved).unbind(2), strict=True):
        before.append(state)
        state = each + onward @ state
    sums = torch.stack(before, dim=2)
    return compare(q, k, inside) @ (own - from_state @ sums) + early_q @ sums, state


def compare(a: Tensor, k: Tensor, inside: Inside | None) -> Tensor:
    """a_tᵀ Λ_{s+1..t} k_s at [t, s] of each chunk, 0 for s > t: B H n c c."""
    if inside is None:
        return (a @ k.mT).tril()
    if inside.between.shape[-1] == 1:
        return (a @ k.mT) * inside.between[..., 0]
    return ((inside.between * k[..., None, :, :]) @ a[..., None])[..., 0]


def products(decay: Decay, steps: int, chunk: int) -> Inside:
    """The decays of T steps, by chunk."""
    log = cut(decay.log.expand(-1, steps, -1, -1).clamp(min=LEAST), chunk)  # b H n c e
    earlier = torch.ones(chunk, chunk, dtype=torch.bool, device=log.device).tril(-1)[..., None]  # [t, s]: s < t
    sums = log[..., :, None, :].where(earlier, 0).cumsum(dim=-3)  # of the steps after s up to t
    between = sums.masked_fill(earlier.transpose(0, 1), -torch.inf).exp()
    start = log.cumsum(dim=-2).exp()
    if decay.sign is not None:
        sign = cut(decay.sign.expand(-1, steps, -1, -1) - 1, chunk).add(1).cumprod(dim=-2)  # 1 where nothing stands
        between, start = between * sign[..., :, None, :] * sign[..., None, :, :], start * sign
    return Inside(between, start, between[..., -1, :, :])


def cut(part: Tensor, chunk: int) -> Tensor:
    """B T H d → B H n c d, with zeros after the last step."""
    part = pad(part, (0, 0, 0, 0, 0, -part.shape[1] % chunk))
    return rearrange(part, "b (n c) h d -> b h n c d", c=chunk)
