"""Causal self-attention: all keys and values are stored and weighted by their score with the query.

STATE   k, v of everything seen (the KV cache), clock
UPDATE  append k = W_k x, v = W_v x
READ    y = W_o Σ softmax(score(q, K))·V, q = W_q x
GROWS   a k, v each step (up to `window`, where one is set)
FAST    SDPA for dot scores

Slots are filled in order, so a key's slot is its position. With a `window` the slots become a ring: position
p stands in slot p mod window. With `capacity` the slots exist from the start and are written in place.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from .. import kernels
from ..core import state as states
from ..core.contract import Cell, ContractError, Cost, Layer, Memory
from ..kernels import onnx
from .alignment import Places
from .attend import Attend, AttendConfig, Heads
from .keywords import constructed_from
from .position import PositionName, build_added, next_positions, rotary_angles, rotate, rotate_pairs, slopes


@dataclass(frozen=True, kw_only=True)
class Config(AttendConfig):
    """`masked=False` leaves out the causal mask, to show what breaks without it: the laws Chunk and Cause."""

    positions: PositionName = "none"
    max_positions: int = 1024
    masked: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.positions == "rotary" and self.size % 2:
            raise ContractError(f"attention: rotary positions need an even head width, found {self.size}")

    def build(self) -> "Attention":
        return Attention(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=8, heads=2),
            cls(dim=8, heads=4, kv_heads=2, positions="rotary", bias=True),
            cls(dim=6, width=4, heads=3, head_dim=2, positions="alibi"),
            cls(dim=6, heads=2, window=3),
            cls(dim=6, heads=2, window=4, positions="alibi", score="dot"),
            cls(dim=5, score="additive", positions="sinusoid"),
            cls(dim=4, score="general", positions="learned", max_positions=64),
            cls(dim=4, alignment="hard"),
            cls(dim=4, heads=2, alignment="local", window=3),
            cls(dim=6, project=False, score="dot"),
            cls(dim=8, heads=2, project=False, positions="rotary"),
        )


class State(NamedTuple):
    keys: Tensor  # B N G d
    values: Tensor  # B N G d
    clock: Tensor  # B, int64


class Buffer(NamedTuple):
    """A preallocated state, written in place: single-use, for decoding."""

    keys: Tensor  # B C G d
    values: Tensor  # B C G d
    clock: Tensor  # B, int64


@constructed_from(Config)
class Attention(Cell[State | Buffer]):
    """Self-attention over all steps so far."""

    slopes: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width = config.dim, config.out
        self.heads = Heads(config)
        self.attend = Attend(config)
        self.plain = self.attend.fused and config.window is None and config.positions != "alibi"
        self.can_export = self.attend.fused and config.window is None and config.masked  # as `run_exported`
        self.added = build_added(config.positions, config.dim, config.max_positions)
        if config.positions == "alibi":
            self.register_buffer("slopes", slopes(config.heads), persistent=False)

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State | Buffer:
        slots = 0 if capacity is None else min(capacity, self.config.window or capacity)
        like = self.like(like)
        shape = (batch, slots, self.config.groups, self.config.size)
        clock = torch.zeros(batch, dtype=torch.int64, device=like.device)
        if capacity is None or like.device.type != "cpu":
            kind = State if capacity is None else Buffer
            return kind(like.new_zeros(shape), like.new_zeros(shape), clock)
        # On a CPU a head's slots are contiguous, as SDPA reads them.
        strides = (slots * shape[2] * shape[3], shape[3], slots * shape[3], 1)
        keys, values = (like.new_empty_strided(shape, strides).zero_() for _ in range(2))
        return Buffer(keys, values, clock)

    def update(self, state: State | Buffer, x: Tensor) -> State | Buffer:
        return self.append(state, *self.project_keys_values(x[:, None], state.clock[:, None]))

    def read(self, state: State | Buffer, x: Tensor) -> Tensor:
        now = state.clock[:, None] - 1
        q = self.query(x[:, None], now)
        places = self.places(now, self.slot_positions(state))
        y = self.attend(q, state.keys, state.values, places, bias=self.bias(places))
        return self.heads.merge(y)[:, 0]

    def forward(self, x: Tensor, state: State | Buffer) -> tuple[Tensor, State | Buffer]:
        steps = x.shape[1]
        if onnx.is_exporting() and isinstance(state, Buffer) and self.can_export:
            return self.run_exported(x, state)
        if steps == 1:
            return self.step(x, state) if self.plain else self.unroll(x, state)
        window, slots = self.config.window, state.keys.shape[1]
        now = next_positions(state.clock if slots else state.clock[:1], steps)  # a fresh state's rows are all at 0
        q, k, v = self.project_all(x, now)
        if slots == 0 and self.is_plain_causal(steps):
            return self.heads.merge(self.attend.causal(q, k, v)), self.append(state, k, v)
        if slots == 0:
            after = self.append(state, k, v)
            places = self.places(now, now)
        elif window is None:
            after = self.append(state, k, v)
            k, v = after.keys, after.values
            places = self.places(now, self.slot_positions(after))
        else:  # a ring is overwritten by the chunk: attend to the old slots and the chunk together, then write
            places = self.places(now, torch.cat([self.slot_positions(state), now], dim=1))
            chunk = k, v
            k, v = torch.cat([state.keys, k], dim=1), torch.cat([state.values, v], dim=1)
            after = self.append(state, *chunk)
        return self.heads.merge(self.attend(q, k, v, places, bias=self.bias(places))), after

    def step(self, x: Tensor, state: State | Buffer) -> tuple[Tensor, State | Buffer]:
        """One step, equal to `update` and `read`, in fewer calls: no key lies ahead, so all keys are visible."""
        q, k, v = self.project_all(x, state.clock[:, None])
        if isinstance(state, Buffer) and (at := self.common_slot(state)) is not None:
            seen = [slots.narrow(1, 0, at + 1) for slots in (state.keys, state.values)]
            for slots, new in zip(seen, (k, v), strict=True):
                slots.narrow(1, at, 1).copy_(new)
            return self.heads.merge(self.attend.kernel(q, *seen)), Buffer(state.keys, state.values, state.clock + 1)
        after = self.append(state, k, v)
        there = torch.arange(after.keys.shape[1], device=x.device) < after.clock[:, None]  # B N
        y = self.attend.kernel(q, after.keys, after.values, attn_mask=there[:, None, None])
        return self.heads.merge(y), after

    def run_exported(self, x: Tensor, state: Buffer) -> tuple[Tensor, Buffer]:
        """A chunk in operators of ONNX: slots are written where they are, and a step needs no mask."""
        now, clock = next_positions(state.clock, x.shape[1]), state.clock + x.shape[1]
        q, k, v = (part.transpose(1, 2) for part in self.heads.project_joined(self.add_positions(x, now)))
        if self.config.positions == "rotary":
            cos, sin = (part[:, :, 0] for part in rotary_angles(now, self.config.size, q.dtype))
            q, k = onnx.rotate(q, cos, sin), onnx.rotate(k, cos, sin)
        keys = onnx.write_slots(state.keys.transpose(1, 2), k, state.clock)
        values = onnx.write_slots(state.values.transpose(1, 2), v, state.clock)
        after = Buffer(keys.transpose(1, 2), values.transpose(1, 2), clock)
        query, scale = self.attend.score.as_dot(q)
        if x.shape[1] == 1 and self.config.positions != "alibi":
            seen: dict[str, Tensor] = {"lengths": clock}
        else:
            places = self.places(now, self.slot_positions(after))
            seen = {"mask": self.attend.mask(places, self.bias(places), query.dtype)}
        y = onnx.attend(query, keys, values, scale, **seen)
        return self.heads.merge(y.transpose(1, 2)), after

    def common_slot(self, state: Buffer) -> int | None:
        """The next slot, if it is the same for all rows and known on the host: then no mask is needed."""
        if state.clock.device.type != "cpu" or not kernels.is_plain_eager():
            return None
        clocks = set(state.clock.tolist())
        at = clocks.pop() if len(clocks) == 1 else None
        return None if at is None or at >= state.keys.shape[1] else at

    def is_plain_causal(self, steps: int) -> bool:
        """Whether a chunk from an empty state needs no mask but the kernel's own."""
        c = self.config
        reach = c.window is None or steps <= c.window
        return reach and c.masked and c.positions != "alibi" and self.attend.fused

    def ragged(self, x: Tensor, lengths: Tensor, state: State | Buffer) -> tuple[Tensor, State | Buffer]:
        if self.config.window is not None:  # padding would overwrite real keys in the ring
            return Layer.ragged(self, x, lengths, state)
        y, after = self(x, state)
        clock = state.clock + lengths
        empty = (torch.arange(after.keys.shape[1], device=x.device) >= clock[:, None])[..., None, None]
        keys, values = (
            slots.clone().masked_fill_(empty, 0) for slots in after[:2]
        )  # a copy has the layout of its original
        return y, type(after)(keys, values, clock)

    def query(self, x: Tensor, positions: Tensor) -> Tensor:
        """B T D → B T H d, positions applied."""
        q = self.heads.query(self.add_positions(x, positions))
        return rotate(q, positions) if self.config.positions == "rotary" else q

    def project_keys_values(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """B T D → twice B T G d, positions applied, in the dtype of the state."""
        x = self.add_positions(x, positions)
        k = self.heads.key(x)
        k = rotate(k, positions) if self.config.positions == "rotary" else k
        return k, self.heads.value(x)

    def project_all(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of a chunk, positions applied."""
        q, k, v = self.heads.project_all(self.add_positions(x, positions))
        if self.config.positions == "rotary":
            angle = rotary_angles(positions, self.config.size, q.dtype)
            q, k = rotate_pairs(q, *angle), rotate_pairs(k, *angle)
        return q, k, v

    def add_positions(self, x: Tensor, positions: Tensor) -> Tensor:
        return x if self.added is None else x + self.added(positions, x.dtype)

    def append(self, state: State | Buffer, k: Tensor, v: Tensor) -> State | Buffer:
        """The state with new keys and values in their slots; each row writes at its own clock."""
        window, steps, slots = self.config.window, k.shape[1], state.keys.shape[1]
        clock = state.clock + steps
        if window is not None:  # of a chunk longer than the ring only the end remains
            k, v = k[:, -window:], v[:, -window:]
        k, v = k.to(state.keys.dtype), v.to(state.values.dtype)
        wanted = slots + steps if window is None else min(slots + steps, window)
        if isinstance(state, State) and slots == 0 and wanted == steps:
            # a state must not share storage: not with the input (parameter-free attention), nor with queries
            return State(k.contiguous() if self.config.project else k.clone(), v.contiguous(), clock)
        at = next_positions(clock - k.shape[1], k.shape[1])
        at = (at if window is None else at % window)[..., None, None].expand_as(k)
        if isinstance(state, Buffer):
            return Buffer(state.keys.scatter_(1, at, k), state.values.scatter_(1, at, v), clock)
        return State(
            states.fit(state.keys, wanted).scatter(1, at, k),
            states.fit(state.values, wanted).scatter(1, at, v),
            clock,
        )

    def slot_positions(self, state: State | Buffer) -> Tensor:
        """B N: the position that each slot holds, negative where it holds none."""
        slots = torch.arange(state.keys.shape[1], device=state.clock.device)
        last = state.clock[:, None] - 1
        if self.config.window is None:
            return torch.where(slots <= last, slots, -1)
        return last - (last - slots) % self.config.window

    def places(self, query: Tensor, key: Tensor) -> Places:
        """Which keys each query may attend to, from their positions: B T, B N."""
        visible = (key >= 0)[:, None].expand(-1, query.shape[1], -1)
        ahead = key[:, None] - query[:, :, None]
        if self.config.masked:
            visible = visible & (ahead <= 0)
        if self.config.window is not None:
            visible = visible & (ahead > -self.config.window)
        return Places(visible, query, key)

    def bias(self, places: Places) -> Tensor | None:
        """ALiBi's penalty, which grows with distance: B|1 H T N."""
        if self.config.positions != "alibi":
            return None
        return places.offset()[:, None] * self.slopes[:, None, None]

    def explain(self, state: State | Buffer, x: Tensor) -> dict[str, Tensor]:
        """`weights`: B H N, over the slots of the updated state."""
        after = self.update(state, x)
        now = after.clock[:, None] - 1
        places = self.places(now, self.slot_positions(after))
        weights = self.attend.weights(self.query(x[:, None], now), after.keys, places, bias=self.bias(places))
        return {"weights": weights[:, :, 0]}

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        window = min(self.config.window or steps, steps)
        pairs = window * (window + 1) // 2 + (steps - window) * window  # each step sees itself and what came before
        kept = batch * min(steps, window) * self.config.groups * self.config.size
        flops = batch * (self.heads.flops(steps, steps) + self.attend.flops(steps, pairs))
        return Cost(flops, 2 * kept * self.element_size() + 8 * batch)

    def diagnose(self, x: Tensor, state: State | Buffer) -> str | None:
        if self.added is not None and (problem := self.added.diagnose(state.clock, x.shape[1])):
            return problem
        slots, needed = state.keys.shape[1], int(state.clock.max()) + x.shape[1]
        if isinstance(state, Buffer) and slots < needed and slots < (self.config.window or needed):
            return f"expected at most {slots} steps (capacity), found {needed}; start with a larger capacity"
        return super().diagnose(x, state)

    def load_torch(self, module: torch.nn.MultiheadAttention) -> None:
        """Copy the weights of a `torch.nn.MultiheadAttention` of the same size."""
        self.heads.load_torch(module)
